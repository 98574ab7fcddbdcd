"""What makes the site, for its tests: the modules of docs/_ext by name, and the pages."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    path for path in DOCS.rglob("*.md") if not any(part.startswith(("_", ".")) for part in path.parts)
)


def extension(name: str) -> ModuleType:
    """Returns a module of docs/_ext."""
    folder = str(DOCS / "_ext")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)


def name_of(path: Path) -> str:
    """Returns a page's path as it is written below docs, or below the root of the project."""
    return path.relative_to(DOCS if DOCS in path.parents else ROOT).as_posix()


def cells(text: str) -> list[tuple[int, str, str]]:
    """Returns (line, options, code) of every cell of a notebook page."""
    return extension("stored_results").cells(text)
