"""docs/benchmarks.md, from docs/benchmarks/*.json alone: who is ahead, where we are behind, then everything.

What was measured is kept as JSON with the machine and the versions; this file only reads it, so the page can
be written again without measuring again, and no number on it was typed by hand.
"""

from __future__ import annotations

import importlib
import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks import report
from benchmarks.peers import NAMES
from rhocover.files import write_atomically

DOCS = Path(__file__).resolve().parents[1] / "docs"
FOLDER, PAGE = "benchmarks", "benchmarks.md"
HEAD = """\
# Benchmarks against other libraries

This page compares rhocover with what people use instead: the same problems, in one run on one machine. Each
section says how the others are run. A **ratio** is their value divided by ours, for something of which less
is better (seconds, memory, distance from the best coverage), so more than 1 means that this library is ahead.
Each time is shown with the accuracy that was reached.

`make bench` repeats the measurements and writes this page. Every number comes from the files in
`docs/benchmarks`.
"""
BEHIND = "## Where we are behind"
NOWHERE = "In none of the rows below."
VERDICTS = ("ahead", "even", "behind", "failed")
WORDS = {"failed": "where the peer failed"}

Document = dict[str, Any]


# Keeping.


def store(name: str, module: ModuleType, result: dict[str, Any], docs: Path) -> None:
    """Writes what a comparison found, and its pictures, below `docs`."""
    document = {
        "name": name, "title": module.TITLE, "question": module.QUESTION, "result": result,
        "machine": report.machine(), "versions": report.versions(),
    }  # fmt: skip
    text = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False, default=_plain) + "\n"
    write_atomically(docs / FOLDER / f"{name}.json", text.encode(), overwrite=True)
    module.draw(json.loads(text)["result"], docs / FOLDER)


def _plain(value: Any) -> Any:
    """Returns a NumPy number or array as Python's own."""
    return value.tolist()


def load(docs: Path) -> list[Document]:
    """Returns what was measured, in the order of the page."""
    files = [docs / FOLDER / f"{name}.json" for name in NAMES]
    return [json.loads(file.read_text("utf-8")) for file in files if file.exists()]


def write_page(docs: Path) -> None:
    """Writes the page of what was measured."""
    write_atomically(docs / PAGE, render(load(docs)).encode(), overwrite=True)


def draw_pictures(docs: Path) -> None:
    """Draws the pictures of what was measured again."""
    for document in load(docs):
        importlib.import_module(f"benchmarks.peers.{document['name']}").draw(
            document["result"], docs / FOLDER
        )


# The page.


def render(documents: list[Document]) -> str:
    """Returns the page as Markdown."""
    parts = [HEAD, *_missing(documents), summary(documents), BEHIND, behind(documents)]
    for document in documents:
        module = importlib.import_module(f"benchmarks.peers.{document['name']}")
        parts += [f"## {document['title']}", document["question"], module.section(document["result"])]
    parts += ["## Machine and versions", *machine_and_versions(documents)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _missing(documents: list[Document]) -> Iterator[str]:
    """Yields a sentence for each peer that was not installed, and one for comparisons not measured."""
    for document in documents:
        for peer, line in document["result"].get("absent", {}).items():
            yield f"Not measured, because it was not installed: {peer} ({document['title']}; `{line}`)."
    rest = [name for name in NAMES if name not in {document["name"] for document in documents}]
    if rest:
        yield f"Not measured: {', '.join(rest)}."


def summary(documents: list[Document]) -> str:
    """Returns the questions, and a row for each comparison and peer."""
    questions = [f"- **{document['title']}.** {document['question']}" for document in documents]
    rows = [
        [document["title"] if k == 0 else "", peer, quantity, *_figures(found)]
        for document in documents
        for k, ((peer, quantity), found) in enumerate(_groups(document["result"]["rows"]).items())
    ]
    columns = ["comparison", "peer", "ratio of", "median", "least", "in how many rows we are"]
    return "\n".join(questions) + "\n\n" + report.markdown_table(columns, rows, left=3, words=1)


def _groups(rows: list[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Returns the rows of each peer and quantity, in the order in which they come."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["peer"], row.get("quantity", "seconds")), []).append(row)
    return found


def _figures(rows: list[dict[str, Any]]) -> list[str]:
    """Returns median and least ratio, and how many rows stand how."""
    ratios = [row["ratio"] for row in rows if report.verdict(row) != "failed" and row["ratio"] is not None]
    middle, least = (statistics.median(ratios), min(ratios)) if ratios else (None, None)
    return [report.times(middle), report.times(least), _counts(rows).replace("behind", "**behind**")]


def _counts(rows: list[dict[str, Any]]) -> str:
    """Returns how many rows stand how, in words; what does not occur is left out."""
    stands = [report.verdict(row) for row in rows]
    return ", ".join(f"{stands.count(name)} {WORDS.get(name, name)}" for name in VERDICTS if name in stands)


def standing(result: dict[str, Any]) -> str:
    """Returns how many rows stand how, in one line."""
    return f"{len(result['rows'])} rows: {_counts(result['rows'])}"


def behind(documents: list[Document]) -> str:
    """Returns each row in which a peer is ahead, with the reason where one is known."""
    rows = [
        [document["title"], row["case"], row["peer"], row.get("quantity", "seconds"), *_values(row),
         f"{report.times(row['ratio'])}", row.get("why", "")]
        for document in documents for row in document["result"]["rows"] if report.verdict(row) == "behind"
    ]  # fmt: skip
    if not rows:
        return NOWHERE
    columns = ["comparison", "case", "peer", "of", "ours", "theirs", "ratio", "why"]
    return report.markdown_table(columns, rows, left=4, words=1)


def _values(row: dict[str, Any]) -> list[str]:
    """Returns ours and theirs; seconds in the unit in which they are readable."""
    write = report.seconds if row.get("quantity", "seconds").startswith("seconds") else report.number
    return [write(row["ours"]), write(row["theirs"])]


def machine_and_versions(documents: list[Document]) -> list[str]:
    """Returns a table for each machine and set of versions that was used; most often that is one."""
    used: dict[str, list[str]] = {}
    for document in documents:
        used.setdefault(json.dumps([document["machine"], document["versions"]]), []).append(document["title"])
    parts = []
    for text, titles in used.items():
        machine, versions = json.loads(text)
        if len(used) > 1:
            parts.append(f"{', '.join(titles)}:")
        here = [[name, value] for name, value in {**machine, **versions}.items() if value != "absent"]
        parts.append(report.markdown_table(["", ""], here, left=2))
    return parts
