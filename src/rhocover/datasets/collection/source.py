"""Reads a collection: part by part, with the codes in its manifest.

`CollectionSource` gives the steps as whole columns of episodes, as a Minari data set does, so that both are
counted by the same code. `table_of_numbers` gives them as a table of states and actions that are numbers
already, which is counted in ranges of rows: each part belongs to one range, and any process can read it.

Data are named in several ways: by the folder of the collection, by its folder of parts, and by a pattern that
fits all of its parts. All of them mean what the manifest says. Some of the parts are a table of their own.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover.datasets.collection.manifest import (
    MANIFEST,
    PARTS,
    Manifest,
    Part,
    closed_rows,
    is_collection,
    load_manifest,
    pieces_of,
    spaces_of_manifest,
)
from rhocover.datasets.collection.rows import NEXT, OBSERVATION, Spaces
from rhocover.datasets.columns import Columns
from rhocover.datasets.minari.columns import EpisodeColumns, FlatColumns, rebuild, split
from rhocover.datasets.tables import DataTable, Piece, rows_of_pieces
from rhocover.errors import InvalidDataError, naming

if TYPE_CHECKING:
    import gymnasium as gym


@dataclass(frozen=True, eq=False)
class CollectionSource:
    """An open collection."""

    folder: Path
    manifest: Manifest

    @cached_property
    def spaces(self) -> Spaces:
        """The spaces of observations and actions."""
        with naming(self.folder / MANIFEST):
            return spaces_of_manifest(self.manifest)

    @property
    def observation_space(self) -> gym.Space[Any]:
        """The observation space."""
        return self.spaces.observation

    @property
    def action_space(self) -> gym.Space[Any]:
        """The action space."""
        return self.spaces.action

    @property
    def dataset_id(self) -> str:
        """The id of the collection."""
        return self.manifest.id

    @property
    def num_steps(self) -> int:
        """How many steps it has."""
        return self.manifest.num_steps

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """The settings and the code, where the metadata of a Minari data set has the datasheet."""
        told = self.manifest
        settings = {**told.settings, **told.code}
        return {"rhocover": {"format": told.format, "versions": told.versions, "settings": settings}}

    def pieces(self) -> Iterator[FlatColumns]:
        """Yields the steps as columns of episodes, a part at a time; see `pieces_of`."""
        return pieces_of(self.folder, self.manifest, self.spaces)

    def episodes(self) -> Iterator[EpisodeColumns]:
        """Yields the episodes one by one."""
        from rhocover.datasets.minari.reading import split_episodes

        held: list[EpisodeColumns] = []
        for flat in self.pieces():
            found = list(split_episodes(flat, self))  # type: ignore[arg-type]
            for k, episode in enumerate(found):
                held.append(episode)
                if not (flat.has_more and k == len(found) - 1):
                    yield _joined(held, self.spaces)
                    held = []


def _joined(parts: Sequence[EpisodeColumns], spaces: Spaces) -> EpisodeColumns:
    """Returns the parts of one episode as a whole."""
    if len(parts) == 1:
        return parts[0]
    leaves: dict[Any, list[np.ndarray]] = {}
    for k, part in enumerate(parts):
        for path, _, array in split(part.observations, spaces.observation, (OBSERVATION,)):
            leaves.setdefault(path, []).append(array if k == len(parts) - 1 else array[:-1])
    whole = {path: np.concatenate(pieces) for path, pieces in leaves.items()}
    names = ("actions", "rewards", "terminations", "truncations")
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return replace(
        parts[0], observations=rebuild(spaces.observation, (OBSERVATION,), whole.__getitem__), **columns
    )


def open_collection(folder: Path) -> CollectionSource:
    """Returns the collection in a folder; raises if it is not finished."""
    manifest = load_manifest(folder)
    if not manifest.is_complete:
        raise InvalidDataError(
            f"the collection in {str(folder)!r} is not finished. Continue it: repeat the same call with "
            "resume."
        )
    if not manifest.parts:
        raise InvalidDataError(f"`{folder / MANIFEST}` is damaged: it names no part.")
    return CollectionSource(folder, manifest)


def collection_folder(path: Path) -> Path | None:
    """Returns the folder of the collection that a path means; None if it means something else."""
    if path.is_dir():
        found = (
            path if is_collection(path) else path.resolve().parent if path.resolve().name == PARTS else None
        )
        return found if found is not None and is_collection(found) else None
    if path.parent.name != PARTS or path.exists() or not is_collection(path.parent.parent):
        return None
    folder = path.parent.parent
    there = {Path(name).name for name in glob.iglob(str(path))}
    return folder if {part.name for part in load_manifest(folder).parts} <= there else None


# States and actions as numbers, for counting in ranges.

NUMBERED = Columns(OBSERVATION, "action", NEXT, None, "terminated", "truncated", None, first="step")


def table_of_numbers(folder: Path, states: Any, actions: Any) -> DataTable:
    """Returns the steps as a table of numbers by a state code with `every_key` and an action code."""
    source = open_collection(folder)
    first = list(accumulate((part.rows for part in source.manifest.parts), initial=0))

    def numbered(parts: Sequence[Part]) -> Iterator[Piece]:
        for part in parts:
            rows = closed_rows(folder, source.manifest, part, source.spaces)
            keys = states.keys(rows.shown[(OBSERVATION,)]) - states.every_key.start
            yield {
                OBSERVATION: keys[rows.before], NEXT: keys[rows.after],
                "action": actions.numbers(rows.action),
                "terminated": rows.terminated, "truncated": rows.truncated, "step": rows.step,
            }  # fmt: skip

    def some_rows(wanted: Sequence[str], begin: int, stop: int) -> Iterator[Piece]:
        chosen = [k for k in range(len(first) - 1) if first[k] < stop and first[k + 1] > begin]
        pieces = numbered([source.manifest.parts[k] for k in chosen])
        return rows_of_pieces(pieces, first[chosen[0]] if chosen else 0, begin, stop)

    return DataTable(
        (OBSERVATION, "action", NEXT, "terminated", "truncated", "step"),
        lambda wanted: numbered(source.manifest.parts), str(folder), first[-1],
        borders=lambda wanted: first, some_rows=some_rows,
    )  # fmt: skip
