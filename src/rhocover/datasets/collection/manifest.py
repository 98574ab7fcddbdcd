"""The manifest of a collection: which parts there are, how many rows each has, and its SHA-256.

    DIR/manifest.json                           this document
    DIR/parts/part-0000-000000.parquet          environment 0, round 0
    DIR/datasheet.json, datasheet.html          what the data set covers

Only the manifest counts: a file in `parts` that it does not name does not exist. A part is written completely
before the manifest names it, and each of them under a temporary name that is synced and renamed. So whatever
happens, the manifest names parts that are whole.

A *round* is `round_steps` consecutive steps of a run; its steps of one environment are a part. In the order
of their names, parts are one stream: environment by environment, each in the order of its steps. The round
that is not full yet has parts whose names end with the number of its steps so far; when it is full, others
take their place.

A part is read at once, and used only if its bytes have the SHA-256 in the manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rhocover import checks
from rhocover.datasets.collection.rows import NAMES, Rows, Spaces, rows_of_table, spaces_of
from rhocover.datasets.forms.arrow import check_footer
from rhocover.datasets.tables import reading_file
from rhocover.documents import from_document, to_document
from rhocover.errors import FileFormatError, InvalidDataError, shortened
from rhocover.files import check_format, check_plain, check_within, load_document, write_atomically

MANIFEST, PARTS = "manifest.json", "parts"
PART_NAME = re.compile(r"part-(\d{4,})-(\d{6,})(-\d{6,})?\.parquet")
MOST_BYTES = 2**31  # of one part, which is read at once; those that are written have far less


@dataclass(frozen=True)
class Part:
    """A part as the manifest describes it; `first_row` is the number of rows of its environment before it."""

    name: str
    env: int
    round: int
    rows: int
    first_row: int
    num_bytes: int
    sha256: str

    def __post_init__(self) -> None:
        if not PART_NAME.fullmatch(self.name):
            raise ValueError(f"a part is not called {self.name!r}")
        for name in ("env", "round", "first_row"):
            checks.integer(getattr(self, name), name, least=0, most=2**53)
        checks.integer(self.rows, "rows", least=1, most=2**53)
        checks.integer(self.num_bytes, "num_bytes", least=1, most=MOST_BYTES)


@dataclass(frozen=True)
class Manifest:
    """A manifest, with the fields of its document; `settings` are those that determine the steps.

    `digest` is the SHA-256 of format, versions, id and settings. `code` is how observations and actions
    became states and numbers; if a code grew during the run, it is the last one once `is_complete`.
    """

    format: int
    versions: dict[str, Any]
    id: str
    settings: dict[str, Any]
    digest: str
    code: dict[str, Any]
    spaces: dict[str, Any]
    round_steps: int
    is_complete: bool
    parts: tuple[Part, ...]

    @property
    def num_steps(self) -> int:
        """How many rows the parts have."""
        return sum(part.rows for part in self.parts)

    @property
    def num_rounds(self) -> int:
        """How many rounds there are."""
        return max((part.round for part in self.parts), default=-1) + 1

    def before_round(self, number: int) -> Manifest:
        """Returns the manifest without the parts of a round and those after it."""
        return replace(
            self, parts=tuple(part for part in self.parts if part.round < number), is_complete=False
        )


def digest_of(document: dict[str, Any]) -> str:
    """Returns the SHA-256 of a document."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def is_collection(folder: Path) -> bool:
    """Whether a folder has a manifest."""
    return (folder / MANIFEST).is_file()


def part_path(folder: Path, name: str) -> Path:
    """Returns the file of a part."""
    return folder / PARTS / name


def part_name(env: int, number: int, num_steps: int | None = None) -> str:
    """Returns the name of a part; `num_steps` are those of a round that is not full, so far."""
    return f"part-{env:04d}-{number:06d}{'' if num_steps is None else f'-{num_steps:06d}'}.parquet"


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Writes a manifest so that a crash leaves the old one or this one."""
    document = to_document(manifest)
    text = json.dumps(document, indent=1, sort_keys=False, allow_nan=False) + "\n"
    write_atomically(folder / MANIFEST, text.encode(), overwrite=True)


def load_manifest(folder: Path) -> Manifest:
    """Returns the manifest of a folder; raises if it is damaged, or of a later format."""
    place = folder / MANIFEST
    document = load_document(place)
    versions = document.get("versions")
    writer = versions.get("rhocover") if isinstance(versions, dict) else None
    check_format(place, document.get("format"), writer)
    found = from_document(Manifest, document, f"`{place}`")
    _check_parts(place, found)
    return found


def _check_parts(place: Path, found: Manifest) -> None:
    """Raises if parts are not in order, or do not follow each other."""
    rows: dict[int, int] = {}
    last = (-1, -1)
    for part in found.parts:
        where = (part.env, part.round)
        if where <= last or part.first_row != rows.get(part.env, 0):
            raise FileFormatError(f"`{place}` is damaged: {part.name} does not follow the part before it.")
        rows[part.env], last = part.first_row + part.rows, where


def load_part(folder: Path, part: Part, spaces: Spaces) -> Rows:
    """Returns the rows of a part; raises with its name if it is missing, cut or altered."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    content = part_bytes(folder, part)
    path = part_path(folder, part.name)
    with reading_file(path, "a part of a collection"):
        with parquet.ParquetFile(pa.BufferReader(content)) as file:
            check_footer(file, NAMES, len(content))
            if file.metadata.num_rows != part.rows:
                raise InvalidDataError(
                    f"it has {file.metadata.num_rows} rows, the manifest says {part.rows}."
                )
            rows = rows_of_table(file.read(use_threads=False), spaces)
        if (rows.env != part.env).any():
            raise InvalidDataError(f"it has rows of another environment than {part.env}.")
    return rows


def part_bytes(folder: Path, part: Part) -> bytes:
    """Returns the bytes of a part, which have the SHA-256 in the manifest."""
    path = part_path(folder, part.name)
    if not os.path.lexists(path):
        raise _harmed(folder, part, "is missing")
    try:
        check_within(path, folder)
        size = check_plain(path)
        with path.open("rb") as file:
            content = file.read(part.num_bytes + 1) if size == part.num_bytes else b""
    except (OSError, ValueError, RuntimeError) as error:  # a loop of links is a RuntimeError
        raise _harmed(folder, part, f"cannot be read ({shortened(error)})") from error
    if size != part.num_bytes:
        raise _harmed(folder, part, f"has {size} bytes, and the manifest says {part.num_bytes}")
    if hashlib.sha256(content).hexdigest() != part.sha256:
        raise _harmed(folder, part, "was altered: its SHA-256 is not that in the manifest")
    return content


class HarmedPartError(InvalidDataError):
    """A part is missing, cut or altered."""


def _harmed(folder: Path, part: Part, what: str) -> HarmedPartError:
    return HarmedPartError(
        f"the part {part.name} of the collection in {str(folder)!r} {what}. Copy the part again from where "
        "the collection comes from, or repeat the collection into another folder."
    )


def spaces_of_manifest(manifest: Manifest) -> Spaces:
    """Returns the spaces of observations and actions."""
    return spaces_of(manifest.spaces, manifest.id)


def remove_unnamed(folder: Path, manifest: Manifest) -> None:
    """Removes the parts that a manifest does not name: from a killed process, or replaced by others."""
    named = {part.name for part in manifest.parts}
    for path in part_files(folder):
        if path.name not in named:
            path.unlink()


def part_files(folder: Path) -> Iterator[Path]:
    """Yields the files that have the name of a part."""
    place = folder / PARTS
    names = sorted(os.listdir(place)) if place.is_dir() else []
    yield from (place / name for name in names if PART_NAME.fullmatch(name))
