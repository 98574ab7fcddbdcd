"""A run survives whatever stops it: the bits at the end are those of a run that nothing stopped.

Real processes are killed, some at random moments and some in the middle of writing a file; Ctrl-C arrives
at every place of the loop; two processes want one folder. The reference is always one run without a folder, in
this process.
"""

from __future__ import annotations

import os
import random
import signal
import time

import pytest
from exploring_models import same_run
from interrupted_runs import (
    CASES,
    RIVER,
    SHORT,
    child,
    finish,
    names,
    temporary,
)

import rhocover as rc
from rhocover import files
from rhocover.errors import InvalidArgumentError
from rhocover.exploring.runs import checkpoint, explore, runner
from rhocover.exploring.runs.checkpoint import CHECKPOINTS, MODEL, RESULT, SETTINGS
from rhocover.exploring.runs.runner import Interrupts
from rhocover.exploring.worlds.simulator import Simulator
from tiers import tiered

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and locks are POSIX's")


# --- killed -------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES)
def test_a_run_that_is_killed_again_and_again_ends_with_the_bits_of_one_that_was_not(
    case, tmp_path, reference
):
    """Two kills in the middle of a file operation, two at random moments, then to the end."""
    rng, out = random.Random(case), tmp_path / "out"
    killed = 0
    for operations in (rng.randrange(1, 12), rng.randrange(12, 90)):
        process = child(out, CASES[case], operations=operations)
        finish(process)
        killed += process.returncode == -signal.SIGKILL
    for _ in range(2):
        process = child(out, CASES[case], until=CASES[case]["num_steps"] / 2)
        assert process.stdout.readline() == "ready\n"
        time.sleep(rng.uniform(0.0, 0.4))
        process.kill()
        finish(process)
        assert process.returncode == -signal.SIGKILL
    assert killed >= 1, "both wrote fewer files than that"
    run = rc.resume(out) if (out / SETTINGS).exists() else rc.explore(RIVER, **CASES[case], out=out)
    same_run(run, reference(CASES[case]))
    assert temporary(out) == []
    assert RESULT in names(out)


@pytest.mark.parametrize("operations", tiered([1, 4, 5, 9]))
def test_a_kill_before_the_settings_are_written_leaves_a_folder_that_can_be_used(
    operations, tmp_path, reference
):
    """The model and the settings take five file operations each: the folder, the model, a part of either."""
    out = tmp_path / "out"
    process = child(out, SHORT, operations=operations)
    finish(process)
    assert process.returncode == -signal.SIGKILL
    assert SETTINGS not in names(out)
    same_run(rc.explore(RIVER, **SHORT, out=out), reference(SHORT))
    assert temporary(out) == []


# --- Ctrl-C -------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("case", ["feedback", "algorithm1", "tracking"])
def test_ctrl_c_ends_a_run_at_once_with_a_whole_checkpoint(case, tmp_path, reference):
    """Without Ctrl-C there would be no checkpoint for an hour."""
    out = tmp_path / "out"
    process = child(out, CASES[case], seconds=3600.0, stretch=500, until=CASES[case]["num_steps"] / 2)
    assert process.stdout.readline() == "ready\n"
    reached = int(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    error = finish(process)
    assert process.returncode != 0
    assert error.rstrip().endswith("KeyboardInterrupt")
    assert temporary(out) == []
    found = [name for name in names(out) if name in CHECKPOINTS]
    assert len(found) == 1
    _, document = files.load_tensors(out / found[0], "checkpoint")
    assert reached <= document["num_steps"] < CASES[case]["num_steps"]
    same_run(rc.resume(out), reference(CASES[case]))


def interrupting(real, when: int, *, after: bool):
    """Returns a function that raises Ctrl-C at its `when`-th call, before or after the real thing."""
    calls = 0

    def call(*arguments, **named):
        nonlocal calls
        calls += 1
        if calls == when and not after:
            signal.raise_signal(signal.SIGINT)
        result = real(*arguments, **named)
        if calls == when and after:
            signal.raise_signal(signal.SIGINT)
        return result

    return call


PLACES = {
    "acting": (Simulator, "advance"),
    "following": (Simulator, "follow"),
    "planning": (rc.Algorithm1, "policy"),
    "updating": (rc.Algorithm1, "update"),
    "measuring": (explore, "measure"),
    "recording": (runner, "episode_of"),
    "storing": (checkpoint, "state_tensors"),
    "renaming": (files.os, "replace"),
    "syncing": (files.os, "fsync"),
}


@pytest.mark.parametrize("after", tiered([False, True]))
@pytest.mark.parametrize("place", tiered(PLACES))
def test_ctrl_c_at_any_place_loses_nothing(place, after, tmp_path, reference, often, monkeypatch):
    """At the 1st, 2nd, 4th and 7th call of every function that the loop consists of."""
    owner, name = PLACES[place]
    real = getattr(owner, name)
    first = 8 if owner is files.os else 1  # let the settings be written
    for when in (first, first + 1, first + 3, first + 6):
        out = tmp_path / str(when)
        monkeypatch.setattr(owner, name, interrupting(real, when, after=after))
        try:
            rc.explore(RIVER, **SHORT, out=out)
        except KeyboardInterrupt:
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        monkeypatch.setattr(owner, name, real)
        assert temporary(out) == []
        same_run(rc.resume(out), reference(SHORT))


def test_ctrl_c_waits_for_what_belongs_together():
    seen = []

    def action():
        signal.raise_signal(signal.SIGINT)
        seen.append("whole")

    def held():
        with Interrupts() as interrupts:
            interrupts.together(action)
            seen.append("never")

    with pytest.raises(KeyboardInterrupt):
        held()
    assert seen == ["whole"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_comes_through_at_once_where_nothing_is_held():
    seen = []

    def free():
        with Interrupts():
            signal.raise_signal(signal.SIGINT)
            seen.append("never")

    with pytest.raises(KeyboardInterrupt):
        free()
    assert seen == []


@pytest.mark.parametrize(("before", "ends"), [(signal.SIG_IGN, False), (signal.SIG_DFL, True)])
def test_a_process_without_a_handler_keeps_its_way_with_ctrl_c(before, ends):
    """Ignored stays ignored (nohup); where Ctrl-C ends the process, it ends the run, checkpoint first."""
    signal.signal(signal.SIGINT, before)
    try:
        with Interrupts() as interrupts:
            if ends:
                with pytest.raises(KeyboardInterrupt):
                    interrupts.together(lambda: signal.raise_signal(signal.SIGINT))
            else:
                interrupts.together(lambda: signal.raise_signal(signal.SIGINT))
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_run_in_another_thread_leaves_the_handlers_alone(reference):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        same_run(pool.submit(lambda: rc.explore(RIVER, **SHORT)).result(), reference(SHORT))


# --- two at once --------------------------------------------------------------------------------------


def test_a_folder_in_use_is_refused(tmp_path, reference):
    out = tmp_path / "out"
    process = child(out, CASES["feedback"] | {"num_steps": 10**12}, stretch=500)
    try:
        assert process.stdout.readline() == "ready\n"
        process.stdout.readline()
        with pytest.raises(InvalidArgumentError) as caught:
            rc.resume(out)
        assert (
            str(caught.value)
            == f"`out` {str(out)!r} is in use by another process. Wait for it to end, or stop it."
        )
        with pytest.raises(InvalidArgumentError, match="already holds a run"):
            rc.explore(RIVER, 2, 1000, out=out)
        assert process.poll() is None
    finally:
        process.kill()
        finish(process)


def test_a_run_that_comes_second_does_not_touch_the_model_of_the_first(tmp_path, monkeypatch):
    """Both saw an empty folder; the first was faster. The mutant writes its model over that of the first."""
    out = tmp_path / "out"
    real, calls = checkpoint.Folder._check_free, []

    def check(folder):
        real(folder)
        if not calls:
            calls.append(1)
            rc.explore(RIVER, **SHORT, out=out)

    monkeypatch.setattr(checkpoint.Folder, "_check_free", check)
    with pytest.raises(InvalidArgumentError, match="already holds a run"):
        rc.explore(rc.envs.river_swim(num_states=9), **SHORT, out=out)
    assert rc.MDP.load(out / MODEL).num_states == 6
    assert rc.resume(out).num_steps == 3000
