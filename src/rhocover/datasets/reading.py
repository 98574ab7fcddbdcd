"""Reads data of any supported form into a tally: arrays, a file, a Minari data set, or an existing tally.

`data` may be

- a mapping or a data frame of columns, or a tuple (s, a, s_next, done) or (s, a, s_next, terminated,
  truncated); a table of pyarrow, a data set of Hugging Face, a replay buffer of Stable-Baselines3, episodes;
- the path of a file with such columns (for their usual names see `columns`), of several (a list, a pattern
  or a folder), or of what `save_to_disk` wrote; `forms` has all of them;
- the folder of a Minari data set or of a collection, an id, or the opened data set itself;
- a `Tally`, such as the `visits` of a wrapper that counts, or anything with an attribute `tally`, such as
  the result of `collect`.

The data are read and counted in pieces, so memory does not grow with them. Files are data: nothing in them is
unpickled, downloaded or run.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from rhocover import checks
from rhocover.datasets.collection.manifest import is_collection
from rhocover.datasets.collection.source import collection_folder
from rhocover.datasets.forms.opening import READERS, is_table, open_table
from rhocover.datasets.minari.folders import is_minari_folder, minari_root
from rhocover.datasets.ranges import read_ranges
from rhocover.datasets.read_options import ReadData, ReadOptions
from rhocover.datasets.reading_minari import (
    check_version,
    open_episodes,
    read_episodes,
    stored,
    stored_actions,
)
from rhocover.datasets.reading_tables import read_table
from rhocover.datasets.states import Declared
from rhocover.datasets.tally import Tally
from rhocover.environments.encoding import state_code_from_document
from rhocover.errors import FileFormatError, InvalidArgumentError, InvalidDataError, inside, naming, shortened
from rhocover.files import load_document

# The data set in the folder of a collection.


def find_data(text: Any) -> Any:
    """Returns the path of the data: for a collection, its folder, or the data set in one of the first format.

    A list of paths is returned as it is.
    """
    if not isinstance(text, str):
        return text
    path = checks.place(text, "data", "file or folder")
    if (folder := collection_folder(path)) is not None:
        return str(folder)
    place = path / "collection.json"
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


# Data of any form.

OTHERS = (
    "states",
    "actions",
    "num_states",
    "num_actions",
    "held_out",
    "model",
    "columns",
    "executor",
)  # errors name them


def read_tally(
    data: Any,
    *,
    states: Any = None,
    actions: Any = None,
    num_states: int | None = None,
    num_actions: int | None = None,
    spaces: tuple[Any, Any] | None = None,
    held_out: Any = None,
    columns: Any = None,
    executor: Any = None,
) -> Tally:
    """Returns the counts of a data set.

    `states` and `actions` define how observations and actions are encoded, as for `collect` (`rc.Bins`, a
    function); numbers and names need neither. Codes that must be fitted (`rc.Net()`) are fitted to the first
    steps. `num_states` and `num_actions` are how many there are: larger ids raise an error, and states that
    were never met and actions that were never taken count as uncovered. `spaces` are the observation and the
    action space that a Minari data set must have. `held_out` is a second code of observations, which is only
    counted. `columns` says which columns have the states, actions and so on: `{"s": "pos"}`. `executor`
    counts files in ranges of rows, as for `audit`.
    """
    asked = ReadOptions(
        states=states, actions=actions, num_states=num_states, num_actions=num_actions, spaces=spaces,
        held_out=held_out, columns=columns, executor=executor,
    )  # fmt: skip
    return read_data(data, asked).tally


def read_data(data: Any, asked: ReadOptions) -> ReadData:
    """Returns the counts of a data set, and the code of its states after reading."""
    sizes = {"num_states": asked.num_states, "num_actions": asked.num_actions}
    given = {name: checks.size(size, name, least=1) for name, size in sizes.items() if size is not None}
    asked = replace(asked, **given)
    if isinstance(data, str | os.PathLike):
        checks.place(data, "data", "file or folder")
        with naming(data), inside("data", *OTHERS):
            return _read(find_data(os.fspath(data)), asked)
    with inside("data", *OTHERS):
        return _read(data, asked)


def _read(data: Any, asked: ReadOptions) -> ReadData:
    if asked.executor is not None and not _is_stored(data):
        return _declared(read_ranges(data, asked), asked)
    ready = data if isinstance(data, Tally) else getattr(data, "tally", None)
    if isinstance(ready, Tally):
        _refuse_columns(asked, ready.source)
        return ReadData(_checked(ready, asked), asked.states)
    if _is_stored(data) or is_minari(data):
        _refuse_columns(asked, str(data))
        read = (read_episodes if asked.executor is None else read_ranges)(data, asked)
        given = replace(asked, states=None, actions=None, held_out=None)
        return replace(read, tally=_checked(read.tally, given))
    return _declared(read_table(open_table(data, asked.columns), asked), asked)


def _declared(read: ReadData, asked: ReadOptions) -> ReadData:
    """Returns the counts of a table with `num_states` declared states, if that many are asked for."""
    is_counted = read.tally.declared is not None and read.tally.declared.is_asked
    return read if is_counted else replace(read, tally=_of_so_many(read.tally, asked.num_states))


def _is_stored(data: Any) -> bool:
    """Whether `data` is the folder of a collection."""
    return isinstance(data, str | os.PathLike) and is_collection(Path(data))


def is_minari(data: Any) -> bool:
    """Returns whether `data` is a Minari data set, its folder, or (any other string) its id."""
    if not isinstance(data, str | os.PathLike):
        return any(hasattr(type(data), name) for name in ("iterate_episodes", "episodes"))
    path = Path(data)
    if path.is_dir() and is_minari_folder(path):
        return True
    has_id = data == str(path) and is_minari_folder(minari_root() / path)  # an id has no ./ before it
    if path.is_dir() and not is_table(path):
        if has_id:
            return True
        raise InvalidDataError.of(
            "data",
            f": {str(data)!r} is a folder without a Minari data set (data/metadata.json), and no file in it "
            f"ends in {', '.join(READERS)}",
        )
    if path.is_dir() and has_id:
        raise InvalidArgumentError(
            f"`{data}` is both a Minari id and a folder here.",
            argument="data",
            remedy=f"Pass './{data}' for the folder.",
        )
    return not is_table(path)


def _refuse_columns(asked: ReadOptions, source: str) -> None:
    if asked.columns is not None:
        raise InvalidArgumentError.of(
            "columns", f"is for tables, but {source} is none", remedy="Leave it out."
        )


def _checked(tally: Tally, asked: ReadOptions) -> Tally:
    """Returns an existing tally; raises if other arguments do not fit it."""
    for value, name in ((asked.states, "states"), (asked.actions, "actions"), (asked.held_out, "held_out")):
        if value is not None:
            raise InvalidArgumentError.of(
                name, f"is for observations, but {tally.source} is already counted", remedy="Leave it out."
            )
    if asked.num_actions is not None and asked.num_actions != tally.num_actions:
        raise InvalidDataError.of(
            "num_actions",
            f"is {asked.num_actions}, but {tally.source} has {tally.num_actions}",
            remedy="Is it data of another environment?",
        )
    return _of_so_many(tally, asked.num_states)


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


def codes_of_data(data: Any) -> tuple[Any, Any]:
    """Returns `states` and `actions` for the environment that a data set was collected in.

    They are None if no encoding is needed: for tables, and for spaces that are finite already.
    """
    if not _has_settings(data):
        return None, None
    source = open_episodes(os.fspath(data))
    states = stored(source, "states")
    is_fitted = isinstance(states, dict) and states.get("kind") in ("bins", "net", "simhash", "image")
    code = state_code_from_document(states, source.observation_space) if is_fitted else None
    return code, stored_actions(source)


def stored_setting(data: Any, name: str) -> Any:
    """Returns a setting of the collection that a data set comes from; None for other data."""
    return stored(open_episodes(os.fspath(data)), name) if _has_settings(data) else None


def _has_settings(data: Any) -> bool:
    """Whether `data` names a collection or a Minari data set."""
    return isinstance(data, str | os.PathLike) and (_is_stored(data) or is_minari(data))
