"""Data sets on the command line: what an error about one of them can add.

A name that is not that of a data set is answered with those that are there. A state or an action that is too
large is answered with the option that limits it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rhocover.errors import InvalidArgumentError, parse_text

CODES = ("states", "held_out")
COLLECTIONS, MINARI = (
    ("manifest.json", "collection.json"),
    "data/metadata.json",
)  # in the folder of a data set


def parse_data(places: Sequence[str]) -> Any:
    """Returns the argument `data`: one place, or a list of them."""
    return places[0] if len(places) == 1 else list(places)


@contextmanager
def explained(data: Sequence[str], **limits: int | None) -> Iterator[None]:
    """Adds to errors about a data set; `limits` are `num_states` and `num_actions`, as they were typed."""
    try:
        yield
    except InvalidArgumentError as error:
        part = {"s": "num_states", "a": "num_actions"}.get(error.part.partition("_")[0], "")
        if limits.get(part) is not None:
            error.add_remedy(parse_text(f"Leave `{part}` out, or count more of them."))
        elif error.argument == "data" and (other := next((name for name in data if not _is_data(name)), "")):
            error.add_remedy(_instead(other) if len(data) == 1 else f"Leave {other!r} out.")
        elif error.argument in CODES and all(Path(name).is_file() for name in data):
            error.add_remedy(parse_text(f"Leave `{error.argument}` out if the states are numbers already."))
        raise


def _is_data(name: str) -> bool:
    from rhocover.datasets.forms.opening import READERS, is_table, kind_of

    path = Path(name)
    if path.is_dir():
        return _is_collection(path) or (path / MINARI).is_file() or is_table(path)
    return path.is_file() and kind_of(path) in READERS


def _is_collection(folder: Path) -> bool:
    return any((folder / name).is_file() for name in COLLECTIONS)


def _instead(data: str) -> str:
    """Returns what may have been meant by a name, or one data set that is there; "" if there is none."""
    marks = (mark for name in COLLECTIONS for mark in Path().glob(f"*/*/{name}"))
    places = [*Path().glob("*"), *(mark.parent for mark in marks)]
    there = sorted(str(path) for path in places if _is_data(str(path)))
    if near := difflib.get_close_matches(data, there, n=1, cutoff=0.6):
        return f"Did you mean {near[0]!r}?"
    sets = [name for name in there if _is_collection(Path(name))]  # a table may be anything
    return f"There is data in {sets[0]!r}." if sets else ""
