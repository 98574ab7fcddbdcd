"""No file is written outside the place that was named; without one, nothing is written at all.

Home, the cache, the folder for temporary files and the working directory are new and empty. Every verb and
every command runs under the audit events of Python, which tell of each file that is opened to write, made,
renamed or removed, of processes and of the network. What else may be written is named here, exactly: the code
that Python and Numba compile, beside its source, and Matplotlib's list of fonts, for which it asks `fc-list`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rhocover.cli.app import app

HERE = Path(__file__).parent
COMPILED = re.compile(
    r".*/__pycache__(/[^/]+\.(pyc|pyc\.\d+|nbi|nbc|nbi\.tmp\.\w+|nbc\.tmp\.\w+|tmp\.\w+))?"
)  # Python's, Numba's
FONTS = re.compile(
    r"ROOT/(home/\.config|cache)/matplotlib(/fontlist-v[\d.]+\.json(\.matplotlib-lock)?)?|ROOT/home/\.config|/dev/null"
)
PROGRAMS = ("('fc-list',)", "('uname',)")  # Matplotlib looks for fonts, the standard library for the machine
TRIED = re.compile(r"ROOT/tmp(/\w{8})?")  # `doctor` tries whether temporary files can be made


def calls(kind: str, root: Path) -> tuple[list[dict], Path]:
    """Returns what each call did, and the folder in which all of it happened."""
    place = root / kind
    for name in ("home", "tmp", "cache", "here", "given"):
        (place / name).mkdir(parents=True)
    kept = {
        name: os.environ[name]
        for name in ("PATH", "LANG", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
        if name in os.environ
    }
    done = subprocess.run(
        [sys.executable, str(HERE / "watched_calls.py"), kind, str(place / "given")], capture_output=True, text=True, cwd=place / "here",
        env=kept | {"HOME": str(place / "home"), "TMPDIR": str(place / "tmp"), "XDG_CACHE_HOME": str(place / "cache"),
                    "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()], place


def is_allowed(event: str, path: str, call: dict, root: Path) -> bool:
    """Whether what a call did is below the place it was given, or one of the things named above."""
    named = path.replace(str(root), "ROOT")
    if event in ("subprocess.Popen", "os.posix_spawn"):
        return path in PROGRAMS
    if COMPILED.fullmatch(path) or FONTS.fullmatch(named):
        return True
    if call["call"].startswith("doctor") and TRIED.fullmatch(named):
        return True
    return call["place"] is not None and _is_inside(path, call["place"])


def _is_inside(path: str, where: str) -> bool:
    return path == where or path.startswith(f"{where}/") or _is_beside(path, where)


def _is_beside(path: str, where: str) -> bool:
    """Whether a path is where something is put together before it gets its name, in the folder of that name."""
    parent, name = os.path.split(where)
    hidden = rf"{re.escape(parent)}/(\.{re.escape(name[:40])}|\.rhocover)\.[0-9a-f]{{8}}\.tmp(/.*)?"
    return path == parent or re.fullmatch(hidden, path) is not None


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["verbs", "commands"])
def test_every_call_writes_below_the_place_it_was_given_and_nowhere_else(kind, tmp_path):
    """And begins no process, asks no network, and leaves nothing elsewhere that Python does not know of."""
    found, place = calls(kind, tmp_path)
    assert [call for call in found if call["place"] is None]
    outside = [
        (call["call"], *what) for call in found for what in call["seen"] if not is_allowed(*what, call, place)
    ]
    assert not outside, outside[:5]
    assert not left_elsewhere(place)
    for call in found:
        if call["place"] is not None:  # so that the above looks at something
            assert Path(call["place"]).exists(), call["call"]
            assert any(_is_inside(path, call["place"]) for _, path in call["seen"]), call["call"]
    if kind == "commands":
        names = {command.name for command in app.registered_commands}
        assert names <= {call["call"].split()[0] for call in found}


def left_elsewhere(place: Path) -> list[str]:
    """Returns files that are left at home, in the cache, in the working directory, or half written."""
    left = [
        path
        for name in ("home", "tmp", "cache", "here")
        for path in (place / name).rglob("*")
        if path.is_file()
    ]
    names = [str(path).replace(str(place), "ROOT") for path in left]
    hidden = [str(path) for path in (place / "given").rglob("*") if path.name.startswith(".")]
    return [name for name in names if not FONTS.fullmatch(name)] + hidden
