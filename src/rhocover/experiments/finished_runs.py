"""The finished runs of a comparison: collected as they finish, stored regularly, and continued later.

All results are arrays, and `done`, an array over the grid of the question, says which runs they hold. The
question knows the other arrays (`empty_tensors`, `fill`, `check_tensors`). Together with the question they
are one file, written completely or not at all. A comparison continues from a file with the same question.
The folder is locked (`folders`) until this object is closed, so that no second process overwrites the
results; a finished comparison needs neither the lock nor a writable disk.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.errors import Call, InvalidArgumentError, parse_text
from rhocover.exploring.runs.spec import MODELS, model_document
from rhocover.files import load_tensors, save_tensors
from rhocover.folders import Hold, Location, hold_folder, is_left, locate, make_folder, remove_left
from rhocover.printing import count_of

FILE = "comparison.safetensors"
MOST_LETTERS = 200  # characters of a difference shown in a message
SECONDS = 2.0  # between two writes, so that many short runs do not spend their time on writing


class FinishedRuns:
    """Results over the grid, and the folder in which they are stored, if any."""

    def __init__(self, question: Any, folder: Any) -> None:
        self._question = question
        self.document = json.loads(json.dumps(question.document(), sort_keys=True))  # as it will be read back
        self.tensors = question.empty_tensors()
        self._place = None if folder is None else locate(folder)
        self.path = None if self._place is None else self._place.path / FILE
        self._hold: Hold | None = None
        self._stored = -np.inf
        if self._place is not None:
            self._take_up(self._place)
            if self.done.all():
                _clear_if_free(self._place)
            else:
                self._begin(self._place)

    def _begin(self, place: Location) -> None:
        """Locks the folder and reads it again, because another process may have written to it meanwhile."""
        make_folder(place.path)
        self._hold = hold_folder(place)
        try:
            self._take_up(place)
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

    def fill(self, place: Any, outcome: Any) -> None:
        """Adds the outcome of a run, and stores all results if the last time was more than `SECONDS` ago."""
        self._question.fill(self.tensors, place, outcome)
        self.done[place] = True
        if time.monotonic() - self._stored >= SECONDS:
            self.store()

    def store(self) -> None:
        """Writes the results if the folder is locked; otherwise they were already complete on disk."""
        if self.path is not None and self._hold is not None:
            save_tensors(self.path, self._question.kind, self.tensors, self.document, overwrite=True)
            self._stored = time.monotonic()

    def _take_up(self, place: Location) -> None:
        """Continues from the file if it has the same question; raises for any other content of the folder."""
        _check_folder(place)
        path = place.path / FILE
        if not path.exists():
            return
        tensors, document = load_tensors(path, self._question.kind)
        _check_same(place.shown, document, self.document)
        self._question.check_tensors(tensors, f"{path.name} in {place.shown!r}")
        self.tensors = {name: array.copy() for name, array in tensors.items()}


def load_finished(path: Any, kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any], str]:
    """Returns tensors, document and origin of a comparison in a file, or in the `out` folder of `compare`."""
    path = checks.place(path, "path")
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
    if foreign and FILE not in foreign:
        raise InvalidArgumentError.of(
            "out",
            f"must be a new or empty folder, or hold a comparison: {place.shown!r} holds {foreign[0]!r}",
            remedy=(Call("Name another folder", "Name another folder, such as --out results"), "."),
        )


def _clear_if_free(place: Location) -> None:
    """Removes temporary files of a process that was killed after the last run, if the disk is writable."""
    if any(_is_left(entry) for entry in place.path.iterdir()):
        with suppress(OSError, InvalidArgumentError), hold_folder(place):
            remove_left(place.path, FILE.__eq__)


def _is_left(entry: Path) -> bool:
    """Whether a file was left behind by a killed process."""
    return is_left(entry, FILE.__eq__)


def _check_same(folder: str, stored: dict[str, Any], asked: dict[str, Any]) -> None:
    """Raises if a file has another question, and says what differs."""
    words = {
        "fingerprints": "models",
        "sources": "environments",
        "explorer_settings": "settings of explorers",
    }
    names = sorted(asked, key=lambda name: name in words)  # differing names before differing contents
    differing = [name for name in names if stored.get(name) != asked[name]]
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
            Call("", "; or pass --force to start again"),
            ".",
        ),
    )


def _shown(value: Any) -> Any:
    """Returns a value of a question for a message; a `model` setting by its name, if it has one."""
    return next((name for name, model in MODELS.items() if model_document(model) == value), value)
