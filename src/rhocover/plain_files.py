"""Files that can be read to their end: no pipes, no devices, no bytes without number.

Whoever names a file for us may put anything in its place. Opening a pipe waits for ever, a device never ends,
and a file of a terabyte may have nothing on the disk behind it (a sparse file). They are told from plain
files before they are opened. What is wrong is a ValueError whose text goes behind the name of the file.
"""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

MOST_TEXT = (
    2**26
)  # bytes of a JSON document: the space of a picture of 1024 by 1024 pixels takes half of them
LARGE = 2**30  # bytes; smaller files may have as many holes as they like
MOST_HOLLOW = (
    1100  # times larger than what is on the disk: more than a file system that packs its blocks can do
)
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
    size = check_plain(path)
    with path.open("rb") as file:
        payload = file.read(most + 1) if size <= most else b""  # it may have grown
    if max(size, len(payload)) > most:
        raise ValueError(f"it has {max(size, len(payload))} bytes, expected a text of at most {most}")
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
