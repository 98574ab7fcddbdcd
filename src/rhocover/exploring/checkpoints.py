"""Runs that survive: a folder with the settings, the model, and the last two checkpoints.

    run.safetensors            what was asked for: settings, weights, start
    model.safetensors          the model
    checkpoint-0.safetensors   where the run stood, written in turn:
    checkpoint-1.safetensors   one of the two is whole at any moment
    result.safetensors         the run, once it is done

Every file is written to a temporary name, synced and renamed, and carries a SHA-256 of all it says. A
checkpoint also carries the digest of the settings, so that one of another run is told apart. The folder
is held while a run writes to it (`locks`).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from rhocover.errors import (
    Call,
    CheckpointError,
    CheckpointWarning,
    FileFormatError,
    InvalidArgumentError,
    naming,
)
from rhocover.exploring.problem import Problem
from rhocover.exploring.run import Run
from rhocover.exploring.runner import Standing
from rhocover.exploring.settings import Settings
from rhocover.exploring.storage import (
    settings_digest,
    settings_document,
    settings_tensors,
    standing_document,
    standing_from_file,
    standing_tensors,
)
from rhocover.files import load_tensors, save_tensors
from rhocover.folders import Hold, hold_folder, is_left, locate, make_folder, remove_left

SETTINGS, MODEL, RESULT = "run.safetensors", "model.safetensors", "result.safetensors"
CHECKPOINTS = ("checkpoint-0.safetensors", "checkpoint-1.safetensors")
OURS = (SETTINGS, MODEL, RESULT, *CHECKPOINTS)
SECONDS = 20.0  # between two checkpoints


class Folder:
    """The folder of one run, locked; use it in a `with` statement."""

    def __init__(self, out: Any) -> None:
        self._place = locate(out)
        self.path = self._place.path
        self._hold: Hold | None = None
        self._digest = ""
        self._number = 0
        self._stored_steps: int | None = None
        self._saved = time.monotonic()

    @classmethod
    def create(cls, out: Any, settings: Settings) -> Folder:
        """Returns a new folder with settings and model; refuses one that holds anything else."""
        folder = cls(out)
        folder._check_free()
        tensors, document = settings_tensors(settings), settings_document(settings)
        try:
            make_folder(folder.path)
            with folder._held_unless_it_fails():
                folder._check_free()  # another process may have been faster
                folder._remove_left()
                settings.mdp.save(folder.path / MODEL, overwrite=True)
                save_tensors(folder.path / SETTINGS, "run-settings", tensors, document)
        except CheckpointError:
            raise
        except OSError as error:
            raise CheckpointError(
                folder._place.saying(
                    f"could not be written: {error.strerror or error}. Make room, or name another folder, "
                    "and explore again."
                )
            ) from error
        folder._digest = settings_digest(settings)
        return folder

    def _check_free(self) -> None:
        if (self.path / SETTINGS).exists():
            shown = self._place.shown
            go_on = Call(f"resume({shown!r})", f"rhocover resume {shown}")
            raise InvalidArgumentError.of(
                "out",
                f"{shown!r} holds a run already",
                remedy=("Go on with it: ", go_on, "; or name another folder."),
            )
        if self.path.exists() and not self.path.is_dir():
            raise InvalidArgumentError.of("out", "must be a folder", f"the file {self._place.shown!r}")
        entries = self.path.iterdir() if self.path.exists() else ()
        foreign = [entry.name for entry in entries if entry.name != MODEL and not is_left(entry, _is_ours)]
        if foreign:
            raise InvalidArgumentError.of(
                "out", f"must be a new or empty folder: {self._place.shown!r} holds {foreign[0]!r}"
            )

    def open(self, settings: Settings) -> None:
        """Holds the folder of a run that is there, and clears what a killed process left behind."""
        with self._held_unless_it_fails():
            self._remove_left()
            self._digest = settings_digest(settings)

    @contextmanager
    def _held_unless_it_fails(self) -> Iterator[None]:
        """Holds the folder from here on; frees it if what follows fails."""
        self._hold = hold_folder(self._place)
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _remove_left(self) -> None:
        remove_left(self.path, _is_ours)

    def close(self) -> None:
        """Gives the folder free."""
        if self._hold is not None:
            self._hold.release()
            self._hold = None

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def save_if_due(self, standing: Standing) -> None:
        """Writes a checkpoint if the last one is old enough."""
        if time.monotonic() - self._saved >= SECONDS:
            self.save(standing)

    def save(self, standing: Standing) -> None:
        """Writes a checkpoint over the older of the two."""
        path = self.path / CHECKPOINTS[self._number % 2]
        document = standing_document(standing, self._digest, self._number)
        try:
            save_tensors(path, "checkpoint", standing_tensors(standing), document, overwrite=True)
        except CheckpointError:  # says itself what happened to the folder
            raise
        except OSError as error:
            raise self._unwritable(path, error) from error
        self._number += 1
        self._stored_steps = standing.num_steps
        self._saved = time.monotonic()

    def save_result(self, run: Run) -> None:
        """Writes the finished run."""
        try:
            run.save(self.path / RESULT, overwrite=True)
        except CheckpointError:
            raise
        except OSError as error:
            raise self._unwritable(self.path / RESULT, error) from error

    def _unwritable(self, path: Path, error: OSError) -> CheckpointError:
        before = "there is none before it" if self._stored_steps is None else (
            f"the one before it, at step {self._stored_steps}, is whole"
        )  # fmt: skip
        return CheckpointError(
            f"{path.name} could not be written to {self._place.shown!r}: {error.strerror or error}; "
            f"{before}. Make room, then go on with resume({self._place.shown!r})."
        )

    def load(self, settings: Settings, problem: Problem) -> Standing | None:
        """Returns where the run stood at its newest whole checkpoint; None if it has none.

        A checkpoint that is damaged, or of another run, is passed over with a warning; if there are
        checkpoints and none can be used, that is an error.
        """
        found, troubles = self._checkpoints(settings, problem)
        if troubles and not found:
            raise FileFormatError(
                f"no checkpoint in {self._place.shown!r} can be used: {' '.join(troubles)} "
                "Remove the checkpoint files to begin anew."
            )
        for trouble in troubles:
            warnings.warn(f"{trouble} The other checkpoint is used.", CheckpointWarning, stacklevel=3)
        if not found:
            return None
        number, standing = max(found, key=lambda pair: pair[0])
        self._number, self._stored_steps = number + 1, standing.num_steps
        return standing

    def _checkpoints(
        self, settings: Settings, problem: Problem
    ) -> tuple[list[tuple[int, Standing]], list[str]]:
        """Returns number and standing of each whole checkpoint, and what is wrong with the others."""
        found, troubles = [], []
        for name in CHECKPOINTS:
            if (self.path / name).exists():
                try:
                    found.append(self._read(name, settings, problem))
                except FileFormatError as error:
                    troubles.append(str(error))
        return found, troubles

    def last_of_finished(self, settings: Settings, problem: Problem) -> Standing | None:
        """Returns where a run stood when its result was written; None if it is not finished, or damaged.

        Nobody writes to a finished run, so this needs no hold on the folder, and no disk to write to.
        """
        if not (self.path / RESULT).is_file():
            return None
        self._digest = settings_digest(settings)
        found, troubles = self._checkpoints(settings, problem)
        if troubles or not found:
            return None
        standing = max(found, key=lambda pair: pair[0])[1]
        return standing if self._is_result_of(standing) else None

    def _is_result_of(self, standing: Standing) -> bool:
        """Whether the result is whole, and that of the run that stood so."""
        try:
            tensors, document = load_tensors(self.path / RESULT, "run")
        except FileFormatError:
            return False
        is_end = (
            document.get("is_enough") == standing.is_enough and document.get("steps") == standing.num_steps
        )
        return is_end and np.array_equal(tensors.get("moves", ()), standing.seen.moves)

    def _read(self, name: str, settings: Settings, problem: Problem) -> tuple[int, Standing]:
        """Returns the number of a checkpoint, and where the run stood then."""
        tensors, document = load_tensors(self.path / name, "checkpoint")
        if document.get("run") != self._digest:
            raise FileFormatError(f"{name} belongs to another run.")
        with naming(self.path / name):
            standing = standing_from_file(settings, problem, tensors, document)
        return document["number"], standing  # which is there, now that all of it was read


def _is_ours(name: str) -> bool:
    return name in OURS
