"""The lowest versions that the project declares are the ones that are tested as the oldest."""

from __future__ import annotations

import importlib.util
import re

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tools.release.locks import ROOT

LOCK = (ROOT / "requirements" / "oldest.txt").read_text("utf-8")
PINS = {
    canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)", LOCK, re.MULTILINE)
}


def declared() -> list[Requirement]:
    spec = importlib.util.spec_from_file_location("oldest", ROOT / "requirements" / "oldest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [Requirement(line) for line in module.requirements()]


@pytest.mark.parametrize("requirement", declared(), ids=str)
def test_the_lowest_declared_version_is_the_one_that_is_tested(requirement):
    """Up to the last number: 2.0 may be there as 2.0.0, or as 2.0.1 where 2.0.0 was withdrawn."""
    pinned = Version(PINS[canonicalize_name(requirement.name)])
    (lowest,) = (Version(s.version) for s in requirement.specifier if s.operator in (">=", "=="))
    assert requirement.specifier.contains(pinned)
    assert pinned.release[:2] == (*lowest.release, 0)[:2], "run: make lock"


def test_the_lock_has_hashes_and_names_no_place():
    logical = LOCK.replace("\\\n", " ").splitlines()
    packages = [line for line in logical if line.strip() and not line.startswith("#")]
    assert len(packages) > 30
    for line in packages:
        assert re.match(r"[\w.-]+==\S+( ; [^#]*)?(\s+--hash=sha256:[0-9a-f]{64})+\s*$", line), line[:80]
    assert not re.search(r"://|file:/|[\w-]+\.(org|com|net|io|dev)\b", LOCK)
