"""The tally of a Minari data set, whoever collected it.

Observations become states by the code that `states` asks for, as in `collect`; spaces that are finite already
need none, and neither does what `collect` itself wrote: its datasheet says which bins it used. An episode
begins where Minari says so; `terminations` are ends, `truncations` are cuts. The data is read and counted in
pieces, so what is held does not grow with it.

No environment is made from what the data set says of itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rhocover.adapters.stored_rows import windows
from rhocover.checks import IntArray
from rhocover.data.state_numbers import StateNumbers, make_state_numbers
from rhocover.data.stored_codes import stored, stored_actions
from rhocover.data.tally import Tally
from rhocover.data.tallying import Tallier
from rhocover.errors import InvalidArgumentError, InvalidDataError

AT_ONCE = 1 << 22  # numbers of observations that become states together: 32 MB as float64


def tally_of_minari(
    data: Any, states: Any = None, actions: Any = None, spaces: tuple[Any, Any] | None = None
) -> Tally:
    """Returns the counts of a Minari data set, given as its id, its folder, or opened.

    `spaces` are the observation and the action space that it must have.
    """
    from rhocover.adapters.minari_files import MinariSource, open_minari

    source = data if isinstance(data, MinariSource) else open_minari(data)
    if spaces is not None:
        _check_space(source.observation_space, spaces[0], "observation space", source.dataset_id)
        _check_space(source.action_space, spaces[1], "action space", source.dataset_id)
    code = make_state_numbers(_state_code(states, source))
    action_code = _action_code(actions, source)
    tallier = Tallier(len(action_code.values), code.count)
    goes_on = False
    for columns in source.pieces():
        count_episodes(tallier, columns, code, action_code, source.dataset_id, goes_on)
        goes_on = columns.has_more
    if not tallier.num_steps:
        raise InvalidDataError(f"`data`: {source.dataset_id} has zero steps: there is nothing to count.")
    return code.named(tallier.tally(source=str(source.dataset_id), action_names=action_code.names))


def count_episodes(
    tallier: Tallier, columns: Any, code: StateNumbers, action_code: Any, source: str, goes_on: bool = False
) -> None:
    """Counts a piece: E episodes of N steps have N + E observations, the last of each after its last step.

    Where the piece before ended within an episode, this one `goes_on` with it.
    """
    try:
        seen = _state_numbers(columns.observations, code, tallier.num_steps)
        actions = action_code.numbers(columns.actions)
    except InvalidArgumentError as error:
        raise InvalidDataError(
            f"`data`: {source} cannot be read after step {tallier.num_steps}: {error}"
        ) from error
    lengths = np.asarray(columns.lengths, np.int64)
    begin = np.cumsum(lengths) - lengths + np.arange(lengths.size)  # of each episode, among observations
    is_state, is_next = np.ones(seen.size, bool), np.ones(seen.size, bool)
    is_state[begin + lengths] = False
    is_next[begin] = False
    first = np.zeros(actions.size, bool)
    first[(np.cumsum(lengths) - lengths)[lengths > 0]] = True
    first[0] &= not goes_on
    tallier.add(seen[is_state], actions, seen[is_next], columns.terminations, columns.truncations, first)


def _state_numbers(observations: Any, code: StateNumbers, first_row: int) -> IntArray:
    """Returns the number of each observation; codes make wide numbers of them, so they see some at a time."""
    parts = [code.numbers(_rows(some), "observations", first_row) for some in windows(observations, AT_ONCE)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _state_code(states: Any, source: Any) -> Any:
    """Returns the code that was asked for; else the one that the datasheet of a collection describes."""
    from rhocover.adapters.codes import read_state_code, state_code_from_document

    document = stored(source, "states")
    if states is None and document is not None:
        return state_code_from_document(document, source.observation_space)
    return read_state_code(states, source.observation_space)


def _action_code(actions: Any, source: Any) -> Any:
    """Returns the code that was asked for; else the levels or the list of actions of a datasheet."""
    from rhocover.adapters.codes import read_action_code

    said = stored_actions(source) if actions is None else None
    if said is None:
        return read_action_code(actions, source.action_space)
    try:
        code = read_action_code(said, source.action_space)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidDataError(f"`data`: the actions of {source.dataset_id} are damaged: {error}.") from error
    if code.document() != dict(stored(source, "actions")):
        raise InvalidDataError(
            f"`data`: the actions of {source.dataset_id} are not those of its action space."
        )
    return code


def _check_space(came: Any, expected: Any, name: str, source: str) -> None:
    if came != expected:
        raise InvalidDataError(
            f"`data`: {source} has the {name} {came}, `model` has {expected}: it is another environment's."
        )


def _rows(observations: Any) -> Any:
    """Returns observations as something with one entry a step: nested columns become a list of values."""
    if isinstance(observations, dict):
        parts = {key: _rows(value) for key, value in observations.items()}
        length = len(next(iter(parts.values())))
        return [{key: part[t] for key, part in parts.items()} for t in range(length)]
    if isinstance(observations, tuple):
        return list(zip(*(_rows(part) for part in observations), strict=True))
    return observations
