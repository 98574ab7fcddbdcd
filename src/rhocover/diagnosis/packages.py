"""Compares the installed packages with the requirements in the metadata of the installed rhocover.

A requirement is `name>=2.0,<3; extra == 'fast'`. Versions are compared by their leading numbers, which
is all that the project's own requirements use. This module needs only the standard library.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from importlib import metadata
from itertools import zip_longest

# The result of one check.

OK, NOTE, FAILED = "ok", "note", "FAILED"


@dataclass(frozen=True)
class Finding:
    """One check: its name, its status (ok, note or FAILED), what was found, and how to fix it."""

    name: str
    status: str
    text: str
    way_out: str = ""
    seconds: float | None = None

    @property
    def is_failure(self) -> bool:
        """Whether the check failed."""
        return self.status == FAILED


# Required and installed packages.

PROJECT = "rhocover"
FOR_DEVELOPERS = ("bench", "docs", "test")  # extras that users do not need
BOUNDS = {">=": operator.ge, "<": operator.lt, "==": operator.eq, "!=": operator.ne, "<=": operator.le}


def package_findings() -> list[Finding]:
    """Returns one finding per package that rhocover or one of its extras requires."""
    try:
        wanted = metadata.requires(PROJECT) or []
    except metadata.PackageNotFoundError:
        text = "not installed but run from its source, so the required versions are not known"
        return [Finding(PROJECT, NOTE, text, "pip install rhocover, or in its folder: pip install -e .")]
    parts = [read_requirement(line) for line in wanted]
    return [_finding(*part) for part in parts if part[2] not in FOR_DEVELOPERS]


def read_requirement(line: str) -> tuple[str, str, str]:
    """Returns (name, bounds, extra) of a line of the metadata; "" if there is no bound or no extra."""
    head, _, marker = line.partition(";")
    name, bounds = re.match(r"\s*([\w.-]+)(?:\[[^]]*\])?\s*\(?([^)]*)\)?", head).groups()  # type: ignore[union-attr]
    extra = re.search(r"extra\s*==\s*['\"]([\w.-]+)['\"]", marker)
    return name, bounds.replace(" ", ""), extra[1] if extra else ""


def _finding(name: str, bounds: str, extra: str) -> Finding:
    title = f"{name} [{extra}]" if extra else name
    way_out = f"pip install '{PROJECT}[{extra}]'" if extra else f"pip install '{name}{bounds}'"
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(
            title, NOTE if extra else FAILED, f"not installed, required: {bounds or 'any version'}", way_out
        )
    if not fits(version, bounds):
        return Finding(
            title, FAILED, f"{version} is installed, required: {bounds}", f"pip install '{name}{bounds}'"
        )
    return Finding(title, OK, f"{version}, required: {bounds or 'any version'}")


def fits(version: str, bounds: str) -> bool:
    """Returns whether a version satisfies all bounds, such as `>=1.2,<2`."""
    return all(_satisfies(version, bound) for bound in bounds.split(",") if bound)


def _satisfies(version: str, bound: str) -> bool:
    found = re.fullmatch(r"(>=|<=|==|!=|<)([\w.]+)", bound)
    if found is None:  # another kind of bound: pip has checked it
        return True
    pairs = list(zip_longest(_numbers(version), _numbers(found[2]), fillvalue=0))
    return BOUNDS[found[1]]([a for a, _ in pairs], [b for _, b in pairs])


def _numbers(version: str) -> list[int]:
    """Returns the leading numbers: [2, 0, 1] of 2.0.1rc1."""
    return [int(part) for part in re.match(r"[\d.]*", version)[0].split(".") if part]  # type: ignore[index]


# Why rhocover cannot be imported at all, in one line.


def loading_failure(error: BaseException) -> str:
    """Returns the reason and the remedy for an exception raised while importing rhocover."""
    broken = [found for found in package_findings() if found.is_failure]
    if not broken:
        return f"{error}. Install rhocover again: pip install --force-reinstall rhocover"
    wrong = "; ".join(f"{found.name}: {found.text}" for found in broken)
    return f"{wrong}. {' && '.join(found.way_out for found in broken)}"
