"""The runs that are done: filled as they finish, stored now and then, taken up again.

All results are arrays over the grid [envs, orders, explorers, seeds], and `done` says which places are
filled. Together with the question they are one file, written whole or not at all: a comparison that is not
finished and one that is differ in `done` only. A file is taken up again if it asks the same question. The
folder is held (`folders`) until this is closed, so that no second process writes over what this one
found; a comparison that is finished needs neither that nor a disk to write to.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from rhocover.errors import FileFormatError, InvalidArgumentError, parse_text
from rhocover.experiments.question import COLUMNS, ENDS, FACTS, CompareSpec, Outcome, Place
from rhocover.exploring.runs.spec import MODELS, model_document
from rhocover.files import load_tensors, save_tensors
from rhocover.folders import Hold, Location, hold_folder, is_left, locate, make_folder, remove_left

FILE, KIND = "comparison.safetensors", "comparison"
MOST_LETTERS = 200  # of what differs, in a message
SECONDS = 2.0  # between two stores, so that many short runs are not spent on writing


class FinishedRuns:
    """Results over the grid, and the folder they are stored in, if any."""

    def __init__(self, question: CompareSpec, folder: Any) -> None:
        self.document = json.loads(json.dumps(question.document(), sort_keys=True))  # as it is read back
        self.tensors = empty_tensors(question)
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
        """Holds the folder, and looks again at what is there: another process may have been faster."""
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
        """Stores what is there, and gives the folder free."""
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
        """Which runs are done, `[envs, orders, explorers, seeds]`."""
        return self.tensors["done"]

    def fill(self, place: Place, outcome: Outcome) -> None:
        """Notes what a run left, and stores it if the last time is a while ago."""
        for name, row in zip(COLUMNS, outcome.rows, strict=True):
            self.tensors[name][place] = row
        for name, end in zip(ENDS, outcome.ends, strict=True):
            self.tensors[name][place] = end
        for name, fact in zip(FACTS, outcome.facts, strict=True):
            self.tensors[name][place[:2]] = fact
        self.done[place] = True
        if time.monotonic() - self._stored >= SECONDS:
            self.store()

    def store(self) -> None:
        """Writes what is there, if the folder is held: what was finished before is there already."""
        if self.path is not None and self._hold is not None:
            save_tensors(self.path, KIND, self.tensors, self.document, overwrite=True)
            self._stored = time.monotonic()

    def _take_up(self, place: Location) -> None:
        """Goes on from the file if it asks the same question; refuses any other content of the folder."""
        _check_folder(place)
        path = place.path / FILE
        if not path.exists():
            return
        tensors, document = load_tensors(path, KIND)
        _check_same(place.shown, document, self.document)
        if {name: array.shape for name, array in tensors.items()} != {
            name: array.shape for name, array in self.tensors.items()
        }:
            raise FileFormatError(f"{path.name} in {place.shown!r} has arrays of another shape.")
        self.tensors = {name: array.copy() for name, array in tensors.items()}


def empty_tensors(question: CompareSpec) -> dict[str, np.ndarray]:
    """Returns the arrays of a comparison in which no run is done."""
    shape, steps = question.shape, np.array(question.grid, np.int64)
    return {
        "steps": steps,
        "done": np.zeros(shape, bool),
        **{name: np.full((*shape, steps.size), np.nan) for name in COLUMNS},
        **{name: np.full(shape, np.nan) for name in ENDS},
        **{name: np.full(shape[:2], np.nan) for name in FACTS},
    }


def _check_folder(place: Location) -> None:
    """Refuses a place that is no folder, or one that holds something else and no comparison."""
    folder = place.path
    if folder.exists() and not folder.is_dir():
        raise InvalidArgumentError.of("out", "must be a folder", f"the file {place.shown!r}")
    entries = sorted(folder.iterdir()) if folder.exists() else []
    foreign = [entry.name for entry in entries if not _is_left(entry)]
    if foreign and FILE not in foreign:
        raise InvalidArgumentError.of(
            "out",
            f"must be a new or empty folder, or one of a comparison: {place.shown!r} holds {foreign[0]!r}",
        )


def _clear_if_free(place: Location) -> None:
    """Removes what a process left that was killed after the last run; a disk to read only keeps it."""
    if any(_is_left(entry) for entry in place.path.iterdir()):
        with suppress(OSError, InvalidArgumentError), hold_folder(place):
            remove_left(place.path, FILE.__eq__)


def _is_left(entry: Path) -> bool:
    """Whether a killed process left a file behind."""
    return is_left(entry, FILE.__eq__)


def _check_same(folder: str, stored: dict[str, Any], asked: dict[str, Any]) -> None:
    """Refuses a file that answers another question, and says what differs."""
    words = {"fingerprints": "models", "explorer_settings": "settings of explorers"}
    names = sorted(asked, key=lambda name: name in words)  # other names before other contents
    differing = [name for name in names if stored.get(name) != asked[name]]
    if not differing:
        return
    name = differing[0]
    shown = f": {_shown(stored.get(name))}, now {_shown(asked[name])}"
    shown = shown if len(shown) < MOST_LETTERS else ""
    raise InvalidArgumentError.of(
        "out",
        parse_text(f"{folder!r} holds a comparison with other {words.get(name, f'`{name}`')}{shown}"),
        remedy="Nothing was changed. Go on with the same arguments, or name another folder.",
    )


def _shown(value: Any) -> Any:
    """Returns a value of a question as it is told: a way to know the model by its name, if it has one."""
    return next((name for name, model in MODELS.items() if model_document(model) == value), value)
