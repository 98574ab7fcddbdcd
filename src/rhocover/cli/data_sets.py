"""Data sets on the command line: what an error about one of them can add.

A name that is not that of a data set is answered with those that are there. A state or an action that is too
large is answered with the option that limits it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rhocover.errors import InvalidArgumentError, parse_text

TABLES = (".csv", ".tsv", ".npz", ".parquet", ".pq")
CODES = ("states", "held_out")
COLLECTION, MINARI = "collection.json", "data/metadata.json"  # in the folder of a data set


@contextmanager
def explained(data: str, **limits: int | None) -> Iterator[None]:
    """Adds to errors about a data set; `limits` are `num_states` and `num_actions`, as they were typed."""
    try:
        yield
    except InvalidArgumentError as error:
        part = {"s": "num_states", "a": "num_actions"}.get(error.part.partition("_")[0], "")
        if limits.get(part) is not None:
            error.add_remedy(parse_text(f"Leave `{part}` out, or count more of them."))
        elif error.argument == "data" and not _is_data(Path(data)):
            error.add_remedy(_instead(data))
        elif error.argument in CODES and Path(data).suffix.lower() in TABLES:
            error.add_remedy(parse_text(f"Leave `{error.argument}` out if the states are numbers already."))
        raise


def _is_data(path: Path) -> bool:
    if path.is_dir():
        return (path / COLLECTION).is_file() or (path / MINARI).is_file()
    return path.is_file() and path.suffix.lower() in TABLES


def _instead(data: str) -> str:
    """Returns what may have been meant by a name, or one data set that is there; "" if there is none."""
    places = [*Path().glob("*"), *(mark.parent for mark in Path().glob(f"*/*/{COLLECTION}"))]
    there = sorted(str(path) for path in places if _is_data(path))
    if near := difflib.get_close_matches(data, there, n=1, cutoff=0.6):
        return f"Did you mean {near[0]!r}?"
    sets = [name for name in there if Path(name).is_dir()]  # a table may be anything
    return f"There is data in {sets[0]!r}." if sets else ""
