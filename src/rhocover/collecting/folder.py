"""The folder of a collection: never overwritten, locked while it grows, clear about what it holds."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Any

from rhocover.data.collections import check_version
from rhocover.errors import InvalidArgumentError, naming, shortened
from rhocover.exploring.checkpoints import lock_folder
from rhocover.files import load_document, write_atomically

FIRST = {"environment": 2, "rho": 1, "explorer": 1, "dataset_id": -1}  # what others may follow from
CALLED = {"environment": "env", "arrays": "mu"}
SETTINGS, SHEET, PAGE = "collection.json", "datasheet.json", "datasheet.html"


class CollectionFolder:
    """Use it in a `with` statement; `resume` goes on with a collection of the same settings."""

    def __init__(self, out: Path | str, document: dict[str, Any], *, resume: bool) -> None:
        if not isinstance(out, str | os.PathLike):
            raise InvalidArgumentError(f"`out` must be the name of a folder, got {out!r}.")
        self.path, self._document = Path(out), json.loads(json.dumps(document))
        self._lock: int | None = None
        with naming(self.path):
            (self._check_same if resume else self._check_free)()

    def _check_free(self) -> None:
        if (self.path / SETTINGS).exists():
            raise InvalidArgumentError(
                f"`out` {str(self.path)!r} holds a collection already. Go on with it: resume=True; or name "
                "another folder."
            )
        if self.path.exists() and (
            not self.path.is_dir() or any(not _is_left(p) for p in self.path.iterdir())
        ):
            raise InvalidArgumentError(f"`out` must be a new or empty folder: {str(self.path)!r} is not.")

    def _check_same(self) -> None:
        """Refuses to go on with a collection of other settings, or with one that is done."""
        if not (self.path / SETTINGS).is_file():
            raise InvalidArgumentError(
                f"`resume`: {str(self.path)!r} holds no collection. Leave resume out to begin one there."
            )
        if (self.path / SHEET).exists():
            self._remove_log()  # of a process that ended between its last two steps
            raise InvalidArgumentError(
                f"`resume`: the collection in {str(self.path)!r} is finished. Add to it with top_up."
            )
        stored = load_document(self.path / SETTINGS)
        check_version(self.path / SETTINGS, stored)
        names = {*stored, *self._document} - {"algorithm"}  # says what `explorer` says
        for key in sorted(names, key=lambda key: (-FIRST.get(key, 0), key)):
            if stored.get(key) != self._document.get(key):
                was, now = (shortened(repr(found.get(key))) for found in (stored, self._document))
                raise InvalidArgumentError(
                    f"`{CALLED.get(key, key)}` was {was} when this collection was begun, got {now}. Go on "
                    "with the same, or begin anew in another folder."
                )

    def __enter__(self) -> CollectionFolder:
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = lock_folder(self.path)
        try:
            self._clear_left()
            if not (self.path / SETTINGS).exists():
                self._write(SETTINGS, json.dumps(self._document, indent=2, sort_keys=True) + "\n")
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _clear_left(self) -> None:
        """Removes what a killed process was writing."""
        hidden = [path for path in self.path.iterdir() if _is_left(path)]
        target = self.path / self._document["dataset_id"]
        if target.parent.is_dir():
            hidden += [
                path for path in target.parent.iterdir() if path.name.startswith(f".{target.name[:40]}.")
            ]
        for path in hidden:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def _write(self, name: str, content: str) -> None:
        write_atomically(self.path / name, content.encode(), overwrite=True)

    def clear_unfinished(self, target: Path) -> None:
        """Removes a data set that was written by a process that ended before the datasheet was."""
        if target.exists() and not (self.path / SHEET).exists():
            shutil.rmtree(target)

    def finish(self, sheet: str) -> None:
        """Writes the datasheet, and removes the log: the data set holds all of it now."""
        self._write(SHEET, sheet)
        self._remove_log()

    def _remove_log(self) -> None:
        for part in sorted(self.path.glob("log-*.safetensors")):
            part.unlink()


def _is_left(path: Path) -> bool:
    """Whether a file is one that an interrupted write of ours leaves behind."""
    return path.name.startswith((f".{SETTINGS}.", f".{SHEET}.", f".{PAGE}.", ".log-"))
