"""The empirical model of a data set, and the tally of a data set over the states of a known model.

The empirical (observed) model has the pairs that were tried, with the frequencies of their next states:

    P(s' | s, a) = ( moves(s, a, s') + ends(s, a) start(s') ) / visits(s, a),     start = starts / episodes

Nothing is smoothed or guessed: a pair that was never tried is not in this model. After the end of an episode
the model continues with a new start, as the data do. A time limit is not an end, so the transition before it
counts like any other; but a state that only occurs as the last one before a truncation has no tried pair, and
transitions into it lead to a new start instead, as in the data.

In the long run a trajectory stays in one end component, so the model is restricted to the component with the
most visits; `note` describes what was left out. The model does not include how certain it is
(`learning.confidence`), nor anything about pairs that were never tried.

With a known model (`over_model`), the states of the data are matched with those of the model by the keys of
the environment, by the model's labels, or by number. Visits of pairs that the model does not have, and
transitions to which it gives probability 0, are impossible: such data are refused, because every figure
about them would be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.chains import EndComponents, maximal_end_components
from rhocover.checks import BoolArray, FloatArray, IntArray, Matrix, frozen
from rhocover.datasets.tally import Tally
from rhocover.errors import (
    Call,
    InvalidArgumentError,
    InvalidDataError,
    calling,
    join_texts,
    parse_text,
    short_names,
)
from rhocover.mdp import MDP
from rhocover.printing import count_of

MOST_ENTRIES = 50_000_000  # entries that restarts may add to the transition matrix
NAMED = 8  # items in a note


@dataclass(frozen=True, eq=False)
class Observed:
    """The empirical model, and which row `s*A + a` of the tally each of its pairs is, `[n]`."""

    mdp: MDP
    pairs: IntArray
    note: str  # text on what was left out; "" if nothing


def observed_model(tally: Tally) -> Observed:
    """Returns the empirical model of the tried pairs, on its end component with the most visits."""
    visits = tally.counts.ravel()
    tried = np.flatnonzero(visits)
    if not tried.size:
        raise InvalidDataError(f"{tally.source} has no transitions, so no model can be estimated from it.")
    whole, states = _whole_model(tally, tried)
    components = maximal_end_components(whole)
    kept = _most_visited(components, visits[tried])
    mdp = whole if kept.all() else whole.subset(kept)[0]
    return Observed(mdp, frozen(tried[kept]), _note(tally, states, tried, kept))


def _whole_model(tally: Tally, tried: IntArray) -> tuple[MDP, IntArray]:
    """Returns the model of all tried pairs, and the tally's number of each of its states."""
    A = tally.num_actions
    states = np.unique(tried // A)
    number = np.full(tally.num_states, -1, np.int64)
    number[states] = np.arange(states.size)
    start = _start(tally, states)
    rows = _rows(tally, tried, number, start)
    names = tally.state_names and [tally.state_names[s] for s in states]
    mdp = MDP.from_pairs(
        rows, number[tried // A], tried % A, num_actions=A, start=start,
        state_labels=names or [str(tally.keys[s]) for s in states], action_labels=tally.action_names,
        layout=tally.layout and tally.layout.subset(states), name=f"the model observed in {tally.source}",
    )  # fmt: skip
    return mdp, states


def _start(tally: Tally, states: IntArray) -> FloatArray:
    """Returns the empirical start distribution over the tried states; without starts, that of all visits."""
    starts = tally.starts[states].astype(float)
    if not starts.any():
        starts = tally.counts[states].sum(axis=1).astype(float)
    return starts / starts.sum()


def _rows(tally: Tally, tried: IntArray, number: IntArray, start: FloatArray) -> Matrix:
    """Returns P of the tried pairs `[n, S]`: transitions among tried states, and restarts for the rest."""
    moves = tally.moves[tried].tocoo()
    pair, state = moves.coords[0], number[moves.coords[1]]
    stays = state >= 0
    shape = (tried.size, start.size)
    inside = sp.csr_array((moves.data[stays].astype(float), (pair[stays], state[stays])), shape=shape)
    lost = np.bincount(pair[~stays], weights=moves.data[~stays], minlength=tried.size)
    restarts = tally.ends[tried] + lost
    check_restarts(tally, restarts, start)
    again = sp.csr_array(restarts[:, None]) @ sp.csr_array(start[None, :])
    visits = tally.counts.ravel()[tried].astype(float)
    return sp.csr_array(sp.diags_array(1 / visits) @ (inside + again))


def check_restarts(tally: Tally, restarts: Any, start: Any) -> None:
    """Raises if the restarts, from every ending pair to every start, would not fit into memory."""
    num_ending, num_starts = np.count_nonzero(restarts), np.count_nonzero(start)
    if num_ending * num_starts > MOST_ENTRIES:
        raise InvalidDataError(
            f"{tally.source} ends episodes in {num_ending} pairs and begins them in {num_starts} states: the "
            "model of its restarts does not fit into memory. Read it with coarser states."
        )


def _most_visited(components: EndComponents, visits: IntArray) -> BoolArray:
    """Returns which tried pairs lie in the end component with the most visits, `[n]`."""
    inside = components.pair_label >= 0
    weight = np.bincount(components.pair_label[inside], weights=visits[inside], minlength=components.count)
    return components.pair_label == int(np.argmax(weight))


def _note(tally: Tally, states: IntArray, tried: IntArray, kept: BoolArray) -> str:
    """Returns the text on what is not in the model."""
    sentences = []
    has_moves_to = np.bincount(tally.moves.indices, minlength=tally.num_states) > 0
    has_moves_to[states] = False
    unknown, dropped = np.flatnonzero(has_moves_to), tried[~kept]
    if unknown.size:
        sentences.append(
            f"{count_of(unknown.size, 'state')} only met where an episode was truncated: "
            f"{_names(unknown, tally.state_name)}; transitions into them lead to a new start instead."
        )
    if dropped.size:
        share = tally.counts.ravel()[dropped].sum() / tally.num_steps
        sentences.append(
            f"{count_of(dropped.size, 'tried pair')} with {share:.3g} of the visits cannot be visited in the "
            f"long run in the observed model: {_names(dropped, tally.pair_name)}."
        )
    return " ".join(sentences)


def _names(items: IntArray, name: Callable[[int], str]) -> str:
    """Returns the names of the first items and how many more there are."""
    shown = ", ".join(short_names([name(int(item)) for item in items[:NAMED]]))
    return f"{shown} and {items.size - NAMED} more" if items.size > NAMED else shown


# Data and a known model.

BY_ITSELF = parse_text("Leave `model` out: the best is then that of the observed model.")
IMPOSSIBLE = parse_text(
    "Is it data of another environment? To evaluate it without a known model, leave `model` out."
)
FROM_ENVIRONMENT = (
    "An MDP made from an environment numbers the states anew: if it is data of that environment, ",
    Call("pass the environment, model=env", "give its name, --model ENV"),
    ".",
)


@dataclass(frozen=True, eq=False)
class KeyedModel:
    """A model; `keys` are the keys of its states in the data, None for their labels or numbers."""

    mdp: MDP
    keys: tuple[Hashable, ...] | None = None
    spaces: tuple[Any, Any] | None = None  # of observations and actions, if an environment was given


def read_model(model: Any, actions: Any = None) -> KeyedModel | None:
    """Returns a model with the keys of its states: an MDP, or that of an environment's table.

    `actions` are those of the environment that the model has, None for all.
    """
    if model is None or isinstance(model, KeyedModel):
        return model
    if isinstance(model, MDP):
        return KeyedModel(model)
    if hasattr(model, "unwrapped"):
        from rhocover.environments.encoding import read_action_code
        from rhocover.environments.table_model import read_table

        try:
            with calling(env="model"):
                spaces = model.observation_space, model.action_space
                chosen = None if actions is None else read_action_code(actions, spaces[1]).chosen
                table = read_table(model, actions=chosen)
        except InvalidArgumentError as error:
            error.remedy = error.remedy and BY_ITSELF
            raise
        return KeyedModel(table.model, tuple(table.states.tolist()), spaces)
    raise InvalidArgumentError.of(
        "model", "must be an MDP or a Gymnasium environment with a table", type(model).__name__
    )


def over_model(tally: Tally, known: KeyedModel) -> Tally:
    """Returns the tally over the model's states; raises if the model rules out what the data contain."""
    model = known.mdp
    if tally.num_actions != model.num_actions:
        came = count_of(tally.num_actions, "action")
        has = f"{tally.source} has {came}, but `model` has {model.num_actions}."
        raise InvalidDataError(parse_text(has), argument="model", remedy=IMPOSSIBLE)
    try:
        return _by_states(tally, known)
    except InvalidDataError as error:
        if known.keys is None:
            error.remedy = join_texts(FROM_ENVIRONMENT, error.remedy)
        raise


def _by_states(tally: Tally, known: KeyedModel) -> Tally:
    """Returns the tally over the model's states, matched by keys, labels or numbers."""
    model = known.mdp
    labels = model.state_labels
    names = [tally.state_name(state) for state in range(tally.num_states)]
    if known.keys is not None:
        tally = _placed(tally, list(tally.keys), known.keys)
    elif labels is not None and set(names) & set(labels):
        tally = _placed(tally, names, labels)
    else:
        tally = _placed(tally, list(tally.keys), range(model.num_states))
    tally = replace(tally.over(range(model.num_states), labels), action_names=model.action_labels)
    _check_pairs(tally, model)
    _check_moves(tally, model)
    return tally


def _placed(tally: Tally, names: list[Any], whole: Sequence[Any]) -> Tally:
    """Returns the tally with the model's numbers as keys; `whole` are the names of the model's states."""
    place = {name: number for number, name in enumerate(whole)}
    lost = [name for name in names if name not in place]
    if lost:
        has = (
            f"{tally.source} has states that `model` does not have: {checks.name_some(lost)}; it "
            f"has {count_of(len(place), 'state')}: {checks.name_some(list(place), 4)}."
        )
        raise InvalidDataError(parse_text(has), argument="model", remedy=IMPOSSIBLE)
    return replace(tally, keys=tuple(place[name] for name in names))


def _check_pairs(tally: Tally, model: MDP) -> None:
    """Raises if a visited pair is not in the model."""
    absent = (tally.counts > 0) & (model.table(np.ones(model.num_pairs)) == 0)
    if absent.any():
        name = tally.pair_name(int(np.flatnonzero(absent)[0]))
        visits = f"{tally.source} visits {name}, which `model` does not allow."
        raise InvalidDataError(parse_text(visits), argument="model", remedy=IMPOSSIBLE)


def _check_moves(tally: Tally, model: MDP) -> None:
    """Raises if an observed transition has probability 0."""
    rows = tally.moves[model.pair_state * tally.num_actions + model.pair_action]
    seen = rows.astype(bool).astype(np.int8)
    possible = model.transitions.astype(bool).astype(np.int8)
    impossible = (seen - seen.multiply(possible)).tocoo()
    wrong = np.flatnonzero(impossible.data)
    if wrong.size:
        pair, state = (int(part[wrong[0]]) for part in impossible.coords)
        goes = f"{tally.source} goes from {model.pair_name(pair)} to {tally.state_name(state)}"
        text = f"{goes}, to which `model` gives probability 0."
        raise InvalidDataError(parse_text(text), argument="model", remedy=IMPOSSIBLE)
