"""Files that are whole or absent: tensors and a JSON header, written atomically, checked when read.

One format for everything the library saves: a safetensors file whose metadata holds one JSON document
(kind, format version, library version, SHA-256 of all of it). Nothing is ever unpickled. A file is
written under a temporary name in the same folder (`folders`), fsynced and renamed, so that a reader sees
the old file or the new one and never a part of either. A folder that is held (`folders`) is not made again.

Tensors as the bytes of a safetensors file, put together here in one piece of memory.

The bytes are those that safetensors' own writer gives. It holds three copies of them, and ends the
process where there is no memory for one; here there is one copy, and a MemoryError.

    8 bytes: length of the header | header, JSON, padded with blanks | tensors, widest numbers first

Files that can be read to their end: no pipes, no devices, no bytes without number.

Whoever names a file for us may put anything in its place. Opening a pipe waits for ever, a device never
ends, and a file of a terabyte may have nothing on the disk behind it (a sparse file). They are told from
plain files before they are opened. What is wrong is a ValueError whose text goes behind the name of the
file.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rhocover import checks
from rhocover._version import __version__
from rhocover.errors import FileFormatError, InvalidArgumentError, shortened
from rhocover.folders import holder_of, is_called, make_folder, remove_left, temporary_file

# Tensors as the bytes of a safetensors file, put together here in one piece of memory.

ORDER = ("u8", "i8", "f8", "f4", "u4", "i4", "f2", "u2", "i2", "i1", "u1", "b1")  # so that all are aligned
LETTERS = {"u": "U", "i": "I", "f": "F"}


def tensor_bytes(tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> bytes:
    """Returns the file that holds these tensors and texts."""
    names = sorted(tensors, key=lambda name: (ORDER.index(tensors[name].dtype.str[1:]), name))
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    end = 0
    for name in names:
        begin, end = end, end + tensors[name].nbytes
        shape = list(tensors[name].shape)
        header[name] = {"dtype": _kind(tensors[name].dtype), "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = [_little(tensors[name]).reshape(-1).view(np.uint8).data for name in names]
    return b"".join([len(text).to_bytes(8, "little"), text, *data])


def _kind(dtype: np.dtype) -> str:
    return "BOOL" if dtype.kind == "b" else f"{LETTERS[dtype.kind]}{8 * dtype.itemsize}"


def _little(array: np.ndarray) -> np.ndarray:
    """Returns the array in one piece, with the lowest byte of each number first."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


# Files that can be read to their end: no pipes, no devices, no bytes without number.

MOST_TEXT = 2**26  # bytes of a JSON document: twice what the space of a picture of 1024 by 1024 takes
LARGE = 2**30  # bytes; smaller files may have as many holes as they like
MOST_HOLLOW = 1100  # times larger than on the disk: more than a file system that packs its blocks can do
KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
HALF_A_LETTER = re.compile(r"\\u[dD][89a-fA-F]")


def check_plain(path: str | os.PathLike[str]) -> int:
    """Returns the size of a file in bytes; refuses what is no file, and one that is nearly all hole."""
    found = os.stat(path)
    for is_kind, name in KINDS:
        if is_kind(found.st_mode):
            raise ValueError(f"it is {name}, expected a file")
    on_disk = 512 * getattr(found, "st_blocks", found.st_size)  # not every system says
    if found.st_size > LARGE and found.st_size > MOST_HOLLOW * on_disk:
        raise ValueError(f"it claims {found.st_size} bytes, of which {on_disk} are on the disk")
    return found.st_size


def check_within(path: Path, folder: Path) -> None:
    """Refuses a file that is a link out of `folder`, the place that was named for it."""
    if not (found := path.resolve()).is_relative_to(folder.resolve()):
        raise ValueError(f"it leads out of its folder, to {str(found)!r}. Copy the file itself there")


def read_text(path: Path, most: int = MOST_TEXT) -> str:
    """Returns the UTF-8 text of a file of at most `most` bytes."""
    check_plain(path)
    with path.open("rb") as file:
        payload = file.read(most + 1)
    if len(payload) > most:
        raise ValueError(f"it has more than {most} bytes")
    return payload.decode("utf-8")


def parse_json(text: str) -> Any:
    """Returns what a JSON text says; refuses texts that no file or screen can take."""
    if len(text) > MOST_TEXT:
        raise ValueError(f"it has {len(text)} letters, expected at most {MOST_TEXT}")
    value = json.loads(text)
    if HALF_A_LETTER.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = error.object[error.start]
            raise ValueError(f"it has half a letter in a text, {half!a}, which is no Unicode") from error
    return value


# Files that are whole or absent: tensors and a JSON header, written atomically, checked when read.

FORMAT_VERSION = 1
NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}  # of a file system that cannot sync a folder


def write_atomically(path: Path, payload: bytes, *, overwrite: bool = False) -> None:
    """Writes `payload` to `path` so that a crash leaves the old file or the new one."""
    path = checks.place(path, "path")
    if path.is_dir():
        raise InvalidArgumentError.of("path", f"must be the name of a file, {str(path)!r} is a folder")
    if path.exists() and not overwrite:
        raise InvalidArgumentError(
            f"`{path}` exists already.", argument="path", remedy="Pass overwrite=True to replace it."
        )
    make_folder(path.parent)
    if holder_of(path.absolute()) is None:  # who holds a folder clears it once, for all of its files
        remove_left(path.parent, is_called(path))
    with naming_file(path):
        _write(path, payload)


def _write(path: Path, payload: bytes) -> None:
    with temporary_file(path) as (place, file):
        file.write(payload)
        file.flush()
        os.fsync(file.fileno())
        if os.name == "nt":  # a file that is open cannot be renamed there
            file.close()
        os.replace(place, path)
    sync_folder(path.parent)


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Names the file in errors of the system that do not: those of writing and of syncing."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def sync_folder(folder: Path) -> None:
    """Makes the rename itself durable; folders cannot be opened or synced on every system."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in NO_SYNC:
            raise
    finally:
        os.close(handle)


def tensor_digest(tensors: Mapping[str, np.ndarray]) -> str:
    """Returns the SHA-256 of names, types, shapes and bytes, independent of the order given."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        digest.update(array.data)
    return digest.hexdigest()


def _seal(header: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> str:
    """Returns the SHA-256 of everything that a file says: its header and its tensors."""
    text = json.dumps({key: value for key, value in header.items() if key != "sha256"}, sort_keys=True)
    return hashlib.sha256(f"{text}|{tensor_digest(tensors)}".encode()).hexdigest()


def save_tensors(
    path: Path | str,
    kind: str,
    tensors: Mapping[str, np.ndarray],
    document: Mapping[str, Any],
    *,
    overwrite: bool = False,
) -> None:
    """Writes tensors and a JSON document as one file of the given kind."""
    arrays = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    header = {
        "kind": kind,
        "format": FORMAT_VERSION,
        "rhocover": __version__,
        "document": dict(document),
    }
    header = json.loads(json.dumps(header))  # as a reader will see it: tuples are lists, keys are text
    header["sha256"] = _seal(header, arrays)
    payload = tensor_bytes(arrays, {"rhocover": json.dumps(header, sort_keys=True)})
    write_atomically(checks.place(path, "path"), payload, overwrite=overwrite)


def load_tensors(path: Path | str, kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Returns (tensors, document) of a file of the given kind; refuses anything else."""
    from safetensors import SafetensorError, safe_open

    path = checks.place(path, "path")
    if not path.is_file():
        raise InvalidArgumentError.of("path", f": there is no file {str(path)!r}")
    try:
        check_plain(path)
        with safe_open(path, framework="numpy") as file:
            header = parse_json((file.metadata() or {}).get("rhocover", "null"))
            _check_header(path, kind, header)  # before anything large is read
            # safetensors marks the end of its index with `keys()`; it is not a plain mapping.
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileFormatError:
        raise
    except (
        SafetensorError, ValueError, OSError, TypeError, KeyError, AttributeError, RecursionError,
        MemoryError,
    ) as error:  # fmt: skip
        said = shortened(str(error) or type(error).__name__)
        raise FileFormatError(f"`{path}` is damaged or not a rhocover file ({said}).") from error
    if header.get("sha256") != _seal(header, tensors):
        raise FileFormatError(f"`{path}` is damaged: its SHA-256 does not match its contents.")
    return tensors, header["document"]


def check_format(place: Path | str, found: Any, writer: Any) -> None:
    """Refuses a format that this library does not read, and says which one does; `writer` is its version."""
    if found != FORMAT_VERSION:
        way = "--upgrade rhocover"
        if isinstance(writer, str) and re.fullmatch(r"[\w.+]{1,30}", writer):
            way = f"rhocover=={writer}"
        raise FileFormatError(
            f"`{place}` has format {shortened(repr(found))}; this rhocover {__version__} reads format "
            f"{FORMAT_VERSION}. Install the rhocover that wrote it: pip install {way}."
        )


def load_document(path: Path) -> dict[str, Any]:
    """Returns the JSON object in a file; refuses anything else."""
    try:
        document = parse_json(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise FileFormatError(f"`{path}` is damaged: {shortened(error)}.") from error
    if not isinstance(document, dict):
        raise FileFormatError(f"`{path}` is damaged: expected a JSON object, got {type(document).__name__}.")
    return document


def _check_header(path: Path, kind: str, header: Any) -> None:
    if not isinstance(header, dict) or not isinstance(header.get("document"), dict):
        raise FileFormatError(f"`{path}` was not written by rhocover: its header is missing.")
    check_format(path, header.get("format"), header.get("rhocover"))
    if header.get("kind") != kind:
        came = shortened(repr(header.get("kind")))
        raise FileFormatError(f"`{path}` holds a {came}, expected a {kind!r}.")
