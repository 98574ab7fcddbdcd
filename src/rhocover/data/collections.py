"""The folder that collect() leaves, as data: the data set in it."""

from __future__ import annotations

import json
from pathlib import Path

from rhocover.errors import InvalidDataError


def find_data(text: str) -> str:
    """Returns where the data is: of the folder of a collection, the data set in it."""
    place = Path(text) / "collection.json"
    if not place.is_file() or (Path(text) / "data").exists():
        return text
    try:
        name = json.loads(place.read_text("utf-8"))["dataset_id"]
        found = (Path(text) / name).resolve()
    except (ValueError, TypeError, LookupError) as error:
        raise InvalidDataError(f"collection.json in {text!r} is damaged: {error}.") from error
    if not found.is_relative_to(Path(text).resolve()):
        raise InvalidDataError(f"collection.json in {text!r} is damaged: {name!r} is not in that folder.")
    if not (Path(text) / "datasheet.json").is_file():
        raise InvalidDataError(
            f"the collection in {text!r} is not finished. Go on with it: the same again with resume."
        )
    return str(Path(text) / name)
