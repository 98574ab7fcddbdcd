"""The table of what every class of results shows: its pictures and its tables, from the views themselves."""

from __future__ import annotations

from rhocover.plugins import VIEWS, load, members


def views() -> str:
    """Returns a row per class of results; of pictures and tables, the usual one comes first."""
    head = ["| result | `plot(kind)` | `to_pandas(rows)`, `to_polars(rows)` |", "|:--|:--|:--|"]
    return "\n".join([*head, *map(_row, members(VIEWS))])


def _row(name: str) -> str:
    return f"| `{name}` | {_listed(name, 'pictures')} | {_listed(name, 'tables')} |"


def _listed(name: str, what: str) -> str:
    return ", ".join(f'`"{key}"`' for key in getattr(load(VIEWS, name), what))
