"""Removing a collection to begin anew: all of it or nothing, and never what somebody else put there.

What a collection consists of is known: its settings, its datasheet, its log, and the data set that the
settings name. If the folder holds anything else, if it is no collection, or if a process works in it, nothing
is removed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from rhocover.adapters.minari_folders import NAMESPACE, check_id, is_of_data_set
from rhocover.collecting.folder import SETTINGS, is_ours
from rhocover.errors import InvalidArgumentError
from rhocover.files import load_document
from rhocover.locks import Hold, Location
from rhocover.temporary import LONGEST, is_temporary_of


def clear_collection(held: Hold, report: Location | None = None) -> None:
    """Removes the collection in a folder, and `report` if it is there; refuses if there is anything else."""
    folder = held.path
    if not any(folder.iterdir()):
        return
    if folder.is_symlink() or not (folder / SETTINGS).is_file():
        raise InvalidArgumentError(
            f"{held.said} holds no collection; --force removes nothing else. Name another folder."
        )
    _check_ours(held, report)
    for entry in list(folder.iterdir()):
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def _check_ours(held: Hold, report: Location | None) -> None:
    """Refuses a folder with files or links that no collection writes."""
    folder, dataset_id = held.path, _dataset_id(held)
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        is_report = report is not None and path == report.path
        if path.is_symlink() or not (is_report or _is_of_collection(name, dataset_id)):
            raise InvalidArgumentError(
                f"`out`: {held.shown!r} holds {name!r}, which is not of a collection. Nothing was removed."
            )


def _dataset_id(held: Hold) -> str:
    """Returns the id of the data set that the settings name."""
    try:
        name = load_document(held.path / SETTINGS)["dataset_id"]
        check_id(name)
    except (ValueError, LookupError, TypeError) as error:
        raise InvalidArgumentError(
            f"`out`: {SETTINGS} in {held.shown!r} is damaged, so it is not known what belongs to the "
            "collection. Nothing was removed."
        ) from error
    return name


def _is_of_collection(name: str, dataset_id: str) -> bool:
    """Whether a collection of that data set has a file of that name, whole or half written."""
    *spaces, last = dataset_id.split("/")
    marks = ["/".join([*spaces[: k + 1], NAMESPACE]) for k in range(len(spaces))]
    if name in marks or is_ours(name) or is_temporary_of(name, is_ours):
        return True
    above, _, rest = name.removeprefix("".join(f"{space}/" for space in spaces)).partition("/")
    is_set = above == last or is_temporary_of(above.removesuffix(".old"), last[:LONGEST].__eq__)
    return name.startswith("".join(f"{space}/" for space in spaces)) and is_set and is_of_data_set(rest)


def _files(folder: Path) -> Iterator[Path]:
    """Returns every file and link below a folder; links are not followed."""
    for place, folders, names in os.walk(folder):
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        yield from (Path(place) / name for name in [*links, *names])
