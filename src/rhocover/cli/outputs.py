"""Files of one command in one folder: checked before anything is computed, all written at the end.

They are written to a hidden folder first and moved when all of them are there, so that an interruption,
a full disk or a defect leaves nothing half done.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from rhocover.errors import InvalidArgumentError
from rhocover.files import naming_file

Writer = Callable[[Path], None]
HIDDEN = ".rhocover-"  # folders begin so in which files are put together


def check_free(folder: Path, names: Iterable[str], *, force: bool) -> None:
    """Refuses a folder that cannot be written to, and files that exist already unless `force`."""
    nearest = _nearest(folder)
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise InvalidArgumentError(f"`out`: {str(nearest)!r} is not a folder that can be written to.")
    taken = [name for name in names if (folder / name).exists()]
    if taken and not force:
        more = f" and {len(taken) - 1} more" if len(taken) > 1 else ""
        raise InvalidArgumentError(
            f"{str(folder / taken[0])!r}{more} would be overwritten. Pass --force, or another --out."
        )


def clear(folder: Path, is_ours: Callable[[str], bool]) -> None:
    """Removes the files of an earlier command; refuses a folder that holds anything else."""
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    foreign = [name for name in names if not is_ours(name) and not name.startswith(HIDDEN)]
    if foreign:
        raise InvalidArgumentError(
            f"`out`: {str(folder)!r} holds {foreign[0]!r}, which is not of this command. Nothing was removed."
        )
    for name in names:  # what a killed command left behind is a folder
        (folder / name).unlink() if not name.startswith(HIDDEN) else shutil.rmtree(folder / name)


def write_all(folder: Path, files: Mapping[str, Writer], *, force: bool) -> list[Path]:
    """Writes the files and returns their paths; a writer may decide to write nothing."""
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=HIDDEN, dir=folder) as hidden:
            for name, write in files.items():
                with naming_file(folder / name):
                    write(Path(hidden, name))
            written = [name for name in files if Path(hidden, name).exists()]
            check_free(folder, written, force=force)  # again: others may have been faster
            for name in written:
                os.replace(Path(hidden, name), folder / name)
    except BaseException:
        with suppress(OSError):  # one that is not empty is somebody's by now
            for place in made:
                place.rmdir()
        raise
    return [folder / name for name in written]


def _nearest(folder: Path) -> Path:
    """Returns the folder, or the nearest one above it that exists: both are on one file system."""
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())
