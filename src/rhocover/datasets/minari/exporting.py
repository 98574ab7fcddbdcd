"""Writes a collection as a Minari data set, part by part, in bounded memory.

The episodes and their seeds are those of the collection, environment by environment. An episode that the end
of the collection cut off is marked as truncated, so that a reader does not take it for a termination. The
metadata contains the datasheet.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.datasets.collection.manifest import is_collection
from rhocover.datasets.collection.source import CollectionSource, open_collection
from rhocover.errors import InvalidArgumentError, missing_extra
from rhocover.files import load_document
from rhocover.progress import Report, progress

SHEET = "datasheet.json"


def export_minari(
    folder: Path, dataset_id: str | None = None, *, overwrite: bool = False, report: Report | None = None
) -> Any:
    """Returns the `minari.MinariDataset` of a collection, written to Minari's own folder."""
    try:
        from minari import MinariDataset

        from rhocover.datasets.minari.files import MinariWriter, minari_path
    except ImportError as error:
        raise missing_extra("minari", "minari") from error
    folder = checks.place(folder, "data", "file or folder")
    if not is_collection(folder):
        raise InvalidArgumentError.of("data", f": there is no collection in {str(folder)!r}")
    source = open_collection(folder)
    name = source.dataset_id if dataset_id is None else dataset_id
    path = minari_path(name)
    sheet = load_document(folder / SHEET)
    settings = source.manifest.settings
    spec = settings.get("environment") if source.manifest.parts[-1].env == 0 else None
    writer = MinariWriter(
        path, name, observation_space=source.observation_space, action_space=source.action_space,
        env_spec=spec if isinstance(spec, str) and spec.startswith("{") else None, overwrite=overwrite,
    )  # fmt: skip
    lengths = episode_lengths(source)
    with writer, progress(f"writing {name}", report) as told:
        done = begun = 0
        for flat in source.pieces():
            begun += len(flat)
            writer.add_piece(flat, int(lengths[begun - 1]) if flat.has_more else None)
            begun -= flat.has_more
            done += len(flat.rewards)
            told(done, source.num_steps)
        about = {
            "algorithm_name": f"rhocover {settings.get('algorithm')}",
            "description": sheet.get("verdict"),
        }
        writer.finish(about | {"rhocover": sheet})
    return MinariDataset(path / "data")


def episode_lengths(source: CollectionSource) -> np.ndarray:
    """Returns the number of steps of each episode, in the order of the pieces."""
    found: list[int] = []
    goes_on = False
    for lengths, has_more in _stretches(source):
        if goes_on:
            found[-1] += lengths.pop(0)
        found += lengths
        goes_on = has_more
    return np.array(found, np.int64)


def _stretches(source: CollectionSource) -> Iterator[tuple[list[int], bool]]:
    for flat in source.pieces():
        yield list(map(int, flat.lengths)), flat.has_more
