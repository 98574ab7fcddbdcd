"""Removing a collection to begin anew: all of it or nothing, and never what somebody else put there.

What a collection consists of is known: its settings, its datasheet, its log, and the data set that the
settings name. If the folder holds anything else, if it is no collection, or if a process works in it, nothing
is removed.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from rhocover.adapters.minari_folders import NAMESPACE, check_id
from rhocover.collecting.folder import PAGE, SETTINGS, SHEET
from rhocover.errors import InvalidArgumentError
from rhocover.exploring.checkpoints import lock_folder
from rhocover.files import load_document

TOP = rf"\.?({'|'.join(re.escape(name) for name in (SETTINGS, SHEET, PAGE))}|log-\d+\.safetensors)(\.[^/.]+)?"
DATA = r"data/(main_data\.hdf5|\.?metadata\.json(\.[^/.]+)?)"  # a dot and an ending: half written


def clear_collection(folder: Path, report: Path | None = None) -> None:
    """Removes the collection in a folder, and `report` if it is there; refuses if there is anything else."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if folder.is_symlink() or not (folder / SETTINGS).is_file():
        raise InvalidArgumentError(
            f"`out` {str(folder)!r} holds no collection; --force removes nothing else. Name another folder."
        )
    lock = lock_folder(folder)
    try:
        _check_ours(folder, report)
        for entry in list(folder.iterdir()):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    finally:
        if lock is not None:
            os.close(lock)


def _check_ours(folder: Path, report: Path | None) -> None:
    """Refuses a folder with files or links that no collection writes."""
    pattern = _pattern(_dataset_id(folder))
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        is_report = report is not None and path.absolute() == report.absolute()
        if path.is_symlink() or not (is_report or pattern.fullmatch(name)):
            raise InvalidArgumentError(
                f"`out`: {str(folder)!r} holds {name!r}, which is not of a collection. Nothing was removed."
            )


def _dataset_id(folder: Path) -> str:
    """Returns the id of the data set that the settings name."""
    try:
        name = load_document(folder / SETTINGS)["dataset_id"]
        check_id(name)
    except (ValueError, LookupError, TypeError) as error:
        raise InvalidArgumentError(
            f"`out`: {SETTINGS} in {str(folder)!r} is damaged, so it is not known what belongs to the "
            "collection. Nothing was removed."
        ) from error
    return name


def _pattern(dataset_id: str) -> re.Pattern[str]:
    """Returns what the names of files of a collection match, relative to its folder."""
    *spaces, name = dataset_id.split("/")
    above = "".join(f"{re.escape(space)}/" for space in spaces)
    staged = rf"\.{re.escape(name[:40])}\.[0-9a-f]+(\.old)?"
    marks = "|".join(re.escape("/".join([*spaces[: k + 1], NAMESPACE])) for k in range(len(spaces)))
    return re.compile(rf"{TOP}|{above}({re.escape(name)}|{staged})/{DATA}|{marks or TOP}")


def _files(folder: Path) -> Iterator[Path]:
    """Returns every file and link below a folder; links are not followed."""
    for place, folders, names in os.walk(folder):
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        yield from (Path(place) / name for name in [*links, *names])
