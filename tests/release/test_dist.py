"""What is built is whole, holds nothing else, is the same each time, and works where nothing else is.

No network is needed: the empty environments see the packages of this one, but not its rhocover. `make
test-release` does the same with packages that are installed by their locks.
"""

from __future__ import annotations

import email
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import rhocover
from tools.release import rehearse
from tools.release.build import ROOT, build, unpack

WHEEL = f"rhocover-{rhocover.__version__}-py3-none-any.whl"
ARCHIVE = f"rhocover-{rhocover.__version__}.tar.gz"

pytestmark = pytest.mark.thorough  # every test builds or installs


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Returns the folder with archive and wheel."""
    folder = tmp_path_factory.mktemp("dist")
    assert {path.name for path in build(folder)} == {ARCHIVE, WHEEL}
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    with zipfile.ZipFile(built / WHEEL) as opened:
        yield opened


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# What is in them.


def test_the_wheel_holds_the_library_its_licence_and_nothing_else(wheel):
    names = set(wheel.namelist())
    tree = {
        f"rhocover/{path.relative_to(ROOT / 'src' / 'rhocover').as_posix()}"
        for path in (ROOT / "src" / "rhocover").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    info = f"rhocover-{rhocover.__version__}.dist-info"
    described = {
        f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    }
    assert names == tree | described
    assert "rhocover/py.typed" in names
    assert wheel.read(f"{info}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_the_metadata_say_what_it_is(wheel):
    info = f"rhocover-{rhocover.__version__}.dist-info"
    told = email.message_from_bytes(wheel.read(f"{info}/METADATA"))
    assert (told["Name"], told["Version"], told["License-Expression"]) == (
        "rhocover",
        rhocover.__version__,
        "Apache-2.0",
    )
    assert told["Requires-Python"] == ">=3.11"
    assert told["Description-Content-Type"] == "text/markdown"
    assert "rhocover = rhocover.cli:main" in wheel.read(f"{info}/entry_points.txt").decode()


def test_the_archive_holds_what_testing_it_needs_and_no_caches(built):
    with tarfile.open(built / ARCHIVE) as opened:
        members = opened.getmembers()
    names = {member.name.split("/", 1)[1] for member in members}
    assert {
        "pyproject.toml",
        "LICENSE",
        "README.md",
        "SECURITY.md",
        "src/rhocover/py.typed",
        "tests/conftest.py",
    } <= names
    left = r"__pycache__|\.py[co]$|\.nb[ic]$|\.pytest_cache|\.ruff_cache|\.hypothesis|\.venv|(^|/)out/|\.git/"
    assert [name for name in names if re.search(left, name)] == []
    assert all(member.isfile() for member in members)
    assert {(member.uid, member.gid, member.uname) for member in members} == {(0, 0, "")}  # nobody's machine


# The same each time.


def test_the_same_tree_gives_the_same_bytes_on_another_day_and_from_another_place(built, tmp_path):
    tree = tmp_path / "elsewhere"
    unpack(built / ARCHIVE, tree)
    (unpacked,) = tree.iterdir()
    for path in unpacked.rglob("*"):
        os.utime(path, (1e9, 1e9))
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path / "again")]
    subprocess.run(command, cwd=unpacked, check=True, capture_output=True)
    assert digest(tmp_path / "again" / WHEEL) == digest(built / WHEEL)
    assert digest(tmp_path / "again" / ARCHIVE) == digest(built / ARCHIVE)


def test_the_wheel_of_the_tree_is_the_wheel_of_the_archive(built, tmp_path):
    """Otherwise something that is installed here would be missing there."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert digest(tmp_path / WHEEL) == digest(built / WHEEL)


def test_the_time_in_the_files_is_the_one_that_is_given(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    build(tmp_path)
    with zipfile.ZipFile(tmp_path / WHEEL) as opened:
        assert {entry.date_time[:3] for entry in opened.infolist()} == {(2023, 11, 14)}


# Where nothing else is.


def installed(what: Path, folder: Path) -> Path:
    """Returns the Python of a new environment with what was built, and the packages of this one."""
    python = rehearse.empty_environment(folder)
    (site,) = (folder / "lib").glob("python3.*/site-packages")
    packages = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site / "of_the_tests.pth").write_text("\n".join(sorted(packages)) + "\n", "utf-8")
    rehearse.pip(python, "--no-deps", "--no-index", "--no-build-isolation", str(what))
    return python


def test_the_wheel_is_installed_and_used_in_an_empty_environment(built, tmp_path):
    rehearse.use(installed(built / WHEEL, tmp_path / "env"), tmp_path / "work", self_test=False)


def test_the_archive_is_installed_in_an_empty_environment(built, tmp_path):
    """It gives the same wheel, so that it answers is enough."""
    rehearse.greet(installed(built / ARCHIVE, tmp_path / "env"), tmp_path / "work")


def test_a_rehearsal_notices_another_rhocover_and_a_command_that_fails(tmp_path):
    with pytest.raises(AssertionError, match=r"no-such-command"):
        rehearse.run(tmp_path, sys.executable, "-m", "rhocover", "no-such-command")
    python = rehearse.empty_environment(tmp_path / "env")
    script = python.parent / "rhocover"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m rhocover "$@"\n', "utf-8")
    script.chmod(0o755)
    python.unlink()
    shutil.copy(script, python)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', "utf-8")
    with pytest.raises(AssertionError, match="another rhocover was used"):
        rehearse.use(python, tmp_path / "work", self_test=False)
