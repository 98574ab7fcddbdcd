"""Minari data sets for tests, written in one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rhocover.datasets.minari.files import EpisodeColumns, MinariWriter


def write_minari(
    path: Path | str,
    dataset_id: str,
    episodes: Iterable[EpisodeColumns],
    *,
    metadata: Mapping[str, Any] | None = None,
    **options: Any,
) -> None:
    """Writes the episodes as a Minari data set at `path`; `options` are those of `MinariWriter`."""
    with MinariWriter(path, dataset_id, **options) as writer:
        for episode in episodes:
            writer.add(episode)
        writer.finish(metadata)
