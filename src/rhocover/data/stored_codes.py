"""How the steps of a data set became states and actions, as its datasheet says.

Only numbers are taken from a file: edges of bins, levels of actions, lists of actions. What a function of
the user's counted, no file can say.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rhocover.data.collections import check_version
from rhocover.errors import InvalidDataError

TABLES = (".parquet", ".npz", ".csv")


def codes_of_data(data: str) -> tuple[Any, Any]:
    """Returns `states` and `actions` for the environment that a data set was collected in.

    None for what needs none: tables, and spaces that are finite already.
    """
    if Path(data).is_file() or Path(data).suffix.lower() in TABLES:
        return None, None
    from rhocover.adapters.code_documents import state_code_from_document
    from rhocover.adapters.minari_files import open_minari

    source = open_minari(data)
    states = stored(source, "states")
    is_binned = isinstance(states, dict) and states.get("kind") == "bins"
    code = state_code_from_document(states, source.observation_space) if is_binned else None
    return code, stored_actions(source)


def stored(source: Any, name: str) -> Any:
    """Returns what the datasheet of an opened data set says of its `name`; None where there is none."""
    sheet = source.metadata.get("rhocover")
    settings = sheet.get("settings") if isinstance(sheet, dict) else None
    if not isinstance(sheet, dict) or not isinstance(settings, dict):
        return None
    check_version(f"the datasheet of {source.dataset_id}", sheet)
    return settings.get(name)


def stored_actions(source: Any) -> Any:
    """Returns the number of levels of each component, or the listed actions; None for other spaces."""
    document = stored(source, "actions")
    kind = document.get("kind") if isinstance(document, dict) else None
    if kind not in ("levels", "listed"):
        return None
    try:
        return document["actions"] if kind == "listed" else [len(levels) for levels in document["levels"]]
    except (LookupError, TypeError) as error:
        raise InvalidDataError(
            f"`data`: the actions of {source.dataset_id} are damaged: {error!r}."
        ) from error
