"""The folder of a collection: never overwritten, locked while it grows, clear about what it holds."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from rhocover.collecting.log import PART_NAME, part_files
from rhocover.datasets.minari.folders import remove_staged
from rhocover.datasets.reading import check_version
from rhocover.errors import Call, InvalidArgumentError, naming, parse_text, shortened
from rhocover.files import load_document, write_atomically
from rhocover.folders import Hold, hold_folder, is_left, locate, make_folder, remove_left

FIRST = {"environment": 2, "rho": 1, "explorer": 1, "dataset_id": -1}  # what others may follow from
CALLED = {"environment": "env", "arrays": "mu"}
SETTINGS, SHEET, PAGE = "collection.json", "datasheet.json", "datasheet.html"


class CollectionFolder:
    """Use it in a `with` statement; `resume` goes on with a collection of the same settings."""

    def __init__(self, out: Any, document: dict[str, Any], *, resume: bool) -> None:
        self._place, self._resume = locate(out), resume
        self.path, self._document = self._place.path, json.loads(json.dumps(document))
        self._hold: Hold | None = None
        self._check()

    @property
    def out(self) -> Path:
        """The folder as the caller named it, if that still leads there."""
        return Path(self._place.shown)

    def _check(self) -> None:
        with naming(self._place.shown):
            (self._check_same if self._resume else self._check_free)()

    def _check_free(self) -> None:
        if (self.path / SETTINGS).exists():
            raise InvalidArgumentError.of(
                "out",
                f"{self._place.shown!r} holds a collection already",
                remedy=parse_text("Go on with it: `resume=True`; or name another folder."),
            )
        if self.path.exists() and (
            not self.path.is_dir() or any(not is_left(p, is_ours) for p in self.path.iterdir())
        ):
            raise InvalidArgumentError.of(
                "out", f"must be a new or empty folder: {self._place.shown!r} is not"
            )

    def _check_same(self) -> None:
        """Refuses to go on with a collection of other settings, or with one that is done."""
        if not (self.path / SETTINGS).is_file():
            raise InvalidArgumentError.of(
                "resume",
                f": {self._place.shown!r} holds no collection",
                remedy=("Leave ", Call("resume", "--resume"), " out to begin one there."),
            )
        if (self.path / SHEET).exists():
            self._remove_log_if_free()  # of a process that ended between its last two steps
            raise InvalidArgumentError.of(
                "resume",
                f": the collection in {self._place.shown!r} is finished",
                remedy=("Add to it with ", Call("top_up", "rhocover top-up"), "."),
            )
        stored = load_document(self.path / SETTINGS)
        check_version(self.path / SETTINGS, stored)
        names = {*stored, *self._document} - {"algorithm"}  # says what `explorer` says
        for key in sorted(names, key=lambda key: (-FIRST.get(key, 0), key)):
            if stored.get(key) != self._document.get(key):
                was, now = (shortened(repr(found.get(key))) for found in (stored, self._document))
                raise InvalidArgumentError.of(
                    str(CALLED.get(key, key)),
                    f"was {was} when this collection was begun",
                    f"{now}",
                    remedy="Go on with the same, or begin anew in another folder.",
                )

    def __enter__(self) -> CollectionFolder:
        make_folder(self.path)
        self._hold = hold_folder(self._place)
        try:
            self._check()  # again: another process may have been faster
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
        if self._hold is not None:
            self._hold.release()
            self._hold = None

    def _clear_left(self) -> None:
        """Removes what a killed process was writing."""
        remove_left(self.path, is_ours)
        remove_staged(self.path / self._document["dataset_id"])

    def _write(self, name: str, content: str) -> None:
        write_atomically(self.path / name, content.encode(), overwrite=True)

    def clear_unfinished(self, target: Path) -> None:
        """Removes a data set that was written by a process that ended before the datasheet was."""
        make_folder(self.path)  # refuses to go on in a folder that is not the one that is held
        if target.exists() and not (self.path / SHEET).exists():
            shutil.rmtree(target)

    def finish(self, sheet: str) -> None:
        """Writes the datasheet, and removes the log: the data set holds all of it now."""
        self._write(SHEET, sheet)
        self._remove_log()

    def _remove_log(self) -> None:
        for part in part_files(self.path):
            part.unlink()

    def _remove_log_if_free(self) -> None:
        """Removes a log that is no longer needed, unless it is in use or cannot be removed."""
        with suppress(OSError, InvalidArgumentError), hold_folder(self._hold or self._place):
            self._remove_log()


def is_ours(name: str) -> bool:
    """Whether a collection has a file of that name in its folder."""
    return name in (SETTINGS, SHEET, PAGE) or PART_NAME.fullmatch(name) is not None
