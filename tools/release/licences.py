"""Writes licences.md: which licence every package has that comes with rhocover.

python -m tools.release.licences FOLDER
"""

from __future__ import annotations

import re
import sys
import tomllib
from functools import cache
from pathlib import Path

from tools.release.locks import EXTRAS, Package, build_tools, extra, runtime

HERE = Path(__file__).resolve().parent
NAME = "licences.md"
PERMISSIVE = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0",
    "CC0-1.0", "ISC", "MIT", "MIT-CMU", "PSF-2.0", "Zlib",
}  # fmt: skip
UNCHANGED = {
    "certifi": "MPL-2.0"
}  # with the extra `ray`: data, whose licence does not reach beyond its own files
FOR_BUILDING = PERMISSIVE | {"MPL-2.0"}  # of tools that leave nothing in what they build

HEAD = """# Licences

rhocover is Apache-2.0. What it needs has these licences; all are permissive but for certifi, which the extra
`ray` brings, and a remark says where a package carries something under another one. Versions are those of the
locks; torch and what it needs stand in none of them.
This file is written by `make dist`.
"""


@cache
def known() -> dict[str, dict[str, str]]:
    """Returns the tables of licences.toml: `packages` and `remarks`."""
    return tomllib.loads((HERE / "licences.toml").read_text("utf-8"))


def licence_of(name: str) -> str:
    """Returns the SPDX expression of a package; refuses one that is not listed."""
    try:
        return known()["packages"][name]
    except KeyError:
        raise SystemExit(
            f"tools/release/licences.toml lacks {name}: read its licence, and add the line."
        ) from None


def is_allowed(expression: str, allowed: set[str]) -> bool:
    """Returns whether an SPDX expression without brackets asks for allowed licences only."""
    choices = [re.split(r" AND ", choice) for choice in expression.split(" OR ")]
    return any(all(part in allowed for part in choice) for choice in choices)


def page() -> str:
    """Returns the page: one table for what everybody gets, for each extra, and for the tools."""
    parts = [HEAD, _table("What everybody gets", runtime())]
    parts += [_table(f"What the extra `{name}` adds", extra(name)) for name in EXTRAS]
    parts.append(_table("What builds the wheel", build_tools()))
    return "\n".join(parts)


def _table(title: str, packages: dict[str, Package]) -> str:
    remarks = known()["remarks"]
    rows = [
        f"| {name} | {package.version or 'not pinned'} | {licence_of(name)} | {remarks.get(name, '')} |"
        for name, package in packages.items()
    ]
    return "\n".join(
        [f"## {title}\n", "| package | version | licence | remark |", "|---|---|---|---|", *rows, ""]
    )


def write(folder: Path) -> None:
    """Writes the page to a folder."""
    (folder / NAME).write_text(page(), "utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
