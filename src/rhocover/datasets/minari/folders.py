"""The folders of Minari data sets: found without changing anything, and written completely or not at all.

A data set is a folder with `data/metadata.json` and the data next to it. Its id, `namespace/name-v0`, is its
path under the root folder: $MINARI_DATASETS_PATH, or ~/.minari/datasets. Minari's own functions create the
root folder when they look for it, and may download; these do neither.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from rhocover import checks
from rhocover.datasets.collection.manifest import check_id, is_id
from rhocover.errors import InvalidArgumentError, InvalidDataError
from rhocover.files import sync_folder, write_atomically
from rhocover.folders import (
    is_called,
    is_temporary_of,
    make_folder,
    remove_left_folders,
    temporary_path,
    try_lock,
)

DATA, METADATA, NAMESPACE = "data", "metadata.json", "namespace_metadata.json"
RECORDS = "main_data.hdf5"


def minari_root() -> Path:
    """Returns the folder that Minari looks for ids in, whether or not it exists."""
    chosen = os.environ.get("MINARI_DATASETS_PATH")
    return Path(chosen) if chosen is not None else Path.home() / ".minari" / "datasets"


def minari_path(dataset_id: str) -> Path:
    """Returns the folder in which Minari looks for the data set of this id."""
    check_id(dataset_id)
    return minari_root() / dataset_id


def local_ids() -> list[str]:
    """Returns the ids of the data sets under Minari's root folder, in order."""
    root, found = minari_root(), []
    for folder, names, _ in os.walk(root):
        if DATA in names and (Path(folder) / DATA / METADATA).is_file():
            found.append(Path(folder).relative_to(root).as_posix())
            names.clear()
        names[:] = [name for name in names if not name.startswith(".")]
    return sorted(name for name in found if name != ".")


def find_data(source: str | Path) -> Path:
    """Returns the folder with the metadata of an id, of a data set's folder, or of its `data` folder."""
    folder = checks.place(source, "source", "file or folder")
    by_id = isinstance(source, str) and is_id(source) and _data_of(minari_root() / source)
    by_path = _data_of(folder)
    if by_id and by_path and by_id.resolve() != by_path.resolve():
        raise InvalidArgumentError(
            f"`{source}` is both a Minari id and a folder here.",
            argument="source",
            remedy=f"Pass './{source}' for the folder.",
        )
    if not by_id and not by_path:
        raise _nothing_found(source, folder)
    return by_id or by_path  # pyright: ignore[reportReturnType]


def is_minari_folder(folder: Path) -> bool:
    """Returns whether a folder holds a Minari data set."""
    return _data_of(folder) is not None


def _data_of(folder: Path) -> Path | None:
    for place in (folder / DATA, folder):
        if (place / METADATA).is_file():
            return place
    return None


def _nothing_found(source: str | Path, folder: Path) -> InvalidDataError:
    import difflib

    from rhocover.checks import name_some

    if folder.exists():
        what = "a folder" if folder.is_dir() else "a file"
        return InvalidDataError(
            f"`{source}` is {what} without a Minari data set: expected {DATA}/{METADATA} in it."
        )
    known = local_ids()
    near = difflib.get_close_matches(str(source), known, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    there = f"There are {name_some(known)}." if known else "There are none."
    return InvalidDataError(
        f"`{source}` is neither a folder nor the id of a Minari data set in {minari_root()}.{hint} {there} "
        f"Nothing is downloaded; `minari download {source}` fetches it."
    )


def check_target(path: Path, *, overwrite: bool) -> None:
    """Raises if `path` exists, or with `overwrite` if it is not a Minari data set."""
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise InvalidArgumentError(
            f"`{path}` exists already.", argument="path", remedy="Pass overwrite=True to replace it."
        )
    if path.is_symlink() or not (path / DATA / METADATA).is_file():
        raise InvalidArgumentError(
            f"`{path}` is not a Minari data set and is not overwritten.",
            argument="path",
            remedy="Choose another name, or remove it.",
        )


OLD = ".old"  # suffix of the hidden name of a data set that is being replaced


def stage(path: Path) -> Path:
    """Returns a new hidden folder next to `path`, in which a data set can be assembled."""
    make_folder(path.parent)
    staged = temporary_path(path)
    staged.mkdir()
    try:
        (staged / DATA).mkdir()
    except BaseException:
        staged.rmdir()
        raise
    return staged


def lock_staged(staged: Path) -> int:
    """Returns a locked handle that marks a hidden folder as in use; -1 if folders cannot be locked."""
    try:
        handle = os.open(staged, os.O_RDONLY)
    except OSError:  # folders cannot be opened on every system
        return -1
    try_lock(handle)
    return handle


def remove_staged(path: Path) -> None:
    """Removes what killed processes left next to `path`, and restores what they were replacing."""
    remove_left_folders(path.parent, is_called(path), is_of_data_set)
    for old in _replaced(path):
        if os.path.lexists(path):
            shutil.rmtree(old, ignore_errors=True)
        else:  # killed between the two renames of `publish`
            os.rename(old, path)


def _replaced(path: Path) -> list[Path]:
    """Returns the data sets next to `path` that were being replaced."""
    try:
        names = [name for name in sorted(os.listdir(path.parent)) if name.endswith(OLD)]
    except OSError:
        return []
    ours = [path.parent / name for name in names if is_temporary_of(name.removesuffix(OLD), is_called(path))]
    return [old for old in ours if old.is_dir() and not old.is_symlink()]


def is_of_data_set(name: str) -> bool:
    """Whether a data set has a file of that name in its folder, complete or partly written."""
    folder, _, file = name.rpartition("/")
    return folder == DATA and (file in (RECORDS, METADATA) or is_temporary_of(file, METADATA.__eq__))


def publish(staged: Path, path: Path, *, overwrite: bool) -> None:
    """Renames the finished folder to `path`; a data set that it replaces keeps its name until then."""
    check_target(path, overwrite=overwrite)
    for folder in (staged / DATA, staged):
        sync_folder(folder)
    old = staged.with_name(staged.name + OLD)
    if os.path.lexists(path):
        os.rename(path, old)
    try:
        os.rename(staged, path)
    except BaseException:
        if old.exists():
            os.rename(old, path)
        raise
    sync_folder(path.parent)
    shutil.rmtree(old, ignore_errors=True)


def name_namespaces(path: Path, dataset_id: str) -> None:
    """Marks the folders between Minari's root and the data set as namespaces, as Minari itself does."""
    root = minari_root()
    if path.resolve() != (root / dataset_id).resolve():
        return
    for depth in range(1, len(Path(dataset_id).parts)):
        place = root.joinpath(*Path(dataset_id).parts[:depth]) / NAMESPACE
        if not place.exists():
            write_atomically(place, b"{}")
