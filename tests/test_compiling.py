"""Compiled loops need no folder, trust none that others can write to, and survive one that is damaged."""

from __future__ import annotations

import importlib.util
import io
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from patience import PATIENCE
from rhocover import compiling
from rhocover.errors import CacheWarning
from tiers import tiered

SOURCE = """
from rhocover.compiling import compiled

@compiled
def twice(x):
    return 2 * x
"""
NOBODY = 12345  # a number that no user has


@pytest.fixture
def loops(tmp_path, monkeypatch) -> Callable[[], ModuleType]:
    """Returns a function that loads a module with one loop, as a new process would; its folder is its own."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr("numba.core.config.CACHE_DIR", "")
    monkeypatch.setattr(compiling, "_told", threading.Event())
    path = tmp_path / "loops.py"
    path.write_text(SOURCE)

    def load() -> ModuleType:
        spec = importlib.util.spec_from_file_location("loops", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def kept(tmp_path: Path, ending: str) -> list[Path]:
    return sorted((tmp_path / "__pycache__").glob(f"*{ending}"))


# Folders.

WITHOUT_A_FOLDER = """
import warnings
from numba.core.caching import CacheImpl
CacheImpl._locator_classes = []  # as where neither the source's folder nor the user's can be written to
import rhocover as rc
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    found = rc.plan(rc.envs.river_swim(), 2.0)
    run = rc.explore(rc.envs.river_swim(), 2.0, 200, seed=0)
    import rhocover.linalg.dissection, rhocover.learning.confidence
assert abs(found.divergence - 0.293000580) < 1e-8 and run.counts.sum() == 200
assert [w.category.__name__ for w in caught] == ["CacheWarning"], [str(w.message) for w in caught]
assert "NUMBA_CACHE_DIR=FOLDER" in str(caught[0].message) and "up to a minute" in str(caught[0].message)
"""


@pytest.mark.thorough
def test_without_any_folder_plan_and_explore_run_with_one_warning():
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_FOLDER], capture_output=True, text=True, timeout=PATIENCE
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.thorough
def test_where_source_and_home_cannot_be_written_to_a_command_runs_with_one_warning(tmp_path):
    """In a view of the file system of its own, where the folder of the source is read-only."""
    source = Path(compiling.__file__).parent
    seal = f"mount --bind {source} {source} && mount -o remount,bind,ro {source}"
    views = [["unshare", "--mount"], ["unshare", "--mount", "--map-root-user"]]
    view = next((view for view in views if can_run([*view, "sh", "-c", seal])), None)
    if view is None:
        pytest.skip("this system gives no view of the file system of one's own")
    env = {
        name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
    }
    line = f"{seal} && exec {sys.executable} -m rhocover plan river_swim --rho 2"
    result = subprocess.run(
        [*view, "sh", "-c", line], capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path,
        env=env | {"HOME": "/proc/none", "MPLCONFIGDIR": str(tmp_path)},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "0.293001" in result.stdout
    assert result.stderr.count("NUMBA_CACHE_DIR=FOLDER") == 1


def can_run(command: list[str]) -> bool:
    found = shutil.which(command[0])
    return found is not None and subprocess.run(command, capture_output=True).returncode == 0


def test_a_worker_does_not_repeat_the_warning(monkeypatch):
    monkeypatch.setattr(compiling, "_told", threading.Event())
    monkeypatch.setattr("multiprocessing.parent_process", lambda: object())
    compiling.tell_once(compiling.NO_FOLDER)


@pytest.mark.parametrize("rights", [0o777, 0o757, 0o1777])
def test_a_folder_that_others_can_write_to_is_not_used(loops, tmp_path, rights):
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__").chmod(rights)
    with pytest.warns(CacheWarning, match="other users can write to it") as caught:
        assert loops().twice(2) == 4
    assert len(caught) == 1
    assert kept(tmp_path, ".nb?") == []


def test_a_named_folder_below_one_that_others_can_write_to_is_not_used(loops, tmp_path, monkeypatch):
    """They could put another folder in its place; in one like /tmp they cannot."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(shared / "mine"))
    assert loops().twice.stats.cache_path is not None
    shared.chmod(0o777)
    with pytest.warns(CacheWarning, match="other users can write to it"):
        assert loops().twice.stats.cache_path is None


def test_a_folder_or_file_of_another_user_is_open_to_others(tmp_path, monkeypatch):
    assert not compiling.others_may_write(tmp_path)
    give_away(tmp_path, monkeypatch)
    assert compiling.others_may_write(tmp_path)
    assert not compiling.others_may_write(tmp_path, trusted=tmp_path.stat().st_uid)


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a file another user's, or this user another one where only the system's user could."""
    if os.geteuid() == compiling.ROOT:
        os.chown(path, NOBODY, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: NOBODY)


def test_a_file_of_another_user_in_the_folder_is_not_read(loops, tmp_path, monkeypatch):
    if os.geteuid() != compiling.ROOT:
        pytest.skip("only the system's user can give a file away")
    loops().twice(2)
    for path in kept(tmp_path, ".nb?"):
        give_away(path, monkeypatch)
    again = loops()
    assert again.twice(2) == 4
    assert sum(again.twice.stats.cache_hits.values()) == 0


def test_a_group_of_many_may_write_and_that_of_the_user_alone_does_not_count(tmp_path, monkeypatch):
    tmp_path.chmod(0o775)
    monkeypatch.setattr(compiling, "_is_own_group", lambda number: False)
    assert compiling.others_may_write(tmp_path)
    monkeypatch.setattr(compiling, "_is_own_group", lambda number: True)
    assert not compiling.others_may_write(tmp_path)


def test_a_group_without_a_name_is_not_the_users():
    assert not compiling._is_own_group(NOBODY)


# Files.


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": cut,
    "flipped": flip,
    "garbage": lambda path: path.write_bytes(b"\x80\x04garbage" * 99),
    "missing": Path.unlink,
}


@pytest.mark.parametrize("ending", tiered([".nbi", ".nbc"]))
@pytest.mark.parametrize("damage", tiered(DAMAGES))
def test_a_damaged_file_is_compiled_anew_and_replaced(loops, tmp_path, damage, ending):
    loops().twice(2)
    for path in kept(tmp_path, ending):
        DAMAGES[damage](path)
    again = loops()
    assert again.twice(2) == 4
    if damage == "flipped" and ending == ".nbi":
        return  # a name of a type may differ now, and nothing is damaged
    assert sum(again.twice.stats.cache_hits.values()) == 0
    whole = loops()
    assert whole.twice(2) == 4
    assert sum(whole.twice.stats.cache_hits.values()) == 1


def test_a_folder_in_the_place_of_a_file_is_told_and_does_no_harm(loops, tmp_path):
    loops().twice(2)
    folder(kept(tmp_path, ".nbi")[0])
    with pytest.warns(CacheWarning, match="cannot be written to"):
        assert loops().twice(2) == 4


def test_code_that_was_compiled_for_other_types_is_not_taken(loops, tmp_path):
    """As where two processes gave their files the same name at the same time."""
    first = loops()
    assert (first.twice(2), first.twice(2.5)) == (4, 5.0)
    one, other = kept(tmp_path, ".nbc")
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    again = loops()
    assert (again.twice(2), again.twice(2.5)) == (4, 5.0)
    assert sum(again.twice.stats.cache_hits.values()) == 0


def test_a_full_disk_does_not_stop_a_loop(loops, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compiling._SealedFile, "_save_index", full)
    with pytest.warns(CacheWarning, match="No space left on device"):
        assert loops().twice(2) == 4


# Numbers of threads.


@pytest.mark.parametrize("number", tiered(["0", "-1", "many"]))
def test_a_bad_number_of_threads_is_told_and_left_out(number):
    code = (
        (
            "import os, warnings\n"
            "with warnings.catch_warnings(record=True) as caught:\n"
            "    import rhocover.compiling\n"
            f"assert 'NUMBA_NUM_THREADS must be a whole number above 0, got {number!r}' in str(caught[0].message)\n"
            f"assert len(caught) == 1 and os.environ['NUMBA_NUM_THREADS'] == {number!r}\n"
            "assert rhocover.compiling.compiled(lambda x: 2 * x)(2) == 4"
        )
        .replace(f"got {number!r}'", f'got {number!r}"')
        .replace("assert 'NUMBA", 'assert "NUMBA')
    )
    result = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"NUMBA_NUM_THREADS": number}, capture_output=True, text=True,
        timeout=PATIENCE,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_first_loop_that_is_compiled_is_announced_once(loops, monkeypatch) -> None:
    monkeypatch.setattr(compiling, "_announced", threading.Event())
    monkeypatch.setattr(compiling, "_compiled", [])
    monkeypatch.setattr(sys, "stderr", Terminal())
    found = loops()
    assert found.twice(2) == 4
    assert found.twice(2.0) == 4.0
    assert sys.stderr.getvalue() == f"rhocover: {compiling.FIRST}\n"
    assert compiling.compiled_here() == ("twice", "twice")


def test_nothing_is_announced_where_nobody_watches_or_nothing_is_compiled(loops, monkeypatch) -> None:
    monkeypatch.setattr(compiling, "_announced", threading.Event())
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert loops().twice(2) == 4
    assert sys.stderr.getvalue() == ""
    monkeypatch.setattr(compiling, "_announced", threading.Event())
    monkeypatch.setattr(sys, "stderr", Terminal())
    before = compiling.compiled_here()
    assert loops().twice(2) == 4  # from the cache
    assert (sys.stderr.getvalue(), compiling.compiled_here()) == ("", before)
