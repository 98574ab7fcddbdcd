"""Files of the library: tensors and a JSON header, written atomically, checked when read.

Everything that the library saves has one format: a safetensors file whose metadata holds one JSON document
(kind, format version, library version, SHA-256 of all of it). Nothing is ever unpickled. A file is written
under a temporary name in the same folder (`folders`), fsynced and renamed, so that a reader sees the old file
or the new one and never a part of either. A folder that this process has locked (`folders`) is not created
again if it is gone.

**Writing** (`tensor_bytes`). The bytes are those that safetensors' own writer gives. That writer needs three
copies of them, and ends the process if there is no memory for one; here there is one copy, and a MemoryError.

    8 bytes: length of the header | header, JSON, padded with spaces | tensors, widest numbers first

**Reading** (`check_plain`). The name of a file may stand for anything. Opening a pipe may wait forever, a
device may never end, and a file of a terabyte may have no data on the disk (a sparse file). These are refused
before they are opened, with a ValueError whose text follows the name of the file.
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

# Tensors as the bytes of a safetensors file.

ORDER = ("u8", "i8", "f8", "f4", "u4", "i4", "f2", "u2", "i2", "i1", "u1", "b1")  # so that all are aligned
LETTERS = {"u": "U", "i": "I", "f": "F"}


def tensor_bytes(tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> bytes:
    """Returns the bytes of a file with these tensors and texts."""
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
    """Returns the array as contiguous little-endian numbers."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


# Checks before a file is read.

MOST_TEXT = 2**26  # bytes of a JSON document: twice those of the space of a 1024 by 1024 image
LARGE = 2**30  # bytes; smaller files may be as sparse as they like
MOST_HOLLOW = 1100  # ratio of size to bytes on the disk: more than a compressing file system reaches
KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def check_plain(path: str | os.PathLike[str]) -> int:
    """Returns the size of a file in bytes; refuses what is not a file, and one that is almost empty."""
    found = os.stat(path)
    for is_kind, name in KINDS:
        if is_kind(found.st_mode):
            raise ValueError(f"it is {name}, expected a file")
    on_disk = 512 * getattr(found, "st_blocks", found.st_size)  # not every system reports it
    if found.st_size > LARGE and found.st_size > MOST_HOLLOW * on_disk:
        raise ValueError(f"it claims {found.st_size} bytes, of which {on_disk} are on the disk")
    return found.st_size


def check_within(path: Path, folder: Path) -> None:
    """Refuses a file that is a link out of `folder`, where it is expected."""
    if not (found := path.resolve()).is_relative_to(folder.resolve()):
        raise ValueError(f"it leads out of its folder, to {str(found)!r}. Copy the file into the folder")


def read_text(path: Path, most: int = MOST_TEXT) -> str:
    """Returns the UTF-8 text of a file of at most `most` bytes."""
    size = check_plain(path)
    with path.open("rb") as file:
        payload = file.read(min(size, most) + 1)  # memory for as much is taken at once
    if len(payload) > most:
        raise ValueError(f"it has more than {most} bytes")
    return payload.decode("utf-8")


def parse_json(text: str) -> Any:
    """Returns the value of a JSON text; refuses texts that cannot be encoded as UTF-8."""
    if len(text) > MOST_TEXT:
        raise ValueError(f"it has {len(text)} characters, expected at most {MOST_TEXT}")
    value = json.loads(text)
    if SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = error.object[error.start]
            raise ValueError(f"it has half a character in a text, {half!a}: not valid Unicode") from error
    return value


# The format of the library.

FORMAT_VERSION = 1
NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}  # from a file system that cannot sync a folder


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
    if holder_of(path.absolute()) is None:  # a locked folder was cleared when it was locked
        remove_left(path.parent, is_called(path))
    with naming_file(path):
        _write(path, payload)


def _write(path: Path, payload: bytes) -> None:
    with temporary_file(path) as (place, file):
        file.write(payload)
        file.flush()
        os.fsync(file.fileno())
        if os.name == "nt":  # where an open file cannot be renamed
            file.close()
        os.replace(place, path)
    sync_folder(path.parent)


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Adds the name of the file to errors of the system that lack it: those of writing and syncing."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def sync_folder(folder: Path) -> None:
    """Makes a rename durable, on systems where folders can be opened and synced."""
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
    """Returns the SHA-256 of the contents of a file: its header and its tensors."""
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
    header = json.loads(json.dumps(header))  # as a reader will get it: tuples are lists, keys are text
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
    """Refuses a format that this version does not read, and names one that does; `writer` wrote the file."""
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
