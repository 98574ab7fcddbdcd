"""Which packages are there, and which are wanted: read from the metadata of the installed rhocover.

A requirement is `name>=2.0,<3; extra == 'fast'`. Versions are compared by their leading numbers, which
is all that the project's own requirements use. Only the standard library is needed here.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from importlib import metadata
from itertools import zip_longest

# One thing that was looked at: how it is, and what to do if it is not well.

OK, NOTE, FAILED = "ok", "note", "FAILED"


@dataclass(frozen=True)
class Finding:
    """What was looked at, its status (ok, note or FAILED), what was found, and the way out of it."""

    name: str
    status: str
    text: str
    way_out: str = ""
    seconds: float | None = None

    @property
    def is_failure(self) -> bool:
        """Whether something must be done."""
        return self.status == FAILED


# Which packages are there, and which are wanted: read from the metadata of the installed rhocover.

PROJECT = "rhocover"
FOR_DEVELOPERS = ("bench", "docs", "test")  # extras that no user misses
BOUNDS = {">=": operator.ge, "<": operator.lt, "==": operator.eq, "!=": operator.ne, "<=": operator.le}


def package_findings() -> list[Finding]:
    """Returns a finding for each package that rhocover needs, and for each that an extra brings."""
    try:
        wanted = metadata.requires(PROJECT) or []
    except metadata.PackageNotFoundError:
        text = "it runs from its source, so it is not known which versions are wanted"
        return [Finding(PROJECT, NOTE, text, "pip install rhocover, or in its folder: pip install -e .")]
    parts = [read_requirement(line) for line in wanted]
    return [_finding(*part) for part in parts if part[2] not in FOR_DEVELOPERS]


def read_requirement(line: str) -> tuple[str, str, str]:
    """Returns (name, bounds, extra) of a line of the metadata; "" where there is no bound or no extra."""
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
        return Finding(title, NOTE if extra else FAILED, f"not installed, wanted {bounds or 'any'}", way_out)
    if not fits(version, bounds):
        return Finding(title, FAILED, f"{version} is there, wanted {bounds}", f"pip install '{name}{bounds}'")
    return Finding(title, OK, f"{version}, wanted {bounds or 'any'}")


def fits(version: str, bounds: str) -> bool:
    """Returns whether a version keeps all bounds, such as `>=1.2,<2`."""
    return all(_keeps(version, bound) for bound in bounds.split(",") if bound)


def _keeps(version: str, bound: str) -> bool:
    found = re.fullmatch(r"(>=|<=|==|!=|<)([\w.]+)", bound)
    if found is None:  # a bound of another kind: pip has seen to it
        return True
    pairs = list(zip_longest(_numbers(version), _numbers(found[2]), fillvalue=0))
    return BOUNDS[found[1]]([a for a, _ in pairs], [b for _, b in pairs])


def _numbers(version: str) -> list[int]:
    """Returns the leading numbers: [2, 0, 1] of 2.0.1rc1."""
    return [int(part) for part in re.match(r"[\d.]*", version)[0].split(".") if part]  # type: ignore[index]


# Why rhocover cannot be loaded at all, said in one line. Only the standard library is needed here.


def loading_failure(error: BaseException) -> str:
    """Returns what is wrong and the way out, for an exception that importing rhocover raised."""
    broken = [found for found in package_findings() if found.is_failure]
    if not broken:
        return f"{error}. Install rhocover again: pip install --force-reinstall rhocover"
    wrong = "; ".join(f"{found.name}: {found.text}" for found in broken)
    return f"{wrong}. {' && '.join(found.way_out for found in broken)}"
