"""The packages that the locks pin: version, hashes, and who asked for each.

A user gets the packages of `run.txt`; an extra adds some of the other locks. The tools that build the
wheel stand in `run.txt`, too, because an installation from source needs them: they are told apart by
who asked for them. torch and what it needs stand in no lock; `unlocked.toml` lists them.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROJECT = "rhocover"
EXTRAS = {  # extra: the lock that pins it
    "fast": "bench", "minari": "test", "parquet": "test", "pandas": "test", "polars": "test",
    "deep": "sb3", "sb3": "sb3", "ray": "ray",
}  # fmt: skip
ASKED = re.compile(r"^\s+#(?: via)? +(\S+)(.*)$")


@dataclass(frozen=True)
class Package:
    """One package; `parents` are the packages that asked for it, `PROJECT` among them.

    One that stands in no lock has no hashes, and an empty version if nothing pins it.
    """

    name: str
    version: str
    hashes: tuple[str, ...]
    parents: tuple[str, ...]
    is_build_tool: bool  # asked for by the build alone


@cache
def read_lock(name: str) -> dict[str, Package]:
    """Returns the packages of requirements/`name`.txt by name."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
    blocks = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    return {package.name: package for package in map(_read_block, blocks)}


def _read_block(block: str) -> Package:
    head = re.match(r"([\w.-]+)==([^\s;]+)", block)
    assert head is not None, block[:80]
    asked = [found.groups() for line in block.splitlines() if (found := ASKED.match(line))]
    asked = [(who, why) for who, why in asked if who != "-c"] or [(PROJECT, "")]
    hashes = tuple(sorted(re.findall(r"--hash=sha256:([0-9a-f]{64})", block)))
    is_build_tool = all(who == PROJECT and "build-system" in why for who, why in asked)
    return Package(head[1], head[2], hashes, tuple(sorted({who for who, _ in asked})), is_build_tool)


def runtime() -> dict[str, Package]:
    """Returns what everybody gets."""
    packages = read_lock("run")
    asked = {name for name, package in packages.items() if PROJECT in package.parents}
    roots = {name for name in asked if not packages[name].is_build_tool}
    return {name: packages[name] for name in sorted(closure(packages, roots))}


def build_tools() -> dict[str, Package]:
    """Returns what only an installation from source needs."""
    needed = runtime()
    return {name: package for name, package in read_lock("run").items() if name not in needed}


def extra(name: str) -> dict[str, Package]:
    """Returns what an extra adds to what everybody gets."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = project["optional-dependencies"][name]
    roots = {re.match(r"[\w.-]+", line)[0] for line in lines}  # type: ignore[index]
    packages, known = read_lock(EXTRAS[name]) | (unlocked() if EXTRAS[name] == "sb3" else {}), runtime()
    return {name: packages[name] for name in sorted(closure(packages, roots)) if name not in known}


@cache
def needs() -> dict[str, tuple[str, ...]]:
    """Returns what each package needs whose lock does not say, or that stands in none."""
    return {name: tuple(entry["needs"]) for name, entry in _unlocked().items()}


def unlocked() -> dict[str, Package]:
    """Returns the packages that stand in no lock by name."""
    missing = {name: entry for name, entry in _unlocked().items() if name not in read_lock("sb3")}
    return {
        name: Package(name, entry.get("version", ""), (), _asked_by(name), False)
        for name, entry in missing.items()
    }


def _asked_by(name: str) -> tuple[str, ...]:
    return tuple(sorted(parent for parent, children in needs().items() if name in children))


@cache
def _unlocked() -> dict[str, dict[str, Any]]:
    return tomllib.loads((ROOT / "tools" / "release" / "unlocked.toml").read_text("utf-8"))


def closure(packages: dict[str, Package], roots: set[str]) -> set[str]:
    """Returns the roots, and what they ask for, and what that asks for."""
    found: set[str] = set()
    waiting = set(roots)
    while waiting:
        found |= waiting
        waiting = {name for name, package in packages.items() if found & set(package.parents)} - found
    return found
