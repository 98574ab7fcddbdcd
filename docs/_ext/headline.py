"""Three figures of the first page, from what the benchmarks measured.

Each figure is the median ratio, theirs over ours, against the first peer of a comparison: what people would
use by default. Below it stand the peer that comes closest, and in how many rows this library is behind.
Without results there are no figures.
"""

from __future__ import annotations

import html
import json
import statistics
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
WANTED = ("planner", "explorers", "simulator", "oracle", "audit", "growth")
SHOWN = 3

Row = dict[str, Any]


def headline(folder: Path = FOLDER) -> str:
    """Returns the section; empty if nothing was measured yet."""
    files = [folder / f"{name}.json" for name in WANTED]
    documents = [json.loads(file.read_text("utf-8")) for file in files if file.exists()]
    found = [card for card in map(_card, documents) if card][:SHOWN]
    if not found:
        return ""
    return "\n\n".join(
        [
            "## Compared with what people use instead",
            "\n".join(["```{raw} html", "<div class='figures'>", *found, "</div>", "```"]),
            "Ratios from one run on one machine; more than 1 means that this library is ahead. "
            "[All rows](benchmarks.md) include those in which it is behind, with the reason.",
        ]
    )


def _card(document: dict[str, Any]) -> str:
    rows = [row for row in document["result"].get("rows", ()) if row.get("ratio") is not None]
    if not rows:
        return ""
    groups = _groups(rows)
    (peer, quantity), first = next(iter(groups.items()))
    (closest, _), near = min(groups.items(), key=lambda item: _median(item[1]))
    behind = sum(_verdict(row) == "behind" for row in rows)
    parts = (
        ("number", _times(_median(first))),
        ("what", f"{document['title']}: {quantity} of {peer}, relative to ours"),
        ("more", f"Median of {len(first)}. Closest of {len(groups)}: {closest}, {_times(_median(near))}. "
                 f"Behind in {behind} of {len(rows)} rows."),
    )  # fmt: skip
    return (
        "<div>" + "".join(f"<div class='{kind}'>{html.escape(text)}</div>" for kind, text in parts) + "</div>"
    )


def _groups(rows: list[Row]) -> dict[tuple[str, str], list[Row]]:
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row["peer"], row.get("quantity", "seconds")), []).append(row)
    return found


def _verdict(row: Row) -> str:
    """Returns how a row stands, as the page of benchmarks says it: chance may overrule a ratio."""
    return row.get("verdict", "behind" if row["ratio"] < 1 else "ahead")


def _median(rows: list[Row]) -> float:
    return statistics.median(row["ratio"] for row in rows)


def _times(ratio: float) -> str:
    """Returns 3.4 as `3.4` and a multiplication sign, large numbers without decimals."""
    return (f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}") + chr(0xD7)
