"""Minari data sets: `MinariWriter`, `open_minari` and `MinariSource`.

A data set is given by its id, by its folder, or as a `minari.MinariDataset` (with the episodes that were
selected from it). Opening reads the metadata and checks the file; nothing is created, downloaded or
unpickled, and no environment is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rhocover.datasets.minari.columns import EpisodeColumns, FlatColumns, space_leaves
from rhocover.datasets.minari.folders import METADATA, find_data, local_ids, minari_path, minari_root
from rhocover.datasets.minari.hdf5_objects import open_file
from rhocover.datasets.minari.reading import MinariSource, data_file
from rhocover.datasets.minari.writing import MinariWriter
from rhocover.errors import InvalidArgumentError, InvalidDataError, missing_extra, shortened
from rhocover.files import check_within, parse_json, read_text

if TYPE_CHECKING:
    import gymnasium as gym
    from minari import MinariDataset

__all__ = [
    "EpisodeColumns",
    "FlatColumns",
    "MinariSource",
    "MinariWriter",
    "local_ids",
    "minari_path",
    "minari_root",
    "open_minari",
]

FORMATS = ("hdf5", "arrow", "parquet")


def open_minari(source: str | Path | MinariDataset) -> MinariSource:
    """Returns the data set of an id, of a folder (its own or its `data`), or of a `MinariDataset`."""
    if not isinstance(source, str | Path):
        return _opened(source)
    try:
        import minari  # noqa: F401
    except ImportError as error:
        raise missing_extra("minari", "minari") from error
    folder = find_data(source)
    metadata = read_metadata(folder)
    _check_number(folder, metadata)
    return _source(folder, metadata, range(metadata["total_episodes"]), metadata["total_steps"])


def _opened(dataset: Any) -> MinariSource:
    """Returns the source of a `MinariDataset`: the episodes that it selects."""
    try:
        from minari import MinariDataset
    except ImportError as error:
        raise missing_extra("minari", "minari") from error
    if not isinstance(dataset, MinariDataset):
        raise InvalidArgumentError.of(
            "source", "must be a Minari id, a folder or a MinariDataset", type(dataset).__name__
        )
    folder = Path(dataset.storage.data_path)
    indices = tuple(int(index) for index in dataset.episode_indices)
    return _source(folder, read_metadata(folder), indices, dataset.total_steps)


def _source(folder: Path, metadata: dict[str, Any], indices: Sequence[int], num_steps: int) -> MinariSource:
    if not indices:
        raise InvalidDataError(f"`{metadata['dataset_id']}` in {folder} has no episodes.")
    observation_space = read_space(metadata, "observation_space", folder)
    action_space = read_space(metadata, "action_space", folder)
    return MinariSource(
        metadata["dataset_id"], metadata, observation_space, action_space, num_steps, folder, indices
    )


def _check_number(folder: Path, metadata: dict[str, Any]) -> None:
    """Raises if a data set does not have as many episodes as its metadata states."""
    number = metadata["total_episodes"]
    if metadata["data_format"] == "hdf5":
        _check_file(data_file(folder), number)
    elif number > metadata["total_steps"]:  # files are looked for one by one
        raise InvalidDataError(f"`{folder / METADATA}` states more episodes than steps.")


def read_metadata(folder: Path) -> dict[str, Any]:
    """Returns metadata.json; raises if an entry that a reader needs is missing."""
    place = folder / METADATA
    try:
        check_within(place, folder)
        metadata = parse_json(read_text(place))
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: nested too deeply, loops of links
        raise InvalidDataError(f"`{place}` is damaged: expected JSON ({shortened(error)}).") from error
    wanted = {"dataset_id": str, "data_format": str, "total_episodes": int, "total_steps": int}
    for key, kind in wanted.items():
        value = metadata.get(key) if isinstance(metadata, dict) else None
        is_far = isinstance(value, int) and not 0 <= value < 2**62
        if not isinstance(value, kind) or isinstance(value, bool) or is_far:
            raise InvalidDataError(
                f"`{place}` must have {key!r} as {kind.__name__}, got {shortened(repr(value))}."
            )
    if metadata["data_format"] not in FORMATS:
        raise InvalidDataError(
            f"`{place}` names the format {shortened(repr(metadata['data_format']))}, expected "
            f"{', '.join(FORMATS)}."
        )
    return metadata


def read_space(metadata: dict[str, Any], key: str, folder: Path) -> gym.Space[Any]:
    """Returns the space in the metadata; raises if there is none, without building an environment."""
    from minari.serialization import deserialize_space

    text = metadata.get(key)
    if not isinstance(text, str):
        raise InvalidDataError(
            f"`{folder / METADATA}` has no {key!r}. Minari would build the environment that it names to get "
            "it; rhocover never runs what a file names. Write the data set again with its spaces."
        )
    try:
        space = deserialize_space(text)
        list(space_leaves(space, (key,)))
    except InvalidArgumentError as error:
        raise InvalidDataError(f"`{folder / METADATA}`: {error}") from error
    except Exception as error:  # Minari's reader may raise anything for text that is not a space
        raise InvalidDataError(
            f"`{folder / METADATA}` has a damaged {key!r} ({shortened(repr(error))})."
        ) from error
    return space


def _check_file(path: Path, least: int) -> None:
    """Raises if a file cannot be opened, or has fewer episodes than the metadata state."""
    with open_file(path) as file:
        if len(file) < least:
            raise InvalidDataError(
                f"`{path}` has {len(file)} episodes, expected {least} according to its metadata."
            )
