"""Reads data of any supported form into a tally: arrays, a file, a Minari data set, or an existing tally.

`data` may be

- a mapping or a data frame of columns, or a tuple (s, a, s_next, done) or (s, a, s_next, terminated,
  truncated);
- the path of an NPZ, CSV or Parquet file with such columns (for their usual names see `columns`);
- the folder of a Minari data set or of a collection, an id, or the opened data set itself;
- a `Tally`, such as the `visits` of a wrapper that counts, or anything with an attribute `tally`, such as
  the result of `collect`.

Observations of a Minari data set are encoded by `states`, as in `collect`. Spaces that are finite already
need no encoding, and neither does a data set that `collect` wrote, because its datasheet contains it. Only
numbers are taken from a datasheet: edges of bins, levels of actions, lists of actions; a user's function
cannot be stored. Episodes begin as in Minari; `terminations` are ends, `truncations` are not. The data are
read and counted in pieces, so memory does not grow with them. No environment is made from the metadata of a
data set.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import IntArray
from rhocover.datasets.builder import Tallier
from rhocover.datasets.columns import Numbers, chunks_of_table, find_columns, whole_numbers
from rhocover.datasets.minari.columns import windows
from rhocover.datasets.states import Declared, Ids, StateNumbers, WatchedStates, make_state_numbers
from rhocover.datasets.tables import READERS, DataTable, table_of_columns
from rhocover.datasets.tally import Tally
from rhocover.documents import from_document
from rhocover.environments.encoding import ACTION_CODE, ACTIONS, state_code_from_document
from rhocover.environments.encoding.base import MAX_ACTIONS
from rhocover.environments.encoding.hashes import SimHash
from rhocover.environments.encoding.nets import Net
from rhocover.environments.encoding.watching import Watch
from rhocover.errors import (
    Argument,
    FileFormatError,
    InvalidArgumentError,
    InvalidDataError,
    calling,
    inside,
    naming,
    parse_text,
    shortened,
)
from rhocover.files import check_format, load_document
from rhocover.learning.codes import is_lossy

# The data set in the folder of a collection.


def find_data(text: str) -> str:
    """Returns the path of the data: for the folder of a collection, the data set in it."""
    place = checks.place(text, "data", "file or folder") / "collection.json"
    if not place.is_file() or (Path(text) / "data").exists():
        return text
    try:
        document = load_document(place)
        check_version(place, document)
        name = document["dataset_id"]
        found = (Path(text) / name).resolve()
        is_there = found.is_dir()
    except FileFormatError:
        raise
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise InvalidDataError(f"collection.json in {text!r} is damaged: {shortened(error)}.") from error
    if not found.is_relative_to(Path(text).resolve()):
        raise InvalidDataError(
            f"collection.json in {text!r} is damaged: {shortened(repr(name))} is not in that folder."
        )
    if not (Path(text) / "datasheet.json").is_file():
        raise InvalidDataError(
            f"the collection in {text!r} is not finished. Continue it: repeat the same call with resume."
        )
    if not is_there:
        raise InvalidDataError(f"collection.json in {text!r} is damaged: there is no data set {name!r}.")
    return str(Path(text) / name)


def check_version(place: Path | str, document: dict[str, Any]) -> None:
    """Raises if a later rhocover wrote the settings or datasheet, naming the version that can read them."""
    versions = document.get("versions")
    writer = versions.get("rhocover") if isinstance(versions, dict) else None
    check_format(place, document.get("format", 1), writer)  # the first format was not numbered


# Data of any form.

OTHERS = ("states", "actions", "num_states", "num_actions", "held_out", "model")  # that errors may name
KEPT = 1 << 16  # steps of the Markov test, which then takes a quarter of a second
Codes = tuple[Any, Any]  # `states` and `held_out`, as the caller gave them
TUPLE_NAMES = {4: ("s", "a", "s_next", "done"), 5: ("s", "a", "s_next", "terminated", "truncated")}


def read_tally(
    data: Any,
    *,
    states: Any = None,
    actions: Any = None,
    num_states: int | None = None,
    num_actions: int | None = None,
    spaces: tuple[Any, Any] | None = None,
    held_out: Any = None,
) -> Tally:
    """Returns the counts of a data set.

    `states` and `actions` define how observations and actions are encoded, as for `collect` (`rc.Bins`, a
    function); numbers need neither. `num_states` and `num_actions` are how many there are: larger ids raise
    an error, and states that were never met and actions that were never taken count as uncovered. `spaces`
    are the observation and the action space that a Minari data set must have. `held_out` is a second code of
    observations, which is only counted.
    """
    num_states = None if num_states is None else checks.size(num_states, "num_states", least=1)
    num_actions = None if num_actions is None else checks.size(num_actions, "num_actions", least=1)
    codes = states, held_out
    if isinstance(data, str | os.PathLike):
        checks.place(data, "data", "file or folder")
        with naming(data), inside("data", *OTHERS):
            return _read(find_data(os.fspath(data)), codes, actions, num_states, num_actions, spaces)
    with inside("data", *OTHERS):
        return _read(data, codes, actions, num_states, num_actions, spaces)


def _read(data: Any, codes: Codes, actions: Any, num_states: Any, num_actions: Any, spaces: Any) -> Tally:
    ready = data if isinstance(data, Tally) else getattr(data, "tally", None)
    if isinstance(ready, Tally):
        return _checked(ready, codes, actions, num_states, num_actions)
    if _is_minari(data):
        tally = tally_of_minari(data, codes[0], actions, spaces, codes[1])
        return _checked(tally, (None, None), None, num_states, num_actions)
    return _tally_of_table(open_table(data), codes, actions, num_states, num_actions)


def open_table(data: Any) -> DataTable:
    """Returns arrays or a file of arrays as a table; raises for anything else."""
    if isinstance(data, str | os.PathLike):
        path = Path(data)
        if not path.is_file():
            raise InvalidDataError.of("data", f": there is no file {str(path)!r}")
        return READERS[path.suffix.lower()](path)
    if isinstance(data, Mapping):
        return table_of_columns(data, "the data")
    if isinstance(data, tuple | list):
        if len(data) in TUPLE_NAMES:
            return table_of_columns(dict(zip(TUPLE_NAMES[len(data)], data, strict=True)), "the data")
    elif hasattr(data, "columns") and hasattr(data, "__getitem__"):  # a data frame
        return table_of_columns({name: data[name] for name in data.columns}, "the data")
    raise InvalidDataError.of(
        "data",
        "must be columns (a mapping, a data frame or a tuple s, a, s_next, done), a path ending in "
        f"{', '.join(READERS)}, a Minari data set or its id, or a Tally; got {_kind(data)}",
    )


def _kind(data: Any) -> str:
    kind = type(data).__name__
    return f"a {kind} of {len(data)}" if isinstance(data, tuple | list) else f"{kind}"


def _is_minari(data: Any) -> bool:
    """Returns whether `data` is a Minari data set, its folder, or (any other string) its id."""
    if isinstance(data, str | os.PathLike):
        path = Path(data)
        if path.is_file() and path.suffix.lower() not in READERS:
            raise InvalidDataError.of(
                "data", f": {str(path)!r} must end in {', '.join(READERS)}, or be a Minari data set's folder"
            )
        return path.suffix.lower() not in READERS or path.is_dir()
    return any(hasattr(type(data), name) for name in ("iterate_episodes", "episodes"))


def _tally_of_table(
    table: DataTable, codes: Codes, actions: Any, num_states: int | None, num_actions: int | None
) -> Tally:
    columns = find_columns(table.names, table.name)
    pieces = table.pieces(columns.needed)
    first = next(pieces, None)
    if first is None or not len(first[columns.state]):
        raise InvalidDataError(
            f"{table.name} has zero rows: there is nothing to count. At least one is needed."
        )
    then = None if columns.next_state is None else first[columns.next_state]
    codes = (_fitted(codes[0], first[columns.state], then), _fitted(codes[1], first[columns.state], then))
    coder = _state_numbers(codes, first[columns.state], num_states)
    number_actions, names = _action_numbers(actions, first[columns.action])
    count = num_actions if names is None else len(names)
    next_name = columns.next_state or columns.state
    num_rows = table.num_rows if columns.next_state else 0  # without next states some rows are left out
    names_of = columns.state, columns.action, next_name
    tallier = Tallier(count, coder.count, num_rows, names=names_of, num_kept=_num_kept(coder))

    def whole() -> Any:
        yield first
        yield from pieces

    for chunk in chunks_of_table(whole(), columns, coder.numbers, number_actions):
        tallier.add(
            chunk.states, chunk.actions, chunk.next_states, chunk.terminated, chunk.truncated, chunk.first
        )
    tally = _tested(coder.named(tallier.tally(source=table.name, action_names=names)), tallier)
    return tally if codes[0] is None else _of_so_many(tally, num_states)


FITTED = (Net, SimHash)
MOST_FITTED = 10_000  # steps of a data set to which a code is fitted, the first ones


def _fitted(states: Any, observations: Any, then: Any = None) -> Any:
    """Returns the argument `states`; a net or a hash is fitted to the first steps of the data."""
    if isinstance(states, SimHash):
        return states.fit(observations[:MOST_FITTED])
    if isinstance(states, Net):
        return states.fit(observations[:MOST_FITTED], then=None if then is None else then[:MOST_FITTED])
    return states


def _state_numbers(codes: Codes, example: Any, num_states: int | None) -> StateNumbers:
    """Returns the numbering of states; a code is made for observations of the shape of `example`."""
    states, held_out = codes
    if states is None and held_out is None:
        return Ids(num_states)
    from rhocover.environments.encoding import read_state_code

    space = _space_of(example)
    if states is None:
        from rhocover.environments.encoding import WholeNumber

        return WatchedStates(Ids(num_states), Watch(WholeNumber(1), _held_out(held_out, space)))
    return _watched(read_state_code(states, space), held_out, space)


def _watched(code: Any, held_out: Any, space: Any) -> StateNumbers:
    """Returns the numbering of a state code, with a sample of the observations and the held-out code."""
    watch = Watch(code, _held_out(held_out, space))
    return make_state_numbers(code, watch if is_lossy(code) or held_out is not None else None)


def _num_kept(numbers: StateNumbers) -> int:
    """Returns how many steps the Markov test needs; it is for codes of observations."""
    return KEPT if isinstance(numbers, WatchedStates) and is_lossy(numbers.watch.code) else 0


def _tested(tally: Tally, tallier: Tallier) -> Tally:
    """Returns a tally of codes with the test of whether they are Markov."""
    coded, found = tally.coded, tallier.markov_test()
    return tally if coded is None or found is None else replace(tally, coded=replace(coded, markov=found))


def _held_out(held_out: Any, space: Any) -> Any:
    """Returns the held-out code; None without one."""
    from rhocover.environments.encoding import read_state_code

    if held_out is None:
        return None
    with calling(states="held_out"):
        return read_state_code(held_out, space)


def _action_numbers(actions: Any, example: Any) -> tuple[Numbers, tuple[str, ...] | None]:
    """Returns the numbering of actions, and their names."""
    if actions is None:
        return whole_numbers, None
    from rhocover.environments.encoding import read_action_code

    code = read_action_code(actions, _action_space_of(example, actions))
    names = code.names or tuple(str(number) for number in range(len(code.values)))
    return (lambda values, name, row: code.numbers(values)), names


def _action_space_of(example: Any, actions: Any) -> Any:
    """Returns the space of actions like these: finite if they and the listed ones are whole numbers."""
    from gymnasium import spaces

    given, listed = np.asarray(example), np.asarray(actions)
    if given.dtype.kind not in "iu" or listed.dtype.kind not in "iu" or listed.ndim != given.ndim:
        return _space_of(example)
    if given.ndim == 1:
        return spaces.Discrete(MAX_ACTIONS)
    most = listed.reshape(len(listed), -1).max(axis=0, initial=0) + 1
    return spaces.MultiDiscrete(np.maximum(most, 1))


def _space_of(example: Any) -> Any:
    """Returns the space of observations like these, without bounds, because a table has none."""
    import numpy as np
    from gymnasium import spaces

    shape = np.asarray(example).shape[1:]
    return spaces.Box(-np.inf, np.inf, shape, np.float64)


def _checked(
    tally: Tally, codes: Codes, actions: Any, num_states: int | None, num_actions: int | None
) -> Tally:
    """Returns an existing tally; raises if other arguments do not fit it."""
    for value, name in ((codes[0], "states"), (actions, "actions"), (codes[1], "held_out")):
        if value is not None:
            raise InvalidArgumentError.of(
                name, f"is for observations, but {tally.source} is already counted", remedy="Leave it out."
            )
    if num_actions is not None and num_actions != tally.num_actions:
        raise InvalidDataError.of(
            "num_actions",
            f"is {num_actions}, but {tally.source} has {tally.num_actions}",
            remedy="Is it data of another environment?",
        )
    return _of_so_many(tally, num_states)


def _of_so_many(tally: Tally, num_states: int | None) -> Tally:
    """Returns the tally with `num_states` declared states; raises if it has others."""
    if num_states is None:
        return tally
    beyond = [key for key in tally.keys if not _is_below(key, num_states)]
    if beyond:
        raise InvalidDataError.of(
            "num_states",
            f"is {num_states}, so states are 0 to {num_states - 1}, but {tally.source} has "
            f"{checks.name_some(beyond)}",
            remedy="Is it data of another environment?",
        )
    if tally.keys == tuple(range(num_states)):
        return tally
    code = tally.declared and tally.declared.code
    fits = code is not None and num_states - 1 in (code.every_key or ())
    return replace(tally, declared=Declared(range(num_states), code if fits else None, True))


def _is_below(key: Any, num_states: int) -> bool:
    return isinstance(key, int) and 0 <= key < num_states


# The encoding in the datasheet of a data set.

TABLES = (".parquet", ".npz", ".csv")


def codes_of_data(data: str) -> tuple[Any, Any]:
    """Returns `states` and `actions` for the environment that a data set was collected in.

    They are None if no encoding is needed: for tables, and for spaces that are finite already.
    """
    if Path(data).is_file() or Path(data).suffix.lower() in TABLES:
        return None, None
    from rhocover.datasets.minari.files import open_minari

    source = open_minari(data)
    states = stored(source, "states")
    is_fitted = isinstance(states, dict) and states.get("kind") in ("bins", "net", "simhash", "image")
    code = state_code_from_document(states, source.observation_space) if is_fitted else None
    return code, stored_actions(source)


def stored_setting(data: str, name: str) -> Any:
    """Returns a setting of the collection that a data set comes from; None for other data."""
    if Path(data).is_file() or Path(data).suffix.lower() in TABLES:
        return None
    from rhocover.datasets.minari.files import open_minari

    return stored(open_minari(data), name)


def stored(source: Any, name: str) -> Any:
    """Returns the setting `name` from the datasheet of an opened data set; None without a datasheet."""
    sheet = source.metadata.get("rhocover")
    settings = sheet.get("settings") if isinstance(sheet, dict) else None
    if not isinstance(sheet, dict) or not isinstance(settings, dict):
        return None
    check_version(f"the datasheet of {source.dataset_id}", sheet)
    return settings.get(name)


def stored_actions(source: Any) -> Any:
    """Returns the number of levels of each component, or the listed actions; None for all of a space."""
    document = stored(source, "actions")
    kind = document.get("kind") if isinstance(document, dict) else None
    if kind not in ACTIONS:
        return None
    try:
        found = from_document(ACTION_CODE, document, "the action code")
    except FileFormatError as error:
        damaged = (
            f": the actions of {source.dataset_id} are damaged, or not those of its action space: {error}"
        )
        raise InvalidDataError.of("data", damaged.removesuffix(".")) from error
    if kind == "levels":
        return [len(levels) for levels in found.levels]
    if kind == "chosen" and not source.action_space.shape:
        return [action[0] for action in found.actions]
    return found.actions


# Minari data sets.

AT_ONCE = 1 << 22  # numbers of observations that are encoded together: 32 MB as float64


def tally_of_minari(
    data: Any, states: Any = None, actions: Any = None, spaces: tuple[Any, Any] | None = None,
    held_out: Any = None,
) -> Tally:  # fmt: skip
    """Returns the counts of a Minari data set, given as its id, its folder, or opened.

    `spaces` are the observation and the action space that it must have.
    """
    from rhocover.datasets.minari.files import MinariSource, open_minari

    source = data if isinstance(data, MinariSource) else open_minari(data)
    if spaces is not None:
        _check_space(source.observation_space, spaces[0], "observation space", source.dataset_id)
        _check_space(source.action_space, spaces[1], "action space", source.dataset_id)
    code = _watched(_state_code(states, source), held_out, source.observation_space)
    action_code = _action_code(actions, source)
    tallier = Tallier(len(action_code.values), code.count, num_kept=_num_kept(code))
    goes_on = False
    for columns in source.pieces():
        count_episodes(tallier, columns, code, action_code, source.dataset_id, goes_on)
        goes_on = columns.has_more
    if not tallier.num_steps:
        raise InvalidDataError.of("data", f": {source.dataset_id} has zero steps: there is nothing to count")
    tally = tallier.tally(source=str(source.dataset_id), action_names=action_code.names)
    return _tested(code.named(tally), tallier)


def count_episodes(
    tallier: Tallier, columns: Any, code: StateNumbers, action_code: Any, source: str, goes_on: bool = False
) -> None:
    """Counts a piece: E episodes with N steps in all have N + E observations, one more than steps each.

    If the piece before ended within an episode, this one `goes_on` with it.
    """
    if isinstance(code, WatchedStates):
        code.watch.is_next_known = goes_on  # the last observation of the piece before
    try:
        seen = _minari_state_numbers(columns.observations, code, tallier.num_steps)
        actions = action_code.numbers(columns.actions)
    except InvalidArgumentError as error:
        where = f": {source} cannot be read after step {tallier.num_steps}: "
        raise InvalidDataError((Argument("data"), where, *error.text), argument="data") from error
    lengths = np.asarray(columns.lengths, np.int64)
    is_state, is_next = _within_episodes(lengths)
    first = np.zeros(actions.size, bool)
    first[(np.cumsum(lengths) - lengths)[lengths > 0]] = True
    first[0] &= not goes_on
    tallier.add(seen[is_state], actions, seen[is_next], columns.terminations, columns.truncations, first)


def _minari_state_numbers(observations: Any, code: StateNumbers, first_row: int) -> IntArray:
    """Returns the number of each observation, in parts, because codes convert observations to float64."""
    parts = [code.numbers(_rows(some), "observations", first_row) for some in windows(observations, AT_ONCE)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _state_code(states: Any, source: Any) -> Any:
    """Returns the given state code, else the one in the datasheet of a collection."""
    from rhocover.environments.encoding import read_state_code, state_code_from_document

    document = stored(source, "states")
    if states is None and document is not None:
        return state_code_from_document(document, source.observation_space)
    if isinstance(states, FITTED) and (first := next(source.pieces(), None)) is not None:
        is_state, is_next = _within_episodes(np.asarray(first.lengths, np.int64))
        shown = list(_rows(first.observations))
        chosen = [[shown[t] for t in np.flatnonzero(which)] for which in (is_state, is_next)]
        states = _fitted(states, *chosen)
    return read_state_code(states, source.observation_space)


def _within_episodes(lengths: IntArray) -> tuple[Any, Any]:
    """Returns which observations are followed by a step, and which follow one, `[N + E]` each."""
    begin = np.cumsum(lengths) - lengths + np.arange(lengths.size)  # of each episode, among observations
    is_state, is_next = np.ones((2, int(lengths.sum()) + lengths.size), bool)
    is_state[begin + lengths] = False
    is_next[begin] = False
    return is_state, is_next


def _action_code(actions: Any, source: Any) -> Any:
    """Returns the given action code, else that of the levels or the list of actions in a datasheet."""
    from rhocover.environments.encoding import read_action_code

    found = stored_actions(source) if actions is None else None
    if found is None:
        return read_action_code(actions, source.action_space)
    try:
        code = read_action_code(found, source.action_space)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidDataError.of(
            "data", f": the actions of {source.dataset_id} are damaged: {error}"
        ) from error
    if code.document() != dict(stored(source, "actions")):
        raise InvalidDataError.of(
            "data", f": the actions of {source.dataset_id} are not those of its action space"
        )
    return code


def _check_space(came: Any, expected: Any, name: str, source: str) -> None:
    if came != expected:
        raise InvalidDataError.of(
            "data",
            parse_text(
                f": {source} has the {name} {came}, but `model` has {expected}: it belongs to another "
                "environment"
            ),
            remedy=parse_text("Leave `model` out."),
        )


def _rows(observations: Any) -> Any:
    """Returns observations with one entry per step: nested columns become a list of values."""
    if isinstance(observations, dict):
        parts = {key: _rows(value) for key, value in observations.items()}
        length = len(next(iter(parts.values())))
        return [{key: part[t] for key, part in parts.items()} for t in range(length)]
    if isinstance(observations, tuple):
        return list(zip(*(_rows(part) for part in observations), strict=True))
    return observations
