"""Interrupted collections go on: the data set is the same to the bit, and nothing is left over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from toy_environments import ANGLE, CAR, Failing, Ring, contents, limited, nested_ring, place

import rhocover as rc
from patience import PATIENCE
from rhocover.collecting import log, stepping
from rhocover.datasets.collection.manifest import load_manifest, part_path
from rhocover.errors import CheckpointError, CheckpointWarning, EnvironmentFailedError, InvalidArgumentError
from tiers import tiered

LEARNED = {"model": "learned"}
HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(log, "ROUND", 64)
    monkeypatch.setattr(stepping, "BETWEEN", 50)


SINGLE = {
    "a ring": (Ring, LEARNED),
    "a limit": (lambda: limited(5), LEARNED),
    "a ring without ends": (lambda: Ring(ending=-1.0), LEARNED),
    "a ring that always ends": (lambda: Ring(ending=2.0), LEARNED),
    "FrozenLake, known": (lambda: gym.make("FrozenLake-v1"), {}),
    "a car": (lambda: gym.make("MountainCar-v0", max_episode_steps=30), {"states": CAR} | LEARNED),
    "Pendulum": (lambda: gym.make("Pendulum-v1"), {"states": ANGLE, "actions": 3} | LEARNED),
    "a Dict": (nested_ring, {"states": place} | LEARNED),
    "Blackjack": (lambda: gym.make("Blackjack-v1"), {"states": lambda o: tuple(map(int, o))} | LEARNED),
    "maxent": (Ring, {"explorer": "maxent"} | LEARNED),
    "uniform_random": (Ring, {"explorer": "uniform_random"} | LEARNED),
    "algorithm1": (Ring, {"explorer": "algorithm1_short"} | LEARNED),
    "posterior": (Ring, {"model": "posterior"}),
    "a rule": (Ring, {"mu": "transition_std"} | LEARNED),
}


def collect(name_or_env, out: Path, *, resume: bool = False, num_steps: int = 260, **more):
    make, settings = SINGLE[name_or_env] if isinstance(name_or_env, str) else (lambda: name_or_env, LEARNED)
    env = more.pop("env", None) or Failing(make())
    return rc.collect(env, 2.0, num_steps, out=out, resume=resume, **(settings | more))


def interrupted(
    name: str, out: Path, at: int, wanted: type[BaseException] = EnvironmentFailedError, **failing
):
    """Collects until the environment raises in step `at`; returns the message."""
    env = Failing(SINGLE[name][0](), at, **failing)
    with pytest.raises(wanted) as caught:
        collect(name, out, env=env)
    return str(caught.value)


# --- killed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "every", "steps"),
    tiered(
        [
            ("a ring", 1, [1, 16, 17, 33]),
            ("FrozenLake, known", 100, [9, 34]),
            ("a Dict", 100, [20]),
            ("rings", 7, [3, 12]),
            ("rings, same step", 100, [18]),
        ],
        short=[("a Dict", 100, [20])],
    ),
)
def test_killed_at_any_moment_a_collection_goes_on_to_the_same_files(case, every, steps, tmp_path):
    """Before each file operation and before some steps; a copy of one process each (see the child)."""
    child = [sys.executable, str(HERE / "interrupted_collections.py"), str(tmp_path), case]
    path = os.pathsep.join([str(HERE), str(HERE.parent)])
    done = subprocess.run(
        [*child, str(every), json.dumps(steps)], capture_output=True, text=True, timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    trials = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(trials) >= len(steps) + 1
    assert all(trial["killed"] for trial in trials)
    wrong = [trial for trial in trials if not _is_whole(trial)]
    assert not wrong, wrong[0]


def _is_whole(trial: dict) -> bool:
    """Whether all is as it should be; after its last file a collection may say that it is finished."""
    is_finished = "is finished" in (trial["problem"] or "") and "datasheet.json" in trial["left"]
    return trial["same"] and (trial["problem"] is None or is_finished)


# --- interrupted, and failed ------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("name", tiered(SINGLE))
def test_an_environment_that_is_mended_is_collected_to_the_end(name, tmp_path):
    collect(name, tmp_path / "whole")
    message = interrupted(name, tmp_path / "out", 150)
    assert "raised while stepping after 149 steps: RuntimeError: the simulator is gone" in message
    collect(name, tmp_path / "out", resume=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.thorough
@pytest.mark.parametrize("at", tiered([1, 2, 63, 64, 65, 66, 128, 129, 260]))
@pytest.mark.parametrize("name", tiered(["a limit", "a ring without ends"]))
def test_wherever_a_step_fails_among_the_parts(name, at, tmp_path):
    collect(name, tmp_path / "whole")
    interrupted(name, tmp_path / "out", at)
    assert load_manifest(tmp_path / "out").num_steps == at - 1  # every step that was taken is on disk
    collect(name, tmp_path / "out", resume=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.thorough
@pytest.mark.parametrize("at", tiered([1, 60, 64, 150]))
def test_wherever_a_reset_fails(at, tmp_path):
    collect("a limit", tmp_path / "whole")
    message = interrupted("a limit", tmp_path / "out", at, in_reset=True)
    assert "raised while being reset" in message
    collect("a limit", tmp_path / "out", resume=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.thorough
def test_a_first_reset_that_fails_leaves_a_collection_that_can_be_begun(tmp_path):
    class Broken(Failing):
        def reset(self, **named):
            raise OSError("no display")

    with pytest.raises(
        EnvironmentFailedError, match="raised while being reset after 0 steps: OSError: no display"
    ):
        collect("a ring", tmp_path / "out", env=Broken(Ring()))
    collect("a ring", tmp_path / "whole")
    resume = (tmp_path / "out" / "manifest.json").exists()
    collect("a ring", tmp_path / "out", resume=resume)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.thorough
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_after_ctrl_c_and_the_like_everything_so_far_is_there(error, tmp_path):
    collect("a limit", tmp_path / "whole")
    wanted = KeyboardInterrupt if error is KeyboardInterrupt else EnvironmentFailedError
    interrupted("a limit", tmp_path / "out", 200, wanted, error=error())
    assert sorted(contents(tmp_path / "out")) == [
        "manifest.json", "parts", *(f"parts/part-0000-{k:06d}.parquet" for k in range(3)),
        "parts/part-0000-000003-000007.parquet",
    ]  # fmt: skip
    collect("a limit", tmp_path / "out", resume=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.thorough
def test_a_collection_may_be_interrupted_many_times(tmp_path):
    collect("a limit", tmp_path / "whole")
    with pytest.raises(EnvironmentFailedError):
        collect("a limit", tmp_path / "out", env=Failing(limited(5), 30))
    for at in (
        40,
        41,
        90,
        200,
    ):  # steps of a new environment, which is first brought to where the last one was
        with pytest.raises((EnvironmentFailedError, KeyboardInterrupt)):
            collect("a limit", tmp_path / "out", env=_late(at), resume=True)
    collect("a limit", tmp_path / "out", resume=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def _late(at: int) -> gym.Env:
    return Failing(limited(5), at, error=KeyboardInterrupt() if at % 2 else None)


@pytest.mark.thorough
@pytest.mark.parametrize("mode", tiered(list(AutoresetMode)))
@pytest.mark.parametrize("at", tiered([1, 40, 80]))
def test_copies_that_are_mended_are_collected_to_the_end(mode, at, tmp_path):
    def copies(at: int) -> SyncVectorEnv:
        first = [lambda: limited(5)] * 2
        return SyncVectorEnv([*first, lambda: Failing(limited(5), at)], autoreset_mode=mode)

    collect(copies(0), tmp_path / "whole", env=copies(0))
    with pytest.raises(EnvironmentFailedError, match="the simulator is gone"):
        collect(copies(at), tmp_path / "out", env=copies(at))
    collect(copies(0), tmp_path / "out", env=copies(0), resume=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.thorough
def test_a_report_that_raises_leaves_what_was_collected(tmp_path):
    def report(steps: int, num_steps: int) -> None:
        if steps >= 100:
            raise ZeroDivisionError

    collect("a limit", tmp_path / "whole")
    with pytest.raises(ZeroDivisionError):
        collect("a limit", tmp_path / "out", report=report)
    collect("a limit", tmp_path / "out", resume=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


# --- disks ------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("operation", tiered(["fsync", "replace"]))
@pytest.mark.parametrize("after", tiered([0, 1, 2, 3, 5, 7]))
def test_a_full_disk_is_named_and_the_collection_goes_on_when_there_is_room(
    operation, after, tmp_path, monkeypatch
):
    collect("a limit", tmp_path / "whole")
    real, left = getattr(os, operation), after

    def full(*arguments, **named):
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(28, "No space left on device")
        return real(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, operation, full)
        with pytest.raises(OSError, match="No space left on device") as caught:
            collect("a limit", tmp_path / "out")
    begun = (tmp_path / "out" / "manifest.json").exists()
    if begun and "part-" in str(caught.value):
        assert isinstance(caught.value, CheckpointError)
        assert "Free some space, then continue with resume=True" in str(caught.value)
    collect("a limit", tmp_path / "out", resume=begun)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def part_of(folder: Path, number: int) -> Path:
    """Returns the file of a part, by its round."""
    return part_path(folder, load_manifest(folder).parts[number].name)


@pytest.mark.thorough
@pytest.mark.parametrize("part", tiered([0, 1, 3]))
@pytest.mark.parametrize("harm", tiered(["a byte", "cut", "empty"]))
def test_a_damaged_part_is_collected_again_with_a_warning(part, harm, tmp_path):
    collect("a limit", tmp_path / "whole")
    interrupted("a limit", tmp_path / "out", 230)
    path = part_of(tmp_path / "out", part)
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes({"a byte": bytes(content), "cut": bytes(content[:100]), "empty": b""}[harm])
    with pytest.warns(CheckpointWarning, match="collected again"):
        collect("a limit", tmp_path / "out", resume=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.thorough
def test_a_missing_part_is_collected_again(tmp_path):
    collect("a limit", tmp_path / "whole")
    interrupted("a limit", tmp_path / "out", 230)
    part_of(tmp_path / "out", 1).unlink()
    with pytest.warns(CheckpointWarning, match=r"part-0000-000001.parquet .*is missing.*collected again"):
        collect("a limit", tmp_path / "out", resume=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.thorough
def test_a_part_of_another_collection_is_collected_again_with_a_warning(tmp_path):
    collect("a limit", tmp_path / "whole")
    interrupted("a limit", tmp_path / "out", 230)
    with pytest.raises(EnvironmentFailedError):
        collect("a limit", tmp_path / "other", env=Failing(limited(5), 230), seed=9)
    part_of(tmp_path / "out", 1).write_bytes(part_of(tmp_path / "other", 1).read_bytes())
    with pytest.warns(CheckpointWarning, match=r"part-0000-000001.parquet .*collected again"):
        collect("a limit", tmp_path / "out", resume=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.thorough
def test_damaged_settings_are_refused(tmp_path):
    interrupted("a limit", tmp_path / "out", 100)
    (tmp_path / "out" / "manifest.json").write_text("{")
    with pytest.raises(rc.errors.FileFormatError, match=r"manifest.json.*damaged"):
        collect("a limit", tmp_path / "out", resume=True)


# --- what cannot go on ------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "other"),
    tiered(
        [
            ("rho", {"rho": 1.0}),
            ("num_steps", {"num_steps": 300}),
            ("seed", {"seed": 1}),
            ("explorer", {"explorer": "tracking"}),
            ("model", {"model": "posterior"}),
            ("states", {"states": int}),
            ("mu", {"mu": np.arange(1.0, 22.0).reshape(7, 3)}),
            ("until", {"until": rc.EveryPair(3)}),
            ("dataset_id", {"dataset_id": "another-v0"}),
            ("env", {"env": gym.make("FrozenLake-v1")}),
        ]
    ),
)
def test_a_collection_of_other_settings_is_not_gone_on_with(name, other, tmp_path):
    interrupted("a limit", tmp_path / "out", 100)
    before = contents(tmp_path / "out")
    asked = {"env": Failing(limited(5)), "rho": 2.0, "num_steps": 260, **LEARNED, **other}
    with pytest.raises(
        InvalidArgumentError, match=f"`({name}|arrays)` was .* when this collection was begun"
    ):
        rc.collect(asked.pop("env"), asked.pop("rho"), asked.pop("num_steps"), out=tmp_path / "out", resume=True,
                   **asked)  # fmt: skip
    assert contents(tmp_path / "out") == before


@pytest.mark.thorough
def test_other_weights_are_noticed(tmp_path):
    weights = np.ones((7, 3))
    env = Failing(Ring(), 100)
    with pytest.raises(EnvironmentFailedError):
        rc.collect(env, 2.0, 200, mu=weights, out=tmp_path / "out", **LEARNED)
    weights[3] = 2.0
    with pytest.raises(InvalidArgumentError, match="when this collection was begun"):
        rc.collect(Failing(Ring()), 2.0, 200, mu=weights, out=tmp_path / "out", resume=True, **LEARNED)


@pytest.mark.thorough
def test_where_there_is_no_collection_none_is_gone_on_with(tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"`resume`.*there is no collection in.*Leave resume out"):
        collect("a limit", tmp_path / "out", resume=True)
    assert not (tmp_path / "out").exists()


class Careless(gym.Wrapper):
    """Does not repeat itself: it cuts episodes by a generator that no seed reaches, another for each."""

    made = 0

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        Careless.made += 1
        self.luck = np.random.default_rng(Careless.made)

    def step(self, action):
        *rest, truncated, info = self.env.step(action)
        return (*rest, truncated or bool(self.luck.random() < 0.2), info)


@pytest.mark.thorough
def test_an_environment_that_does_not_repeat_itself_is_refused_and_the_log_is_kept(tmp_path):
    with pytest.raises(EnvironmentFailedError, match="the simulator is gone"):
        collect("a ring", tmp_path / "out", env=Failing(Careless(Ring()), 150))
    before = contents(tmp_path / "out")
    with pytest.raises(
        EnvironmentFailedError,
        match=r"cannot continue.*same seeds and actions.*does not return the same observations",
    ):
        collect("a ring", tmp_path / "out", env=Failing(Careless(Ring())), resume=True)
    assert contents(tmp_path / "out") == before


@pytest.mark.thorough
def test_copies_that_do_not_repeat_themselves_are_refused(tmp_path):
    def copies(at: int = 0) -> SyncVectorEnv:
        return SyncVectorEnv([lambda: Failing(Careless(Ring()), at), Ring])

    with pytest.raises(EnvironmentFailedError, match="the simulator is gone"):
        collect(copies(), tmp_path / "out", env=copies(80))
    before = contents(tmp_path / "out")
    with pytest.raises(
        EnvironmentFailedError,
        match=r"cannot continue.*differs from the stored steps.*is not reproducible.*or the processor has changed",
    ):
        collect(copies(), tmp_path / "out", env=copies(), resume=True)
    assert contents(tmp_path / "out") == before


@pytest.mark.thorough
def test_two_processes_do_not_collect_into_one_folder(tmp_path):
    def report(steps: int, num_steps: int) -> None:
        with pytest.raises(InvalidArgumentError, match=r"lock|another process|in use|is being"):
            collect("a limit", tmp_path / "out", resume=True, num_steps=70)

    collect("a limit", tmp_path / "out", report=report, num_steps=70)


# --- memories ---------------------------------------------------------------------------------------------


class Remembering(gym.Wrapper):
    """Counts how often it is stepped, together with the copies that are made of it."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.paper = paper = []
        self.write = lambda: paper.append(1)  # a function is not copied with the rest

    def step(self, action):
        self.write()
        return self.env.step(action)

    @property
    def num_steps(self) -> int:
        return len(self.paper)


def normalised() -> gym.Env:
    return gym.wrappers.NormalizeObservation(gym.make("MountainCar-v0", max_episode_steps=20))


NORMAL = {"states": rc.Bins((4, 4), low=-3.0, high=3.0)} | LEARNED


@pytest.mark.thorough
def test_a_wrapper_that_remembers_all_episodes_is_brought_back_by_stepping_everything_again(tmp_path):
    def run(env: gym.Env, out: Path, **more):
        return rc.collect(env, 2.0, 200, out=out, **NORMAL, **more)

    run(Failing(Remembering(normalised())), tmp_path / "whole")
    with pytest.raises(EnvironmentFailedError):
        run(Failing(Remembering(normalised()), 150), tmp_path / "out")
    again = Remembering(normalised())
    run(Failing(again), tmp_path / "out", resume=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert again.num_steps >= 200  # all of them, and those from the last seed that did not do


@pytest.mark.thorough
def test_an_environment_without_memory_is_brought_back_from_its_last_seed(tmp_path):
    """Between two seeds are 50 steps and the rest of an episode, at most 5: so many are stepped twice."""
    collect("a limit", tmp_path / "whole", env=Failing(Remembering(limited(5))))
    with pytest.raises(EnvironmentFailedError):
        collect("a limit", tmp_path / "out", env=Failing(Remembering(limited(5)), 150))
    again = Remembering(limited(5))
    collect("a limit", tmp_path / "out", env=Failing(again), resume=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert 260 - 149 <= again.num_steps <= 260 - 149 + 55


ODD = {
    "rewards that are not numbers": lambda: Ring(reward=lambda s, t: float("nan") if s == 3 else 1.0),
    "rewards in float32": lambda: Ring(reward=lambda s, t: np.float32(0.1) * s),
    "states in int8": lambda: Ring(shown=lambda s, t: np.int8(s)),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", ODD)
def test_odd_numbers_are_the_same_after_an_interruption(name, tmp_path):
    collect("a ring", tmp_path / "whole", env=Failing(ODD[name]()))
    with pytest.raises(EnvironmentFailedError, match="the simulator is gone"):
        collect("a ring", tmp_path / "out", env=Failing(ODD[name](), 150))
    collect("a ring", tmp_path / "out", env=Failing(ODD[name]()), resume=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


FINE = rc.Bins(10, low=0.0, high=1.0)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("first", "then"),
    tiered(
        [
            (np.float32, np.float32),
            (np.float64, np.float32),
            (np.float64, np.float64),
            (np.float32, np.float64),
        ]
    ),
)
def test_observations_finer_than_their_space_are_the_same_after_an_interruption(first, then, tmp_path):
    """Tenths are on the edges of the bins, and 0.7 is below 0.7 in float32: a cell is what the file says."""

    def fine() -> gym.Env:
        def shown(state: int, time: int):
            return np.array([state / 10], first if time == 0 else then)

        return Ring(shown, gym.spaces.Box(0.0, 1.0, (1,), np.float32))

    settings = {"states": FINE, "held_out": FINE} | LEARNED
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = rc.collect(Failing(fine()), 2.0, 260, out=tmp_path / "whole", **settings)
        again = rc.audit(found.path, 2.0, states=FINE)
        assert np.array_equal(again.counts, found.run.tally.over(again.tally.keys).counts)
        with pytest.raises(EnvironmentFailedError, match="the simulator is gone"):
            rc.collect(Failing(fine(), 150), 2.0, 260, out=tmp_path / "out", **settings)
        rc.collect(Failing(fine()), 2.0, 260, out=tmp_path / "out", resume=True, **settings)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
