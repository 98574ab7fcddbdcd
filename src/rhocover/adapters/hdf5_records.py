"""An episode as one record of bytes: HDF5 object headers made from a template, thousands at a time.

A Minari data set is an HDF5 file with a group per episode and a dataset per column. The HDF5 library takes
about 50 microseconds for each of these small objects, which for short episodes is more than the steps
themselves took. But the headers of two episodes differ only in a few numbers (lengths, addresses, number,
seed). So the bytes of one episode's headers are laid out once, as a NumPy record whose fields are those
numbers; the records of a thousand episodes are then filled by column, and their data is written as it is.

    record = [group "episode_i"] [nested groups ...] [dataset header of each column ...]

What is used of the format has neither checksums nor times, and every HDF5 since 1.8 (2008) reads it: version
1 object headers, groups that hold their links, contiguous datasets (`hdf5_messages`). This module knows bytes
and columns, nothing of spaces or of Minari.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover.adapters.hdf5_messages import (
    ATTRIBUTE,
    NO_MESSAGE,
    Part,
    attribute_part,
    fixed,
    group_part,
    join,
    message,
    number,
    object_header,
    type_bytes,
)


@dataclass(frozen=True)
class Column:
    """One array of an episode: `length + extra` rows of `shape`; its path is ("observations", "position")."""

    path: tuple[str, ...]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    extra: int  # an episode of T steps has T + 1 observations, T of everything else

    @property
    def name(self) -> str:
        """Returns the path as HDF5 writes it."""
        return "/".join(self.path)

    @property
    def row_bytes(self) -> int:
        """Returns how many bytes a row takes."""
        return self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))


def dataset_part(column: Column) -> Part:
    """Returns the header of a contiguous dataset (IV.A.2.b, d, f, i)."""
    name, rank = column.name, 1 + len(column.shape)
    space = struct.pack("<BBB5x", 1, rank, 0)
    rest = struct.pack(f"<{rank - 1}Q", *column.shape)
    return object_header(
        [
            message(0x0001, fixed(space), number(f"{name}.rows"), fixed(rest)),
            message(0x0003, fixed(type_bytes(column.dtype))),
            message(0x0005, fixed(struct.pack("<BBBBI", 2, 2, 2, 1, 0))),  # the default fill value
            message(
                0x0008, fixed(b"\x03\x01"), number(f"{column.name}.data"), number(f"{column.name}.bytes")
            ),
        ]
    )


@dataclass(frozen=True)
class EpisodeRecord:
    """The template of an episode's headers: `dtype` names its numbers, `links` where its objects begin."""

    columns: tuple[Column, ...]
    template: np.ndarray  # one record, shape [1]
    links: Mapping[str, int]  # field of an address -> where in the record that object begins

    def fill(
        self,
        address: int,
        first: int,
        lengths: np.ndarray,
        seeds: np.ndarray,
        has_seed: np.ndarray,
        data: Mapping[str, int],
    ) -> np.ndarray:
        """Returns the records of episodes `first`, `first + 1`, ... to be written at `address`, shape `[E]`.

        `data` says where each column's block begins: the rows of all these episodes, one after another.
        """
        records = np.tile(self.template.view(np.uint8), len(lengths)).view(self.template.dtype)
        here = address + records.itemsize * np.arange(len(lengths))
        for field, offset in self.links.items():
            records[field] = here + offset
        records["attrs.id"] = first + np.arange(len(lengths))
        records["attrs.total_steps"] = lengths
        records["seed.kind"] = np.where(has_seed, ATTRIBUTE, NO_MESSAGE)
        records["attrs.seed"] = np.where(has_seed, seeds, 0)
        for column in self.columns:
            rows = lengths + column.extra
            records[f"{column.name}.rows"] = rows
            records[f"{column.name}.bytes"] = rows * column.row_bytes
            records[f"{column.name}.data"] = data[column.name] + (np.cumsum(rows) - rows) * column.row_bytes
        return records


def episode_record(columns: Sequence[Column]) -> EpisodeRecord:
    """Returns the template of an episode with these columns."""
    attributes = [attribute_part("id"), attribute_part("total_steps"), attribute_part("seed", "seed.kind")]
    objects = {path: group_part(links, attributes if not path else ()) for path, links in _groups(columns)}
    objects |= {column.path: dataset_part(column) for column in columns}
    starts = np.cumsum([0, *(len(part.data) for part in objects.values())])
    whole = join(list(objects.values()))
    form = np.dtype(
        {
            "names": list(whole.fields),
            "formats": [form for _, form in whole.fields.values()],
            "offsets": [offset for offset, _ in whole.fields.values()],
            "itemsize": len(whole.data),
        }
    )
    links = {_header(path): int(start) for path, start in zip(objects, starts, strict=False) if path}
    return EpisodeRecord(tuple(columns), np.frombuffer(whole.data, dtype=form), links)


def _header(path: tuple[str, ...]) -> str:
    return "/".join(path) + ".header"


def _groups(columns: Sequence[Column]) -> list[tuple[tuple[str, ...], dict[str, str]]]:
    """Returns every group that the columns' paths pass through, the episode's own first, with its links."""
    groups: dict[tuple[str, ...], dict[str, str]] = {(): {}}
    for column in columns:
        for depth in range(len(column.path)):
            here, child = column.path[:depth], column.path[: depth + 1]
            groups.setdefault(here, {})[child[-1]] = _header(child)
    return list(groups.items())
