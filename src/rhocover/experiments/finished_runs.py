"""The finished runs of a comparison: collected as they finish, stored regularly, and continued later.

All results are arrays, and `done`, an array over the grid of the question, says which runs they hold. The
question knows the other arrays (`empty_tensors`, `fill`, `outcome`, `check_tensors`). Together with the
question they are one file, written completely or not at all. A comparison continues from the runs in its file
and in its shards (`shards`), if they have the same question, or the same with fewer seeds. A run in several
files must be the same in all of them, to the bit. The folder that is written to, that of the comparison or of
one shard, is locked (`folders`) until this object is closed, so that no second process overwrites the
results; what is finished needs neither the lock nor a writable disk.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from rhocover import checks
from rhocover.errors import Call, InvalidArgumentError, parse_text
from rhocover.experiments.shards import FILE, FinishedShard, Shard, has_shards, shard_places
from rhocover.exploring.runs.spec import MODELS, model_document
from rhocover.files import load_tensors, save_tensors
from rhocover.folders import Hold, Location, hold_folder, is_left, locate, make_folder, remove_left
from rhocover.printing import count_of

MOST_LETTERS = 200  # characters of a difference shown in a message
PUT_TOGETHER = (
    Call("Call compare with the same arguments, without shard,", "Type the same command without --shard"),
    " to put them together.",
)
SECONDS = 2.0  # between two writes, so that many short runs do not spend their time on writing


@dataclass(frozen=True, eq=False)
class StoredRuns:
    """The finished runs in a file, by their places in the question that is asked now."""

    path: Path
    is_same: bool  # whether the question has the same seeds in the same order
    outcomes: dict[Any, Any]


class FinishedRuns:
    """Results over the grid, and the folder in which they are stored, if any.

    With a shard, `places` are its runs, and only these are stored, in the folder of the shard.
    """

    def __init__(self, question: Any, folder: Any, shard: Shard | None = None) -> None:
        self._question = question
        self.document = json.loads(json.dumps(question.document(), sort_keys=True))  # as it will be read back
        self.tensors = question.empty_tensors()
        runs = list(question.places)
        self.places = runs if shard is None else shard.choose(runs)
        self._out = None if folder is None else locate(folder)
        self._place = self._out if self._out is None or shard is None else shard.locate(self._out)
        self.path = None if self._place is None else self._place.path / FILE
        self._again = "; or pass --force to start again" if shard is None else ", such as --out results"
        self._hold: Hold | None = None
        self._stored = -np.inf
        if self._out is not None and self._place is not None:
            if self._take_up(self._out, self._place):
                _clear_if_free(self._place)
            else:
                self._begin(self._out, self._place)

    def _begin(self, out: Location, place: Location) -> None:
        """Locks the folder and reads it again, because another process may have written to it meanwhile."""
        make_folder(place.path)
        self._hold = hold_folder(place)
        try:
            self._take_up(out, place)
            remove_left(place.path, FILE.__eq__)
            self.store()
        except BaseException:
            self._release()
            raise

    def close(self) -> None:
        """Stores the results and releases the folder."""
        try:
            self.store()
        finally:
            self._release()

    def _release(self) -> None:
        if self._hold is not None:
            self._hold.release()
            self._hold = None

    @property
    def done(self) -> np.ndarray:
        """Which runs are done, over the grid of the question."""
        return self.tensors["done"]

    @property
    def left(self) -> list[Any]:
        """The places that are not done yet."""
        return [place for place in self.places if not self.done[place]]

    def fill(self, place: Any, outcome: Any) -> None:
        """Adds the outcome of a run, and stores all results if the last time was more than `SECONDS` ago."""
        self._add(place, outcome)
        if time.monotonic() - self._stored >= SECONDS:
            self.store()

    def _add(self, place: Any, outcome: Any) -> None:
        self._question.fill(self.tensors, place, outcome)
        self.done[place] = True

    def store(self) -> None:
        """Writes the results if the folder is locked; otherwise they were already complete on disk."""
        if self.path is not None and self._hold is not None:
            save_tensors(self.path, self._question.kind, self.tensors, self.document, overwrite=True)
            self._stored = time.monotonic()

    def _take_up(self, out: Location, place: Location) -> bool:
        """Takes up what is finished; returns whether that was already complete in the file of this call."""
        _check_folder(place)
        _check_folder(out)
        self.tensors = self._question.empty_tensors()
        own = self._read(place)
        for run, outcome in own.outcomes.items():
            self._add(run, outcome)
        if not self.left and (own.is_same or not self.places):
            return True
        wanted, origins = set(self.places), dict.fromkeys(own.outcomes, own.path)
        for other in [out, *shard_places(out)]:
            if other.path != place.path:
                self._join(self._read(other), wanted, origins)
        return False

    def _join(self, found: StoredRuns, wanted: set[Any], origins: dict[Any, Path]) -> None:
        """Adds the wanted runs of another file; raises if a run is there with other numbers."""
        for run, outcome in found.outcomes.items():
            if run not in wanted:
                continue
            if not self.done[run]:
                self._add(run, outcome)
                origins[run] = found.path
            elif self._question.outcome(self.tensors, run).bits != outcome.bits:
                raise _contradiction(self._question.describe(run), origins[run], found.path)

    def _read(self, place: Location) -> StoredRuns:
        """Returns the finished runs in a folder; raises if they are those of another question."""
        path = place.path / FILE
        if not path.exists():
            return StoredRuns(path, False, {})
        tensors, document = load_tensors(path, self._question.kind)
        _check_same(place.shown, document, self.document, self._again)
        seeds = document["seeds"]
        stored = replace(self._question, seeds=tuple(seeds))
        stored.check_tensors(tensors, f"{path.name} in {place.shown!r}")
        now = {seed: k for k, seed in enumerate(self._question.seeds)}
        done = (tuple(run) for run in np.argwhere(tensors["done"]).tolist())
        outcomes = {(*run[:-1], now[seeds[run[-1]]]): stored.outcome(tensors, run) for run in done}
        return StoredRuns(path, seeds == self.document["seeds"], outcomes)

    def report_on(self, shard: Shard) -> FinishedShard:
        """Returns how far a shard and the whole are, by what is stored in the folder of the comparison."""
        out = cast("Location", self._out)  # a shard has one
        stored = {run for place in (out, *shard_places(out)) for run in self._read(place).outcomes}
        runs = len(self.places), len(stored), self.done.size
        return FinishedShard(shard.number, shard.count, *runs, out.shown)


def load_finished(path: Any, kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any], str]:
    """Returns tensors, document and origin of a comparison in a file, or in the `out` folder of `compare`."""
    path = checks.place(path, "path")
    if path.is_dir() and not (path / FILE).exists() and has_shards(path):
        raise InvalidArgumentError.of(
            "path", f": {str(path)!r} holds shards of a comparison", remedy=PUT_TOGETHER
        )
    return *load_tensors(path / FILE if path.is_dir() else path, kind), str(path)


def check_done(done: np.ndarray, origin: str) -> None:
    """Raises if not every run of a comparison is done."""
    if not done.all():
        raise InvalidArgumentError(
            f"{origin!r} holds {int(done.sum())} of {done.size} runs.",
            argument="path",
            remedy=(
                Call("Call compare", "Type rhocover compare"),
                " again with the same arguments to continue.",
            ),
        )


def size_of(explorers: Sequence[str], seeds: Sequence[int], num_steps: int) -> str:
    """Returns how large a comparison is: `2 explorers, 3 seeds, 1000 steps`."""
    counted = (len(explorers), "explorer"), (len(seeds), "seed"), (num_steps, "step")
    return ", ".join(count_of(number, noun) for number, noun in counted)


def _check_folder(place: Location) -> None:
    """Raises if a path is not a folder, or is a folder with other files and no comparison."""
    folder = place.path
    if folder.exists() and not folder.is_dir():
        raise InvalidArgumentError.of("out", "must be a folder", f"the file {place.shown!r}")
    entries = sorted(folder.iterdir()) if folder.exists() else []
    foreign = [entry.name for entry in entries if not _is_left(entry)]
    if foreign and FILE not in foreign and not has_shards(folder):
        raise InvalidArgumentError.of(
            "out",
            f"must be a new or empty folder, or hold a comparison: {place.shown!r} holds {foreign[0]!r}",
            remedy=(Call("Name another folder", "Name another folder, such as --out results"), "."),
        )


def _clear_if_free(place: Location) -> None:
    """Removes temporary files of a process that was killed after the last run, if the disk is writable."""
    if place.path.is_dir() and any(_is_left(entry) for entry in place.path.iterdir()):
        with suppress(OSError, InvalidArgumentError), hold_folder(place):
            remove_left(place.path, FILE.__eq__)


def _is_left(entry: Path) -> bool:
    """Whether a file was left behind by a killed process."""
    return is_left(entry, FILE.__eq__)


def _check_same(folder: str, stored: dict[str, Any], asked: dict[str, Any], again: str) -> None:
    """Raises if a file has another question, and says what differs; more seeds than stored are fine.

    `again` is how to start again on the command line.
    """
    words = {
        "fingerprints": "models",
        "sources": "environments",
        "explorer_settings": "settings of explorers",
    }
    names = sorted(asked, key=lambda name: name in words)  # differing names before differing contents
    differing = [name for name in names if stored.get(name) != asked[name]]
    if differing == ["seeds"] and _are_more(asked["seeds"], stored.get("seeds")):
        return
    if not differing:
        return
    name = differing[0]
    shown = f": {_shown(stored.get(name))}, now {_shown(asked[name])}"
    shown = shown if len(shown) < MOST_LETTERS else ""
    raise InvalidArgumentError.of(
        "out",
        parse_text(f"{folder!r} holds a comparison with other {words.get(name, f'`{name}`')}{shown}"),
        remedy=(
            "Nothing was changed. Continue with the same arguments, or name another folder",
            Call("", again),
            ".",
        ),
    )


def _are_more(asked: list[int], stored: Any) -> bool:
    """Whether all stored seeds, each once, are among those asked for."""
    are_seeds = isinstance(stored, list) and all(type(seed) is int for seed in stored)
    return are_seeds and set(stored) <= set(asked) and len(set(stored)) == len(stored)


def _contradiction(run: str, *paths: Path) -> InvalidArgumentError:
    """Returns the error about a run that two files have with different numbers."""
    one, other = (str(path) for path in paths)
    return InvalidArgumentError.of(
        "out",
        f": the run of {run} is in two files with different numbers, {one!r} and {other!r}",
        remedy="They were written by different machines or versions. Remove the file that should not count: "
        "what is missing then runs again.",
    )


def _shown(value: Any) -> Any:
    """Returns a value of a question for a message; a `model` setting by its name, if it has one."""
    return next((name for name, model in MODELS.items() if model_document(model) == value), value)
