"""Shards of a comparison: parts of its runs for several processes or machines that share a folder.

Shard k of n has every n-th run of the question's order, beginning with the k-th; the first shard is 1. Its
runs are in a folder of its own, `shards/0003-of-0064` in the folder of the comparison, with a lock of its
own, so shards never wait for each other and never write to the same file. Which shards there are is only in
the names of these folders: the files in them hold the same question as the whole (`finished_runs`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rhocover.errors import Argument, Call, InvalidArgumentError, Setting, Text, format_text
from rhocover.folders import Hold, Location, hold_folder, is_left
from rhocover.printing import count_of, printed

FILE = "comparison.safetensors"  # of a comparison, and of each of its shards
SHARDS = "shards"  # the folder of the shards in that of the comparison
FOLDER = re.compile(r"[0-9]{4,9}-of-[0-9]{4,9}")
TYPED = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")
Run = TypeVar("Run")


@dataclass(frozen=True)
class Shard:
    """Shard `number` of `count`, numbered from 1."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def choose(self, runs: Sequence[Run]) -> Sequence[Run]:
        """Returns the runs of this shard."""
        return runs[self.number - 1 :: self.count]

    def locate(self, out: Location) -> Location:
        """Returns the folder of this shard in the folder of the comparison."""
        name = f"{SHARDS}/{self.number:04d}-of-{self.count:04d}"
        return Location(out.path / name, str(Path(out.shown) / name), "out")


def read_shard(shard: Any, out: Location | None) -> Shard | None:
    """Returns the shard from text such as "3/64"; None is the whole."""
    if shard is None:
        return None
    found = TYPED.fullmatch(shard) if isinstance(shard, str) else None
    if found is None:
        raise InvalidArgumentError.of(
            "shard", "must be its number and how many there are", repr(shard), remedy=_such_as("3", "64")
        )
    number, count = int(found[1]), int(found[2])
    if not 1 <= number <= count:
        way = _such_as("1", str(max(count, 1)))
        raise InvalidArgumentError.of(
            "shard", f"must be numbered from 1 to {max(count, 1)}", repr(shard), remedy=way
        )
    if out is None:
        raise InvalidArgumentError.of(
            "shard", ("needs ", Argument("out"), ", the folder that all shards share"), remedy=_SHARED_FOLDER
        )
    return Shard(number, count)


_SHARED_FOLDER = ("Such as ", Setting("out", '"results"', "results"), ".")


def _such_as(number: str, count: str) -> Text:
    return "Such as ", Setting("shard", f'"{number}/{count}"', f"{number}/{count}"), "."


@dataclass(frozen=True)
class FinishedShard:
    """A shard of a comparison whose runs are done and stored, and how far the whole is.

    `number` and `count` are those of the shard, which has `num_runs` runs. Of the whole, `num_done` of
    `num_total` runs are stored in the folder `out`, by all its shards.
    """

    number: int
    count: int
    num_runs: int
    num_done: int
    num_total: int
    out: str

    @property
    def text(self) -> Text:
        """What is done, and how to put the shards together."""
        runs = "has no runs" if self.num_runs == 0 else f"is done: {count_of(self.num_runs, 'run')}"
        whole = f"{self.num_done} of {count_of(self.num_total, 'run')} of the comparison"
        missing = "" if self.num_done == self.num_total else " When the other shards are done,"
        again = (" repeat the " if missing else " Repeat the ", Call("call", "command"), " without ")
        head = f"Shard {self.number} of {self.count} {runs}. {self.out!r} has {whole}.{missing}"
        return head, *again, Argument("shard"), " to put them together."

    @printed
    def __str__(self) -> str:
        return format_text(self.text)


# The folders of shards.


def has_shards(folder: Path) -> bool:
    """Whether a folder has a folder of shards, with nothing else in it."""
    shards = folder / SHARDS
    if shards.is_symlink() or not shards.is_dir():
        return False
    return all(FOLDER.fullmatch(path.name) and path.is_dir() for path in shards.iterdir())


def shard_places(out: Location) -> list[Location]:
    """Returns the folders of the shards of a comparison, sorted; none if there are no shards."""
    names = sorted(path.name for path in (out.path / SHARDS).iterdir()) if has_shards(out.path) else []
    return [Location(out.path / SHARDS / name, str(Path(out.shown, SHARDS, name)), "out") for name in names]


@contextmanager
def hold_shards(out: Location) -> Iterator[list[Hold]]:
    """Locks all shards of a comparison; raises if one is in use."""
    with ExitStack() as stack:
        yield [stack.enter_context(hold_folder(place)) for place in shard_places(out)]


def check_only_runs(shards: Sequence[Hold]) -> None:
    """Raises if a shard has files that `compare` did not write."""
    for hold in shards:
        for path in sorted(hold.path.iterdir()):
            if path.name != FILE and not is_left(path, FILE.__eq__):
                raise InvalidArgumentError.of(
                    "out",
                    f": {hold.shown!r} holds {path.name!r}, which this command did not write",
                    remedy="Nothing was removed. Name another folder, such as --out results.",
                )


def remove_shards(out: Location, shards: Sequence[Hold]) -> None:
    """Removes shards that this process has locked."""
    for hold in shards:
        for path in hold.path.iterdir():
            path.unlink()
        hold.path.rmdir()
    with suppress(OSError):  # there is none, or another process has just begun a shard
        (out.path / SHARDS).rmdir()
