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

With `workers` a round is one leg of every worker, and a part is one leg; `env` is the worker. The parts of a
round are named in the manifest all at once, and every leg is a stretch of whole or truncated episodes.

A part is read at once, and used only if its bytes have the SHA-256 in the manifest.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover import checks
from rhocover.datasets.collection.rows import OBSERVATION, PartRows, Spaces, rows_of_table
from rhocover.datasets.minari.columns import FlatColumns, rebuild
from rhocover.documents import from_document, refuse, to_document
from rhocover.errors import FileFormatError, InvalidArgumentError, InvalidDataError, Setting, shortened
from rhocover.files import check_format, check_plain, check_within, load_document, write_atomically

if TYPE_CHECKING:
    import gymnasium as gym

MANIFEST, PARTS = "manifest.json", "parts"
PART_NAME = re.compile(r"part-(\d{4,})-(\d{6,})(-\d{6,})?\.parquet")
MOST_BYTES = 2**31  # of one part, which is read at once; those that are written have far less
LEAST_ROW = 64  # bytes of a row in memory


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


def check_id(dataset_id: str) -> None:
    """Raises if Minari could not load a data set with this id."""
    if not is_id(dataset_id):
        raise InvalidArgumentError.of(
            "dataset_id",
            "must be like 'name-v0' or 'namespace/name-v0', with letters, digits, '-' and '_' (at least two "
            "characters in a namespace)",
            repr(dataset_id),
            remedy=("Pass ", Setting("dataset_id", "'mine-v0'"), ", for example."),
        )


ID = re.compile(r"([-\w][-\w/]*[-\w]/)?[-\w]+-v\d+")  # as Minari has it: namespace/name-v0


def is_id(text: object) -> bool:
    """Whether a text can be the id of a data set."""
    return isinstance(text, str) and ID.fullmatch(text) is not None


def is_collection(folder: Path) -> bool:
    """Whether a folder has a manifest."""
    return (folder / MANIFEST).is_file()


def part_path(folder: Path, name: str) -> Path:
    """Returns the file of a part."""
    return folder / PARTS / name


def part_name(env: int, number: int, num_steps: int | None = None) -> str:
    """Returns the name of a part; `num_steps` are those of a round that is not full, so far."""
    return f"part-{env:04d}-{number:06d}{'' if num_steps is None else f'-{num_steps:06d}'}.parquet"


def with_parts(manifest: Manifest, parts: Sequence[Part]) -> Manifest:
    """Returns the manifest with more parts, in their order."""
    both = sorted([*manifest.parts, *parts], key=lambda part: (part.env, part.round))
    return replace(manifest, parts=tuple(both))


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
    if not is_id(found.id):
        raise FileFormatError(f"`{place}` is damaged: {shortened(found.id)!r} is no id of a data set.")
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


def load_part(folder: Path, part: Part, spaces: Spaces) -> PartRows:
    """Returns the rows of a part; raises with its name if it is missing, cut or altered."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    content = part_bytes(folder, part)
    if part.rows * max(spaces.row_bytes, LEAST_ROW) > MOST_BYTES:  # before Arrow unpacks them
        raise _harmed(folder, part, f"claims {part.rows} rows, more than can be read at once")
    try:
        with parquet.ParquetFile(pa.BufferReader(content)) as file:
            if file.metadata.num_rows != part.rows:
                raise ValueError(f"it has {file.metadata.num_rows} rows, not {part.rows}")
            rows = rows_of_table(file.read(use_threads=False), spaces)
        if (rows.env != part.env).any():
            raise ValueError(f"it has rows of another environment than {part.env}")
    except MemoryError:
        raise
    except Exception as error:  # the errors of Arrow have no common class
        raise _harmed(folder, part, f"cannot be read ({shortened(error)})") from error
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
    names = ("observation", "action")
    return Spaces(
        *(read_space(manifest.spaces.get(name), f"the {name} space of {manifest.id}") for name in names)
    )


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
    found = (place / name for name in names if PART_NAME.fullmatch(name))
    yield from (path for path in found if path.is_symlink() or not path.is_dir())


def pieces_of(folder: Path, manifest: Manifest, spaces: Spaces) -> Iterator[FlatColumns]:
    """Yields the steps as columns of episodes, a part at a time.

    If a piece has `has_more`, its last episode continues in the next one, which repeats the observation at
    the border.
    """
    for part in manifest.parts:
        yield _flat(closed_rows(folder, manifest, part, spaces), spaces)


def closed_rows(folder: Path, manifest: Manifest, part: Part, spaces: Spaces) -> PartRows:
    """Returns the rows of a part; an episode that the end of the collection cuts counts as truncated."""
    rows = load_part(folder, part, spaces)
    is_last = part is max((one for one in manifest.parts if one.env == part.env), key=lambda one: one.round)
    if not is_last or rows.terminated[-1]:
        return rows
    return replace(rows, truncated=np.append(rows.truncated[:-1], True))


def _flat(rows: PartRows, spaces: Spaces) -> FlatColumns:
    """Returns rows as columns of episodes; a stretch is an episode, or a part of one."""
    seeds, is_over = rows.seed[rows.begins].tolist(), rows.terminated[-1] or rows.truncated[-1]
    return FlatColumns(
        rebuild(spaces.observation, (OBSERVATION,), rows.shown.__getitem__), rows.action, rows.reward,
        rows.terminated, rows.truncated, rows.lengths,
        tuple(None if seed < 0 else seed for seed in seeds), not is_over,
    )  # fmt: skip


# The documents of spaces.
#
#   Discrete             n, start
#   MultiDiscrete        nvec, start, dtype
#   MultiBinary          n
#   Box                  low, high (one number if all are equal, else nested lists), shape, dtype
#   Dict, Tuple          spaces: those of the parts
#
# An infinite bound is the text inf or -inf. A document may come from anywhere: it is read strictly, no
# program is run, and how much memory a space takes is checked before it is made.

MOST_NUMBERS = 2**26  # of an observation: half a gigabyte as float64
DEEPEST = 32  # nested spaces


def space_document(space: gym.Space[Any]) -> dict[str, Any]:
    """Returns a space as a document; only for spaces whose values are arrays of numbers."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        ends = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
        return {"kind": "MultiDiscrete", **ends, "dtype": str(space.dtype)}
    if isinstance(space, spaces.MultiBinary):
        return {"kind": "MultiBinary", "n": np.array(space.n).tolist()}
    if isinstance(space, spaces.Box):
        ends = {"low": _bounds(space.low), "high": _bounds(space.high)}
        return {"kind": "Box", **ends, "shape": list(space.shape), "dtype": str(space.dtype)}
    if isinstance(space, spaces.Dict):
        return {
            "kind": "Dict",
            "spaces": {key: space_document(part) for key, part in space.spaces.items()},
        }
    if isinstance(space, spaces.Tuple):
        return {"kind": "Tuple", "spaces": [space_document(part) for part in space.spaces]}
    raise TypeError(f"no document holds a {type(space).__name__}")  # `space_leaves` has refused it


def _bounds(array: Any) -> Any:
    """Returns one number if all are equal, else nested lists; infinite ones as text."""
    flat = array.ravel()
    if flat.size and (flat == flat[0]).all():
        return _number(flat[0].item())
    return _numbers(array.tolist())


def _numbers(values: Any) -> Any:
    return [_numbers(value) for value in values] if isinstance(values, list) else _number(values)


def _number(value: Any) -> Any:
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def read_space(document: Any, what: str) -> gym.Space[Any]:
    """Returns the space that a document describes; messages call it `what`."""
    try:
        return _read(document, "", 0)
    except (ValueError, TypeError, KeyError, OverflowError, AssertionError, AttributeError) as error:
        raise FileFormatError(f"{what} is damaged: {error}.") from error


def _read(document: Any, at: str, depth: int) -> gym.Space[Any]:
    from gymnasium import spaces

    if not isinstance(document, dict) or depth > DEEPEST:
        refuse(at, "a space", document)
    kind = document.get("kind")
    if kind == "Discrete":
        return spaces.Discrete(_whole(document, "n", at), start=_whole(document, "start", at))
    if kind == "MultiDiscrete":
        nvec, start = (np.array(document[name]) for name in ("nvec", "start"))
        return spaces.MultiDiscrete(nvec, dtype=_type(document, at), start=start)
    if kind == "MultiBinary":
        n = document["n"]
        _check_size(n if isinstance(n, list) else [n], at)
        return spaces.MultiBinary(n)
    if kind == "Box":
        return _read_box(document, at)
    if kind == "Dict" and isinstance(document.get("spaces"), dict):
        parts = document["spaces"].items()
        read = {key: _read(part, f"{at}.{key}", depth + 1) for key, part in parts}
        return spaces.Dict(OrderedDict(read))  # Gymnasium sorts the keys of a plain one
    if kind == "Tuple" and isinstance(document.get("spaces"), list):
        parts = enumerate(document["spaces"])
        return spaces.Tuple([_read(part, f"{at}.{k}", depth + 1) for k, part in parts])
    refuse(f"{at}.kind", "the kind of a space", kind)


def _read_box(document: dict[str, Any], at: str) -> gym.Space[Any]:
    from gymnasium import spaces

    shape = document["shape"]
    _check_size(shape, at)
    form = _type(document, at)
    low, high = (_as_bound(document[name], shape, form) for name in ("low", "high"))
    return spaces.Box(low, high, tuple(shape), form)  # type: ignore[arg-type]


def _as_bound(value: Any, shape: list[int], form: Any) -> Any:
    """Returns a bound as an array; infinite bounds of whole numbers are what Gymnasium makes of them."""
    array = np.array(value)
    array = array.astype(float) if array.dtype.kind in "US" else array
    return np.broadcast_to(array.astype(form), tuple(shape)).copy()


def _whole(document: dict[str, Any], name: str, at: str) -> int:
    value = document.get(name)
    if type(value) is not int or not -(2**63) <= value < 2**63:  # what Gymnasium holds, as int64
        refuse(f"{at}.{name}", "a whole number", value)
    return value


def _type(document: dict[str, Any], at: str) -> Any:
    form = np.dtype(document["dtype"]) if isinstance(document.get("dtype"), str) else None
    if form is None or form.kind not in "biuf" or form.itemsize > 8:
        refuse(f"{at}.dtype", "a type of number", document.get("dtype"))
    return form


def _check_size(shape: Any, at: str) -> None:
    is_shape = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    if not is_shape or math.prod(shape) > MOST_NUMBERS:
        refuse(f"{at}.shape", f"a shape of at most {MOST_NUMBERS} numbers", shape)
