"""What a user brings, as a tally: arrays, a file, a Minari data set, or something that was tallied already.

`data` may be

- a mapping or a data frame of columns, or a tuple (s, a, s_next, done) or (s, a, s_next, terminated,
truncated); - the path of an NPZ, CSV or Parquet file with such columns (their usual names: see `columns`);
- the folder of a Minari data set or of a collection, an id, or the opened data set itself;
- a `Tally`, or anything with an attribute `tally`, such as what `collect` returns.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rhocover import checks
from rhocover.data.chunks import Numbers, chunks_of_table
from rhocover.data.collections import find_data
from rhocover.data.columns import find_columns, whole_numbers
from rhocover.data.declared import Declared
from rhocover.data.state_numbers import Ids, StateNumbers, make_state_numbers
from rhocover.data.tables import READERS, Table, table_of_columns
from rhocover.data.tally import Tally
from rhocover.data.tallying import Tallier
from rhocover.errors import InvalidArgumentError, InvalidDataError, naming

TUPLE_NAMES = {4: ("s", "a", "s_next", "done"), 5: ("s", "a", "s_next", "terminated", "truncated")}


def read_tally(
    data: Any,
    *,
    states: Any = None,
    actions: Any = None,
    num_states: int | None = None,
    num_actions: int | None = None,
    spaces: tuple[Any, Any] | None = None,
) -> Tally:
    """Returns the counts of a data set.

    `states` and `actions` say how observations become states and actions become numbers, as for `collect`
    (`rc.Bins`, a function); numbers need neither. `num_states` and `num_actions` say how many there are: ids
    beyond are refused, and states that nobody met and actions that nobody took count as uncovered. `spaces`
    are the observation and the action space that a Minari data set must have.
    """
    num_states = None if num_states is None else checks.size(num_states, "num_states", least=1)
    num_actions = None if num_actions is None else checks.size(num_actions, "num_actions", least=1)
    if isinstance(data, str | os.PathLike):
        checks.place(data, "data", "file or folder")
        with naming(data):
            return _read(find_data(os.fspath(data)), states, actions, num_states, num_actions, spaces)
    return _read(data, states, actions, num_states, num_actions, spaces)


def _read(data: Any, states: Any, actions: Any, num_states: Any, num_actions: Any, spaces: Any) -> Tally:
    ready = data if isinstance(data, Tally) else getattr(data, "tally", None)
    if isinstance(ready, Tally):
        return _checked(ready, states, actions, num_states, num_actions)
    if _is_minari(data):
        from rhocover.data.minari_tally import tally_of_minari

        return _checked(tally_of_minari(data, states, actions, spaces), None, None, num_states, num_actions)
    return _tally_of_table(open_table(data), states, actions, num_states, num_actions)


def open_table(data: Any) -> Table:
    """Returns arrays or a file of arrays as a table; refuses what is neither."""
    if isinstance(data, str | os.PathLike):
        path = Path(data)
        if not path.is_file():
            raise InvalidDataError(f"`data`: there is no file {str(path)!r}.")
        return READERS[path.suffix.lower()](path)
    if isinstance(data, Mapping):
        return table_of_columns(data, "the data")
    if isinstance(data, tuple | list):
        if len(data) in TUPLE_NAMES:
            return table_of_columns(dict(zip(TUPLE_NAMES[len(data)], data, strict=True)), "the data")
    elif hasattr(data, "columns") and hasattr(data, "__getitem__"):  # a data frame
        return table_of_columns({name: data[name] for name in data.columns}, "the data")
    raise InvalidDataError(
        f"`data` must be columns (a mapping, a data frame or a tuple s, a, s_next, done), a path ending in "
        f"{', '.join(READERS)}, a Minari data set or its id, or a Tally; got {_said(data)}."
    )


def _said(data: Any) -> str:
    kind = type(data).__name__
    return f"a {kind} of {len(data)}" if isinstance(data, tuple | list) else f"{kind}"


def _is_minari(data: Any) -> bool:
    """Returns whether this is a Minari data set, the folder of one, or (any other text) its id."""
    if isinstance(data, str | os.PathLike):
        path = Path(data)
        if path.is_file() and path.suffix.lower() not in READERS:
            raise InvalidDataError(
                f"`data`: {str(path)!r} must end in {', '.join(READERS)}, or be a Minari data set's folder."
            )
        return path.suffix.lower() not in READERS or path.is_dir()
    return any(hasattr(type(data), name) for name in ("iterate_episodes", "episodes"))


def _tally_of_table(
    table: Table, states: Any, actions: Any, num_states: int | None, num_actions: int | None
) -> Tally:
    columns = find_columns(table.names, table.name)
    pieces = table.pieces(columns.needed)
    first = next(pieces, None)
    if first is None or not len(first[columns.state]):
        raise InvalidDataError(f"{table.name} has zero rows: there is nothing to count. Bring at least one.")
    coder = _state_numbers(states, first[columns.state], num_states)
    number_actions, names = _action_numbers(actions, first[columns.action])
    count = num_actions if names is None else len(names)
    next_name = columns.next_state or columns.state
    num_rows = table.num_rows if columns.next_state else 0  # rows are left out where next states are found
    tallier = Tallier(count, coder.count, num_rows, names=(columns.state, columns.action, next_name))

    def whole() -> Any:
        yield first
        yield from pieces

    for chunk in chunks_of_table(whole(), columns, coder.numbers, number_actions):
        tallier.add(
            chunk.states, chunk.actions, chunk.next_states, chunk.terminated, chunk.truncated, chunk.first
        )
    tally = coder.named(tallier.tally(source=table.name, action_names=names))
    return tally if states is None else _of_so_many(tally, num_states)


def _state_numbers(states: Any, example: Any, num_states: int | None) -> StateNumbers:
    """Returns how states are read; a code for observations is made for as many numbers as they have."""
    if states is None:
        return Ids(num_states)
    from rhocover.adapters.codes import read_state_code

    return make_state_numbers(read_state_code(states, _space_of(example)))


def _action_numbers(actions: Any, example: Any) -> tuple[Numbers, tuple[str, ...] | None]:
    """Returns how actions are read, and their names."""
    if actions is None:
        return whole_numbers, None
    from rhocover.adapters.codes import read_action_code

    code = read_action_code(actions, _space_of(example))
    names = code.names or tuple(str(number) for number in range(len(code.values)))
    return (lambda values, name, row: code.numbers(values)), names


def _space_of(example: Any) -> Any:
    """Returns the space of observations like these, without bounds: a table does not know any."""
    import numpy as np
    from gymnasium import spaces

    shape = np.asarray(example).shape[1:]
    return spaces.Box(-np.inf, np.inf, shape, np.float64)


def _checked(
    tally: Tally, states: Any, actions: Any, num_states: int | None, num_actions: int | None
) -> Tally:
    """Returns a tally that was made elsewhere; refuses what does not go with it."""
    for value, name in ((states, "states"), (actions, "actions")):
        if value is not None:
            raise InvalidArgumentError(
                f"`{name}` is for observations; {tally.source} is counted already. Leave it out."
            )
    if num_actions is not None and num_actions != tally.num_actions:
        raise InvalidDataError(
            f"`num_actions` is {num_actions}, {tally.source} has {tally.num_actions}. Is it data of another "
            "environment?"
        )
    return _of_so_many(tally, num_states)


def _of_so_many(tally: Tally, num_states: int | None) -> Tally:
    """Returns the tally with so many states declared; refuses states beyond them."""
    if num_states is None:
        return tally
    beyond = [key for key in tally.keys if not _is_below(key, num_states)]
    if beyond:
        raise InvalidDataError(
            f"`num_states` is {num_states}, so states are 0 to {num_states - 1}; {tally.source} has "
            f"{checks.name_some(beyond)}. Is it data of another environment?"
        )
    if tally.keys == tuple(range(num_states)):
        return tally
    code = tally.declared and tally.declared.code
    fits = code is not None and num_states - 1 in (code.every_key or ())
    return replace(tally, declared=Declared(range(num_states), code if fits else None, True))


def _is_below(key: Any, num_states: int) -> bool:
    return isinstance(key, int) and 0 <= key < num_states
