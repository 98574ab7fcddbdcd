"""The folder that collect() leaves, as data: the data set in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rhocover import checks
from rhocover.errors import FileFormatError, InvalidDataError, shortened
from rhocover.files import check_format, load_document


def find_data(text: str) -> str:
    """Returns where the data is: of the folder of a collection, the data set in it."""
    place = checks.place(text, "data", "file or folder") / "collection.json"
    if not place.is_file() or (Path(text) / "data").exists():
        return text
    try:
        document = load_document(place)
        check_version(place, document)
        name = document["dataset_id"]
        found = (Path(text) / name).resolve()
        is_there = found.is_dir()
    except FileFormatError:
        raise
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise InvalidDataError(f"collection.json in {text!r} is damaged: {shortened(error)}.") from error
    if not found.is_relative_to(Path(text).resolve()):
        raise InvalidDataError(
            f"collection.json in {text!r} is damaged: {shortened(repr(name))} is not in that folder."
        )
    if not (Path(text) / "datasheet.json").is_file():
        raise InvalidDataError(
            f"the collection in {text!r} is not finished. Go on with it: the same again with resume."
        )
    if not is_there:
        raise InvalidDataError(f"collection.json in {text!r} is damaged: there is no data set {name!r}.")
    return str(Path(text) / name)


def check_version(place: Path | str, document: dict[str, Any]) -> None:
    """Refuses settings or a datasheet that a later rhocover wrote, and says which one reads them."""
    versions = document.get("versions")
    writer = versions.get("rhocover") if isinstance(versions, dict) else None
    check_format(place, document.get("format", 1), writer)  # one that says none is of the first
