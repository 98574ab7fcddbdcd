"""A folder belongs to one process at a time, and to the same one from what it clears to its last file."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from small_writers import WRITERS, collect, compare, contents, explore, in_use, make_read_only

import rhocover as rc
from patience import PATIENCE
from rhocover.errors import CheckpointError, InvalidArgumentError
from rhocover.files import load_tensors
from tiers import tiered

pytestmark = pytest.mark.thorough  # every test starts processes

LINES = {  # a command, and one that makes what is in its folder first
    "explore river_swim --rho 2 --steps 200 --out out --force": "explore river_swim --rho 1 --steps 100 --out out",
    "compare river_swim --steps 60 --seeds 1 --explorer tracking --workers 1 --out out --force":
        "compare river_swim --steps 50 --seeds 1 --explorer tracking --workers 1 --out out",
    "collect FrozenLake-v1 --rho 2 --steps 60 --out out --force": "collect FrozenLake-v1 --rho 2 --steps 50 --out out",
    "plan river_swim --rho 2 --out out --force": None,
    "audit steps.csv --out out --force": None,
    "reproduce reference-values --out out --force": None,
    "demo --out out --force": None,
}  # fmt: skip


@pytest.mark.parametrize("line", tiered(LINES))
def test_no_command_writes_or_clears_in_a_folder_that_is_in_use(line, rhocover, tmp_path):
    (tmp_path / "steps.csv").write_text("s,a,s_next,done\n0,1,1,0\n1,0,0,0\n")
    (tmp_path / "out").mkdir()
    if LINES[line]:
        assert rhocover(LINES[line]).code == 0
    before = contents(tmp_path)
    with in_use(tmp_path / "out"):
        found = rhocover(line)
    assert (found.code, found.is_one_error_line) == (2, True), found.err
    assert "`--out` 'out' is in use by another process" in found.err
    assert contents(tmp_path) == before


@pytest.mark.parametrize("verb", ["compare", "collect", "top_up"])
def test_a_second_call_is_refused_while_the_first_one_writes(verb, tmp_path, often):
    """The mutant without a lock stores its own runs over those of the first."""
    out, refused = tmp_path / "out", []

    def report(done, total):
        if not refused:
            with pytest.raises(InvalidArgumentError, match="in use by another process") as caught:
                WRITERS[verb].again(out)
            refused.append(caught)

    WRITERS[verb].call(out, report)
    assert refused
    if verb == "compare":
        assert load_tensors(out / "comparison.safetensors", "comparison")[0]["done"].all()


def test_a_command_holds_its_folder_from_its_first_file_to_its_last(rhocover, tmp_path, monkeypatch):
    """Between the run and its pictures there is no moment in which another could clear the folder."""
    from rhocover.cli import explore

    real, tried = explore._draw, []

    def draw(make, path):
        with pytest.raises(BlockingIOError), in_use(tmp_path / "out"):
            pass
        tried.append(path)
        real(make, path)

    monkeypatch.setattr(explore, "_draw", draw)
    assert rhocover("explore river_swim --rho 2 --steps 100 --out out").code == 0
    assert tried


def test_a_comparison_looks_again_once_it_holds_the_folder(tmp_path, monkeypatch):
    """Both saw an empty folder; the other one was faster. The mutant fills its question with old answers."""
    from rhocover.experiments import finished_runs

    out, real = tmp_path / "out", finished_runs.hold_folder

    def slow(place):
        monkeypatch.setattr(finished_runs, "hold_folder", real)
        compare(out, num_steps=50)
        return real(place)

    monkeypatch.setattr(finished_runs, "hold_folder", slow)
    with pytest.raises(InvalidArgumentError, match="holds a comparison with other"):
        compare(out)
    assert rc.Comparison.load(out).num_steps == 50


def test_a_collection_looks_again_once_it_holds_the_folder(tmp_path, monkeypatch):
    """The mutant writes its steps below the settings of another collection."""
    import rhocover.collecting.storage as module

    out, hold = tmp_path / "out", "hold_folder" if hasattr(module, "hold_folder") else "lock_folder"
    real = getattr(module, hold)

    def slow(place):
        monkeypatch.setattr(module, hold, real)
        collect(out, seed=7)
        return real(place)

    monkeypatch.setattr(module, hold, slow)
    with pytest.raises(InvalidArgumentError, match="already contains a collection"):
        collect(out)
    assert '"seed": 7' in (out / "manifest.json").read_text()


# --- file systems without locks -----------------------------------------------------------------------


def answering(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def flock(handle, operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.mark.parametrize(
    ("verb", "number"),
    tiered(
        [
            ("explore", errno.ENOLCK),
            ("compare", errno.ENOSYS),
            ("collect", errno.EOPNOTSUPP),
            ("explore", errno.EINVAL),
        ]
    ),
)
def test_where_there_are_no_locks_the_work_goes_on_with_one_warning(verb, number, tmp_path, monkeypatch):
    from rhocover.errors import LockWarning

    answering(monkeypatch, number)
    with pytest.warns(LockWarning, match="without locks") as caught:
        WRITERS[verb].call(tmp_path / "out")
    assert len(caught) == 1
    assert (tmp_path / "out" / WRITERS[verb].first).exists()


@pytest.mark.parametrize("number", [errno.EWOULDBLOCK, errno.EACCES])
def test_only_a_lock_that_somebody_has_means_in_use(number, tmp_path, monkeypatch):
    answering(monkeypatch, number)
    with pytest.raises(InvalidArgumentError, match="in use by another process"):
        explore(tmp_path / "out")


def test_a_disk_that_fails_while_it_locks_is_not_called_in_use(tmp_path, monkeypatch):
    answering(monkeypatch, errno.EIO)
    with pytest.raises(CheckpointError, match="could not be written: Input/output error"):
        explore(tmp_path / "out")


# --- copies of the process ----------------------------------------------------------------------------

FORKING = """
import os, sys
import rhocover as rc
from rhocover.exploring.runs import checkpoint
from rhocover.exploring.worlds import simulator

checkpoint.SECONDS, simulator.Simulator.batch_steps = 0.0, 100
state = {}

def report(steps, num_steps):
    if steps >= 300 and not state:
        state["child"] = os.fork()
        if state["child"] == 0 and sys.argv[2] == "waits":
            sys.stdin.read()
            os._exit(0)
        if state["child"] and sys.argv[2] == "waits":
            print("forked", flush=True)
            os.kill(os.getpid(), 9)

try:
    rc.explore(rc.envs.river_swim(num_states=4), 2.0, 600, explorer="tracking", out=sys.argv[1], report=report)
except BaseException as error:
    print(state.get("child") == 0, type(error).__name__, error, flush=True)
if state.get("child"):
    os.waitpid(state["child"], 0)
"""


def forking(out: Path, what: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", FORKING, str(out), what],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_copy_of_the_process_does_not_keep_the_folder_of_one_that_was_killed(tmp_path):
    process = forking(tmp_path / "out", "waits")
    assert process.stdout.readline() == "forked\n"
    process.wait(PATIENCE)
    try:
        assert rc.resume(tmp_path / "out").num_steps == 600  # the copy is alive meanwhile
    finally:
        process.communicate(timeout=PATIENCE)


def test_a_copy_of_the_process_writes_nothing_and_the_first_one_goes_on(tmp_path):
    """The mutant has both of them write their checkpoints in turn."""
    out, err = forking(tmp_path / "out", "goes on").communicate(timeout=PATIENCE)
    assert out.startswith("True CheckpointError"), out + err
    assert "is locked by the process that this one was forked from" in out
    assert out.count("Error") == 1
    assert (tmp_path / "out" / "result.safetensors").exists()


# --- what is finished ---------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["explore", "compare"])
def test_what_is_finished_is_returned_from_a_disk_that_cannot_be_written_to(verb, tmp_path, monkeypatch):
    out = tmp_path / "out"
    first = WRITERS[verb].call(out)
    before = contents(tmp_path)
    make_read_only(monkeypatch)
    with in_use(out):  # a lock is not needed either
        again = WRITERS[verb].again(out)
    assert str(again) == str(first)
    monkeypatch.undo()
    assert contents(tmp_path) == before


@pytest.mark.parametrize("verb", ["collect", "top_up"])
def test_a_finished_collection_is_called_so_on_a_disk_that_cannot_be_written_to(verb, tmp_path, monkeypatch):
    out = tmp_path / "out"
    WRITERS[verb].call(out)
    before = contents(out)
    make_read_only(monkeypatch)
    with pytest.raises(InvalidArgumentError, match=r"is finished\. Add to it: rc\.top_up\."):
        WRITERS[verb].again(out)
    monkeypatch.undo()
    assert contents(out) == before
    with pytest.raises(InvalidArgumentError, match="is finished"):
        WRITERS[verb].again(out)
    assert contents(out) == before


def test_commands_show_what_is_finished_on_a_disk_that_cannot_be_written_to(rhocover, tmp_path, monkeypatch):
    lines = {
        "explore river_swim --rho 2 --steps 100 --out run": "resume run",
        "compare river_swim --steps 60 --seeds 1 --explorer tracking --workers 1 --out runs": None,
    }
    for line, again in lines.items():
        first = rhocover(line)
        before = contents(tmp_path)
        with monkeypatch.context() as patch:
            make_read_only(patch)
            shown = rhocover(again or line)
        assert (shown.code, shown.out) == (0, first.out), shown.err
        assert "cannot be written to; the files in it are unchanged" in shown.err
        assert contents(tmp_path) == before


def test_a_result_that_is_damaged_is_made_again(tmp_path):
    first = explore(tmp_path / "out")
    whole = (tmp_path / "out" / "result.safetensors").read_bytes()
    (tmp_path / "out" / "result.safetensors").write_bytes(whole[:-1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert str(rc.resume(tmp_path / "out")) == str(first)
    load_tensors(tmp_path / "out" / "result.safetensors", "run")
