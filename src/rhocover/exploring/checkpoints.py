"""Runs that survive: a folder with the settings, the model, and the last two checkpoints.

    run.safetensors            what was asked for: settings, weights, start
    model.safetensors          the model
    checkpoint-0.safetensors   where the run stood, written in turn:
    checkpoint-1.safetensors   one of the two is whole at any moment
    result.safetensors         the run, once it is done

Every file is written to a temporary name, synced and renamed, and carries a SHA-256 of all it says. A
checkpoint also carries the digest of the settings, so that one of another run is told apart. The folder
is locked while a run writes to it; the lock ends with the process.
"""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any

from rhocover import checks
from rhocover.errors import (
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

SETTINGS, MODEL, RESULT = "run.safetensors", "model.safetensors", "result.safetensors"
CHECKPOINTS = ("checkpoint-0.safetensors", "checkpoint-1.safetensors")
OURS = (SETTINGS, MODEL, RESULT, *CHECKPOINTS)
SECONDS = 20.0  # between two checkpoints


class Folder:
    """The folder of one run, locked; use it in a `with` statement."""

    def __init__(self, path: Path | str) -> None:
        self.path = checks.place(path, "out", "folder")
        self._lock: int | None = None
        self._digest = ""
        self._number = 0
        self._stored_steps: int | None = None
        self._saved = time.monotonic()

    @classmethod
    def create(cls, path: Path | str, settings: Settings) -> Folder:
        """Returns a new folder with settings and model; refuses one that holds anything else."""
        folder = cls(path)
        folder._check_free()
        tensors, document = settings_tensors(settings), settings_document(settings)
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
            with folder._locked_on_error():
                folder._check_free()  # another process may have been faster
                settings.mdp.save(folder.path / MODEL, overwrite=True)
                save_tensors(folder.path / SETTINGS, "run-settings", tensors, document)
        except OSError as error:
            raise CheckpointError(
                f"`out` {str(path)!r} could not be written: {error.strerror or error}. Make room, or name "
                "another folder, and explore again."
            ) from error
        folder._digest = settings_digest(settings)
        return folder

    def _check_free(self) -> None:
        if (self.path / SETTINGS).exists():
            raise InvalidArgumentError(
                f"`out` {str(self.path)!r} holds a run already. Go on with it: resume({str(self.path)!r}); "
                "or name another folder."
            )
        if self.path.exists() and not self.path.is_dir():
            raise InvalidArgumentError(f"`out` must be a folder, got the file {str(self.path)!r}.")
        names = [entry.name for entry in self.path.iterdir()] if self.path.exists() else []
        foreign = [name for name in names if name != MODEL and not _is_temporary(name)]
        if foreign:
            raise InvalidArgumentError(
                f"`out` must be a new or empty folder: {str(self.path)!r} holds {foreign[0]!r}."
            )

    def open(self, settings: Settings) -> None:
        """Locks the folder of a run that is there, and clears what a killed process left behind."""
        with self._locked_on_error():
            self._digest = settings_digest(settings)

    def _locked_on_error(self) -> _Releasing:
        self._lock = lock_folder(self.path)
        for entry in self.path.iterdir():
            if _is_temporary(entry.name):
                entry.unlink(missing_ok=True)
        return _Releasing(self)

    def close(self) -> None:
        """Gives the folder free."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

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
        document = standing_document(standing) | {"run": self._digest, "number": self._number}
        try:
            save_tensors(path, "checkpoint", standing_tensors(standing), document, overwrite=True)
        except OSError as error:
            raise self._unwritable(path, error) from error
        self._number += 1
        self._stored_steps = standing.num_steps
        self._saved = time.monotonic()

    def save_result(self, run: Run) -> None:
        """Writes the finished run."""
        try:
            run.save(self.path / RESULT, overwrite=True)
        except OSError as error:
            raise self._unwritable(self.path / RESULT, error) from error

    def _unwritable(self, path: Path, error: OSError) -> CheckpointError:
        before = "there is none before it" if self._stored_steps is None else (
            f"the one before it, at step {self._stored_steps}, is whole"
        )  # fmt: skip
        return CheckpointError(
            f"{path.name} could not be written to {str(self.path)!r}: {error.strerror or error}; {before}. "
            f"Make room, then go on with resume({str(self.path)!r})."
        )

    def load(self, settings: Settings, problem: Problem) -> Standing | None:
        """Returns where the run stood at its newest whole checkpoint; None if it has none.

        A checkpoint that is damaged, or of another run, is passed over with a warning; if there are
        checkpoints and none can be used, that is an error.
        """
        found, troubles = [], []
        for name in CHECKPOINTS:
            if (self.path / name).exists():
                try:
                    found.append(self._read(name, settings, problem))
                except FileFormatError as error:
                    troubles.append(str(error))
        if troubles and not found:
            raise FileFormatError(
                f"no checkpoint in {str(self.path)!r} can be used: {' '.join(troubles)} "
                "Remove the checkpoint files to begin anew."
            )
        for trouble in troubles:
            warnings.warn(f"{trouble} The other checkpoint is used.", CheckpointWarning, stacklevel=3)
        if not found:
            return None
        number, standing = max(found, key=lambda pair: pair[0])
        self._number, self._stored_steps = number + 1, standing.num_steps
        return standing

    def _read(self, name: str, settings: Settings, problem: Problem) -> tuple[int, Standing]:
        """Returns the number of a checkpoint, and where the run stood then."""
        tensors, document = load_tensors(self.path / name, "checkpoint")
        if document.get("run") != self._digest:
            raise FileFormatError(f"{name} belongs to another run.")
        number = document.get("number")
        if not isinstance(number, int):
            raise FileFormatError(f"{name} has no number.")
        with naming(self.path / name):
            return number, standing_from_file(settings, problem, tensors, document)


class _Releasing:
    """Frees a folder if what follows fails."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is not None:
            self._folder.close()


def _is_temporary(name: str) -> bool:
    """Whether a name is one that an interrupted write leaves behind."""
    return any(name.startswith(f".{ours}.") for ours in OURS)


def lock_folder(path: Path) -> int | None:
    """Returns a handle that holds the folder until it is closed or the process ends."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        return None
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise InvalidArgumentError(
            f"`out` {str(path)!r} is in use by another process. Wait for it, or stop it."
        ) from error
    return handle
