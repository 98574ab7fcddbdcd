"""Results of a page that cannot be executed everywhere, stored next to it.

ale-py is GPL and therefore no dependency of this project, so most builds of the site cannot execute the
page that uses it. `make atari` installs it, executes the page and writes what every cell printed and drew,
with the code of the cell, to `<page>.results.json`. A build without ale-py shows that. Results are shown
only below the code that made them: after a change of a cell, `insert` refuses all of them until the page
was executed again.

    python docs/_ext/stored_results.py tutorials/montezuma.md
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n((?::[^\n]*\n)*)(.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
TIMEOUT = 1800  # seconds for a cell: a machine may be busy, only a hang is ended


def cells(text: str) -> list[tuple[int, str, str]]:
    """Returns (line, options, code) of every cell of a notebook page."""
    return [(text.count("\n", 0, cell.start(2)) + 1, cell[1], cell[2]) for cell in CELL.finditer(text)]


# What was stored.


def path_of(page: str) -> Path:
    """Returns where the results of a page are stored."""
    return (DOCS / page).with_suffix(".results.json")


def load(page: str) -> dict[str, Any] | None:
    """Returns the versions of the packages, and code, text and HTML of every cell; None without any."""
    path = path_of(page)
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def insert(text: str, stored: list[dict[str, str]]) -> str:
    """Returns a page with its cells as plain code, and the stored results below each."""
    if [code for _, _, code in cells(text)] != [one["code"] for one in stored]:
        raise ValueError("The page is not the code that made its stored results: run `make atari`.")
    results = iter(stored)
    return CELL.sub(lambda cell: "\n".join(_shown(cell[1], next(results))), text)


def _shown(options: str, result: dict[str, str]) -> Iterator[str]:
    """Yields the blocks of a cell: its code, folded where the page hides it, what it printed and drew."""
    is_hidden = "hide-input" in options
    if is_hidden:
        yield "<details><summary>Code</summary>\n"
    yield f"```python\n{result['code']}```\n"
    if is_hidden:
        yield "</details>\n"
    if result["text"]:
        yield f"```text\n{result['text'].rstrip()}\n```\n"
    if result["html"]:
        yield f"```{{raw}} html\n{result['html']}\n```\n"


# Storing.


def execute(text: str, folder: Path) -> list[dict[str, str]]:
    """Returns code, text and HTML of every cell, executed in a kernel with `folder` as its working folder."""
    import nbformat
    from nbclient import NotebookClient

    sources = [code for _, _, code in cells(text)]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in sources])
    NotebookClient(
        notebook, timeout=TIMEOUT, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    return [
        {"code": code, **_results(cell.outputs)} for code, cell in zip(sources, notebook.cells, strict=True)
    ]


def _results(outputs: list[Any]) -> dict[str, str]:
    """Returns what a cell printed and what it showed as HTML; the error stream is not for readers."""
    shown = [one.data for one in outputs if one.output_type in ("execute_result", "display_data")]
    return {
        "text": "".join(one.text for one in outputs if one.get("name") == "stdout")
        + "".join(data["text/plain"] for data in shown if "text/html" not in data),
        "html": "".join(data.get("text/html", "") for data in shown),
    }


def store(page: str, packages: tuple[str, ...]) -> Path:
    """Executes a page and returns the file with its results."""
    with tempfile.TemporaryDirectory() as folder:
        found = execute((DOCS / page).read_text("utf-8"), Path(folder))
    versions = {name: importlib.metadata.version(name) for name in packages}
    path = path_of(page)
    path.write_text(json.dumps({"packages": versions, "cells": found}, indent=1) + "\n", "utf-8")
    return path


def main(page: str) -> None:
    """Stores the results of a page."""
    from tutorials import NEEDS, prepare_kernels

    prepare_kernels(DOCS.parent / "out" / "docs-cache" / "ipython")
    print(store(page, NEEDS[page]))


if __name__ == "__main__":
    main(*sys.argv[1:])
