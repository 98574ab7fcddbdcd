"""What of an HDF5 file is opened: objects that the file itself holds, no larger than its bytes account for.

HDF5 lets a file point outside: links to other files, data sets that are put together from other files, data
sets whose bytes lie in any file of the machine, filters that are programs loaded from a folder. A file from
elsewhere could so show a private file as states, wait for ever at a pipe, or run something. None of it is
followed. A data set of a few bytes may also claim to hold terabytes; it is refused before any room is made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rhocover.errors import InvalidDataError, shortened

FILTERS = {
    1: "gzip",
    2: "shuffle",
    3: "fletcher32",
    4: "szip",
    32000: "lzf",
}  # none of them is loaded from a file
MOST_CHUNK = 2**28  # bytes of one chunk, which HDF5 unpacks as a whole; its writers make chunks of about 2^20
MOST_RATIO = 1100  # bytes out of one that is stored; the best that gzip can do is 1032
FEW_BYTES = 2**16  # so few are read without asking how many are stored, which takes time
WAY_OUT = "Only what the file itself holds is read: copy the data into it, or write the data set again."


def open_inside(parent: Any, path: Sequence[str], what: str) -> Any:
    """Returns the group or data set at `path` below the group `parent`; every step there is a plain link.

    `what` begins the sentence of a refusal; a missing object raises KeyError.
    """
    from h5py import h5g, h5o  # pyright: ignore

    for name in path:
        if not isinstance(parent, h5g.GroupID):
            raise KeyError(f"there is no {name!r} in what is no group")
        _check_link(parent, name.encode(), what)
        parent = h5o.open(parent, name.encode())
    return parent


def _check_link(group: Any, name: bytes, what: str) -> None:
    from h5py import h5l  # pyright: ignore

    try:
        kind = group.links.get_info(name).type
    except RuntimeError as error:  # what h5py raises where there is no such name
        raise KeyError(str(error)) from error
    if kind == h5l.TYPE_HARD:
        return
    if kind == h5l.TYPE_EXTERNAL:
        to = shortened(repr(group.links.get_val(name)[0].decode(errors="replace")))
        raise InvalidDataError(f"{what} is a link to another file, {to}. {WAY_OUT}")
    said = "a soft link" if kind == h5l.TYPE_SOFT else "a link of a kind that HDF5 does not know"
    raise InvalidDataError(f"{what} is {said}. {WAY_OUT}")


def check_inside(dataset: Any, what: str) -> None:
    """Refuses a data set whose numbers are not in the file, or need more than HDF5 itself to be read.

    To be asked before the shape, which HDF5 may look for in other files.
    """
    from h5py import h5d  # pyright: ignore

    made = dataset.get_create_plist()
    if made.get_layout() == h5d.VIRTUAL:
        raise InvalidDataError(f"{what} is put together from other files (a virtual data set). {WAY_OUT}")
    if made.get_external_count():
        other = shortened(repr(made.get_external(0)[0].decode(errors="replace")))
        raise InvalidDataError(f"{what} has its numbers in another file, {other}. {WAY_OUT}")
    if made.get_layout() == h5d.CHUNKED:
        _check_chunk(math.prod(made.get_chunk()), dataset, what)
    for number in range(made.get_nfilters()):
        if (code := made.get_filter(number)[0]) not in FILTERS:
            raise InvalidDataError(
                f"{what} is packed with the HDF5 filter {code}, which is a program of its own. Filters that "
                f"are read: {', '.join(FILTERS.values())}. Write the data set again with one of them."
            )


def _check_chunk(items: int, dataset: Any, what: str) -> None:
    if items <= MOST_CHUNK // 256 or (size := items * dataset.get_type().get_size()) <= MOST_CHUNK:
        return  # few are not asked for their type: no number has 256 bytes
    raise InvalidDataError(
        f"{what} is stored in chunks of {size} bytes; at most {MOST_CHUNK} are read at once. Write the data "
        "set again with smaller chunks."
    )


def check_size(dataset: Any, claimed: int, file_bytes: int, what: str) -> None:
    """Refuses a data set that claims more bytes than what is stored of it can be unpacked to."""
    if claimed <= FEW_BYTES:
        return
    stored = dataset.get_storage_size()
    if claimed > MOST_RATIO * stored or stored > file_bytes:
        raise InvalidDataError(
            f"{what} claims {claimed} bytes of numbers, but the file of {file_bytes} bytes stores {stored} "
            "for them: they were never written, or packed to do harm. Write or download the data set again."
        )
