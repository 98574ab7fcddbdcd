"""Environments that hang: Ctrl-C and `step_timeout` end them, and what was collected before is kept."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import gymnasium as gym
import pytest
from gymnasium.vector import SyncVectorEnv
from hanging_collections import AT, NUM_STEPS, collect, hanging
from toy_environments import Ring, contents, limited

import rhocover as rc
from patience import PATIENCE, waited_for
from rhocover.collecting import log
from rhocover.datasets.collection.manifest import load_manifest
from rhocover.environments import stepping
from rhocover.errors import EnvironmentFailedError, InvalidArgumentError
from rhocover.exploring.runs.runner import DEAF, Interrupts
from tiers import tiered

HERE = Path(__file__).parent
TESTS = HERE.parent
SOON = 0.3  # seconds that an honest step of a ring never takes, however busy the machine
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(os.name == "nt", reason="Windows has neither these signals nor this clock"),
]


def whole(how: str) -> object:
    """Returns an environment that does what the hanging one does, and does not hang."""
    if how.endswith("in a copy"):
        return SyncVectorEnv([lambda: limited(6), lambda: limited(6)])
    return limited(6)


def goes_on_to_the_same(how: str, out: Path, folder: Path) -> bool:
    collect(whole(how), out, resume=True)
    collect(whole(how), folder / "whole")
    return contents(out) == contents(folder / "whole")


def stored_steps(out: Path) -> int:
    return load_manifest(out).num_steps


# --- Ctrl-C -----------------------------------------------------------------------------------------------


def begun(how: str, out: Path) -> subprocess.Popen:
    """Returns a process that has begun to hang."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "hanging_collections.py"), str(out), how], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": f"{HERE}:{TESTS}"},
    )  # fmt: skip
    assert process.stdout.readline() == "hanging\n", process.communicate()[1]
    return process


def press(process: subprocess.Popen, patience: float) -> tuple[str, str]:
    """Presses Ctrl-C twice, and again after some patience, until the process ends; returns what it said."""
    pauses = iter([1.5 * DEAF])

    def is_over() -> bool:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(next(pauses, patience))
        return process.poll() is not None

    try:
        assert waited_for(is_over)
        return process.communicate(timeout=PATIENCE)
    finally:
        process.kill()


@pytest.mark.thorough
@pytest.mark.parametrize("how", tiered(["sleep", "sleep in a copy"]))
def test_the_second_ctrl_c_ends_a_step_that_hangs_and_all_before_it_is_kept(how, tmp_path):
    process = begun(how, tmp_path / "out")
    out, error = press(process, 60)  # a third one would interrupt what the second one began
    assert (process.returncode, out) == (3, "interrupted\n"), error
    assert stored_steps(tmp_path / "out") >= AT - 2
    assert goes_on_to_the_same(how, tmp_path / "out", tmp_path)


@pytest.mark.thorough
def test_code_that_never_comes_back_to_python_is_ended_with_the_process(tmp_path):
    """Nothing can be raised there; what is on disk is whole, and is gone on with."""
    process = begun("compute", tmp_path / "out")
    out, error = press(process, 1.5 * DEAF)
    assert (process.returncode, out) == (130, "")
    assert "interrupted in C code that does not return" in error
    assert goes_on_to_the_same("compute", tmp_path / "out", tmp_path)


def test_the_first_ctrl_c_waits_for_the_step(tmp_path):
    class Pressed(gym.Wrapper):
        pressed = finished = False

        def step(self, action):
            if not self.pressed:
                Pressed.pressed = True
                signal.raise_signal(signal.SIGINT)
            result = self.env.step(action)
            Pressed.finished = True
            return result

    with pytest.raises(KeyboardInterrupt):
        collect(Pressed(limited(6)), tmp_path / "out")
    assert Pressed.finished
    assert stored_steps(tmp_path / "out") >= 1
    assert goes_on_to_the_same("", tmp_path / "out", tmp_path)


@pytest.mark.parametrize("at", tiered([1, 2, 17]))
@pytest.mark.parametrize("place", tiered(["step", "reset", "states"]))
def test_two_presses_inside_code_of_others_come_through_there(place, at, tmp_path, monkeypatch):
    monkeypatch.setattr(log, "ROUND", 16)
    seen = []

    def press_twice():
        seen.append(place)
        if len(seen) == at:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            seen.append("went on")

    class Pressed(gym.Wrapper):
        def step(self, action):
            if place == "step":
                press_twice()
            return self.env.step(action)

        def reset(self, **named):
            if place == "reset" and seen is not None:
                press_twice()
            return self.env.reset(**named)

    def state(observation):
        if place == "states" and len(seen) < at:
            press_twice()
        return int(observation)

    with pytest.raises(KeyboardInterrupt):
        collect(Pressed(Ring(ending=0.5)), tmp_path / "out", states=state)
    assert "went on" not in seen
    place = "none"
    collect(Ring(ending=0.5), tmp_path / "out", states=state, resume=True)
    collect(Ring(ending=0.5), tmp_path / "whole", states=state)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_a_second_press_waits_for_what_is_ours():
    """Bookkeeping is short; an interrupt inside of it would leave it half done."""
    seen = []

    def action():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        seen.append("whole")

    def held():
        with Interrupts(lambda frame: False) as interrupts:
            interrupts.together(action)

    with pytest.raises(KeyboardInterrupt):
        held()
    assert seen == ["whole"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_no_thread_and_no_wakeup_is_left_behind(tmp_path):
    before = threading.active_count()
    collect(limited(6), tmp_path / "out")
    assert threading.active_count() == before
    assert signal.set_wakeup_fd(-1) == -1


def test_an_event_loop_keeps_its_own_wakeup(tmp_path):
    import socket

    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    signal.set_wakeup_fd(theirs.fileno())
    try:
        collect(limited(6), tmp_path / "out")
    finally:
        kept = signal.set_wakeup_fd(-1)
        number = theirs.fileno()
        ours.close()
        theirs.close()
    assert kept == number


def test_ctrl_c_need_not_wait_for_many_slow_steps(tmp_path):
    """A stretch of slow steps is one step long, so that the first Ctrl-C is heard after it."""
    from rhocover.collecting import stepping

    class Slow(gym.Wrapper):
        num_after = 0
        pressed = False

        def step(self, action):
            time.sleep(stepping.SECONDS)
            if self.pressed:
                Slow.num_after += 1
            if not self.pressed and self.num_steps == 10:
                Slow.pressed = True
                signal.raise_signal(signal.SIGINT)
            self.num_steps += 1
            return self.env.step(action)

    env = Slow(limited(6))
    env.num_steps = 0
    with pytest.raises(KeyboardInterrupt):
        collect(env, tmp_path / "out")
    assert Slow.num_after == 0


# --- step_timeout -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", tiered(["sleep", "spin", "swallow", "sleep in a reset", "sleep in a copy"]))
def test_a_step_that_takes_too_long_fails_and_all_before_it_is_kept(how, tmp_path, capsys):
    env = hanging(how)
    with pytest.raises(EnvironmentFailedError) as caught:
        collect(env, tmp_path / "out", step_timeout=SOON)
    message = str(caught.value)
    assert "did not return within 0.3 s (`step_timeout`) after" in message
    assert "The steps before are kept" in message
    num_steps = int(message.split("after ")[1].split()[0])
    assert num_steps >= AT - 1
    assert goes_on_to_the_same(how, tmp_path / "out", tmp_path)


def test_steps_that_are_fast_enough_are_as_without_a_limit(tmp_path):
    collect(limited(6), tmp_path / "timed", step_timeout=PATIENCE)
    collect(limited(6), tmp_path / "whole")
    assert contents(tmp_path / "timed") == contents(tmp_path / "whole")


def test_going_on_may_take_longer_than_one_step(tmp_path, monkeypatch):
    """All stored steps are taken again; the limit is for each of them."""

    class Slow(gym.Wrapper):
        def step(self, action):
            time.sleep(0.02)
            return self.env.step(action)

    with pytest.raises(EnvironmentFailedError):
        collect(hanging("sleep"), tmp_path / "out", step_timeout=SOON)
    collect(Slow(limited(6)), tmp_path / "out", resume=True, step_timeout=SOON)


def test_explore_and_random_rollouts_and_top_ups_have_the_same_limit(tmp_path, capsys):
    late = pytest.raises(EnvironmentFailedError, match=r"did not return within 0.3 s \(`step_timeout`\)")
    with late:
        rc.explore(hanging("sleep"), 2.0, NUM_STEPS, model="learned", step_timeout=SOON)
    collect(limited(6), tmp_path / "old")
    with late:
        rc.top_up(
            tmp_path / "old", hanging("sleep"), NUM_STEPS, out=tmp_path / "new", model="learned",
            step_timeout=SOON,
        )  # fmt: skip
    with late:
        rc.explore(
            hanging("sleep"), 2.0, NUM_STEPS, model="learned", states=rc.QuantileBins(2), step_timeout=SOON
        )


def test_the_clock_goes_back_to_whoever_had_it(tmp_path):
    rang = []
    before = signal.signal(signal.SIGALRM, lambda *given: rang.append(given))
    signal.setitimer(signal.ITIMER_REAL, PATIENCE, 7.0)
    try:
        collect(limited(6), tmp_path / "out", step_timeout=PATIENCE)
        left, interval = signal.getitimer(signal.ITIMER_REAL)
        assert (0 < left <= PATIENCE, interval) == (True, 7.0)
        signal.raise_signal(signal.SIGALRM)
        assert len(rang) == 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), 1e9, "1", True, [1]])
def test_a_limit_that_is_none_is_refused_at_the_door(wrong, tmp_path):
    with pytest.raises(InvalidArgumentError, match="`step_timeout`"):
        collect(limited(6), tmp_path / "out", step_timeout=wrong)
    assert not (tmp_path / "out").exists()


def test_where_there_is_no_clock_a_limit_is_refused_at_the_door(tmp_path, monkeypatch):
    caught = []

    def elsewhere():
        try:
            collect(limited(6), tmp_path / "out", step_timeout=1)
        except InvalidArgumentError as error:
            caught.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "`step_timeout` works in the main thread only" in caught[0]
    monkeypatch.delattr(stepping.signal, "setitimer")
    with pytest.raises(InvalidArgumentError, match=r"does not have \(Windows\)"):
        collect(limited(6), tmp_path / "out", step_timeout=1)
    assert not (tmp_path / "out").exists()


def test_a_model_has_no_step_that_hangs():
    with pytest.raises(InvalidArgumentError, match="`step_timeout` is for environments"):
        rc.explore(rc.envs.river_swim(), 2, 100, step_timeout=1)


# --- the command line -------------------------------------------------------------------------------------


class Unclosable(Ring):
    def close(self):
        raise RuntimeError("the window is stuck")


@pytest.fixture
def unclosable():
    gym.register("Unclosable-v0", Unclosable)
    yield "Unclosable-v0"
    del gym.registry["Unclosable-v0"]


def command(*words) -> int:
    from rhocover.cli import main

    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code


def test_an_environment_that_cannot_be_closed_takes_nothing_away(unclosable, tmp_path, capsys):
    told = ("--model", "learned", "--rho", 2, "--steps", 50)
    assert command("collect", unclosable, *told, "--out", tmp_path / "out", "--step-timeout", 900) == 0
    assert "could not be closed: RuntimeError: the window is stuck" in capsys.readouterr().err
    assert (tmp_path / "out" / "datasheet.json").exists()


def test_the_command_line_refuses_a_limit_that_is_none(unclosable, tmp_path, capsys):
    told = ("--model", "learned", "--rho", 2, "--steps", 50, "--step-timeout", 0)
    assert command("collect", unclosable, *told, "--out", tmp_path / "out") == 2
    assert command("explore", unclosable, *told) == 2
    assert command("explore", "river_swim", "--rho", 2, "--step-timeout", 1) == 2
    said = capsys.readouterr().err
    assert "`--step-timeout` must be a number of seconds above 0" in said
    assert "`--step-timeout` is for environments" in said
