"""Workers with environments of their own: one result whoever takes the legs, one part per leg, and one commit per round."""

from __future__ import annotations

import json
import os
import signal
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from toy_environments import Failing, Ring, contents, limited, nested_ring, place

import rhocover as rc
from rhocover.collecting import legs, rounds
from rhocover.datasets.collection.manifest import load_manifest, load_part, spaces_of_manifest
from rhocover.environments.encoding.watching import Watch
from rhocover.environments.sources import is_import_name
from rhocover.errors import CheckpointWarning, EnvironmentFailedError, InvalidArgumentError, WorkerError
from rhocover.exploring.worlds.legs import leg_seed
from tiers import tiered

LEARNED = {"model": "learned"}
STEPS, WORKERS = 1024, 4


@pytest.fixture(autouse=True)
def short_legs(monkeypatch):
    monkeypatch.setattr(rounds, "SHORTEST_LEG", 32)


def small_pendulum() -> gym.Env:
    return gym.make("Pendulum-v1", max_episode_steps=50)


def angle(observation) -> int:
    return int(4 * observation[0]) + 10 * int(4 * observation[1])


CASES = {
    "a known lake": ("FrozenLake-v1", {}),
    "a learned lake": ("FrozenLake-v1", LEARNED),
    "from scratch": ("FrozenLake-v1", {"model": "from_scratch"}),
    "bins": ("MountainCar-v0", {"states": rc.Bins((12, 11))} | LEARNED),
    "a net": ("MountainCar-v0", {"states": rc.Net(0.05)} | LEARNED),
    "a net of its own radius": ("MountainCar-v0", {"states": rc.Net()} | LEARNED),
    "a function": (small_pendulum, {"states": angle, "actions": 3} | LEARNED),
    "held out, repeated": (
        small_pendulum,
        {"states": rc.Bins((4, 4, 4)), "held_out": rc.Bins((6, 6, 6)), "actions": 3, "repeat": 2} | LEARNED,
    ),
    "by name": ("toy_environments:limited", LEARNED),
    "a Dict": (nested_ring, {"states": place} | LEARNED),
    "maxent": (Ring, {"explorer": "maxent"} | LEARNED),
    "algorithm1": (Ring, {"explorer": "algorithm1_short"} | LEARNED),
    "a rule": (Ring, {"mu": "transition_std"} | LEARNED),
    "rho = inf": ("FrozenLake-v1", {"rho": float("inf")}),
}


class Here:
    """Runs calls in this process; some of the first tries are lost, or all from the `after`-th on."""

    def __init__(self, *, every: int = 0, after: int = 1 << 60) -> None:
        self.every, self.after, self.number = every, after, 0

    def submit(self, function, *args):
        future: Future = Future()
        self.number += 1
        if (self.every and self.number % self.every == 0) or self.number >= self.after:
            future.set_exception(RuntimeError("lost"))
        else:
            future.set_result(function(*args))
        return future


class Backwards:
    """Keeps the calls of a round until the last one is there, and makes them in the opposite order."""

    def __init__(self) -> None:
        self.waiting: list = []

    def submit(self, function, *args):
        future: Future = Future()
        self.waiting.append((future, function, args))
        if len(self.waiting) == WORKERS:
            for first, call, own in reversed(self.waiting):
                first.set_result(call(*own))
            self.waiting = []
        return future


def collect(case: str, out: Path, *, maker=None, **more):
    env, settings = CASES[case]
    given = {"rho": 2.0, "num_steps": STEPS, "workers": WORKERS} | settings | more
    return rc.collect(env if maker is None else maker, out=out, **given)


# --- one result ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", tiered(CASES, short=["a known lake", "a net"]))
def test_the_files_are_the_same_whoever_takes_the_legs(case, tmp_path):
    """Here; in the opposite order; and where every third leg is lost and taken again."""
    found = collect(case, tmp_path / "here")
    assert found.num_steps == STEPS
    whole = contents(tmp_path / "here")
    for name, executor in {"backwards": Backwards(), "lost": Here(every=3)}.items():
        collect(case, tmp_path / name, executor=executor)
        assert contents(tmp_path / name) == whole


@pytest.mark.thorough
@pytest.mark.parametrize("case", ["a known lake", "a net", "a function", "by name", "a Dict"])
def test_the_files_are_the_same_in_other_processes(case, tmp_path):
    collect(case, tmp_path / "here")
    with rc.engines.process(2) as engine:
        collect(case, tmp_path / "there", executor=engine)
    with ThreadPoolExecutor(3) as threads:
        collect(case, tmp_path / "threads", executor=threads)
    assert contents(tmp_path / "here") == contents(tmp_path / "there") == contents(tmp_path / "threads")


@pytest.mark.parametrize("case", tiered(CASES, short=["a net"]))
def test_explore_counts_what_collect_stores(case, tmp_path):
    """The counts of the run, of the same run without files, and of the parts, read with the last code."""
    env, settings = CASES[case]
    found = collect(case, tmp_path / "out")
    run = rc.explore(env, **({"rho": 2.0, "num_steps": STEPS, "workers": WORKERS} | settings))
    assert run.tally.keys == found.run.tally.keys
    np.testing.assert_array_equal(run.tally.counts, found.run.tally.counts)
    assert run.num_steps == run.tally.num_steps == STEPS
    counted = found.tally.over(run.tally.keys)
    np.testing.assert_array_equal(counted.counts, run.tally.counts)
    assert (counted.moves != run.tally.moves).nnz == 0
    assert found.tally.num_truncated == run.tally.num_truncated


def test_the_number_of_workers_and_the_seed_decide(tmp_path):
    runs = [
        rc.explore("FrozenLake-v1", 2, 512, workers=w, seed=s) for w, s in ((4, 0), (2, 0), (4, 1), (4, 0))
    ]
    counts = [run.tally.counts.tolist() for run in runs]
    assert counts[0] == counts[3]
    assert counts[0] != counts[1]
    assert counts[0] != counts[2]


def test_every_round_of_coverage_shares_the_deficit(monkeypatch):
    """With 1/8 for each of 8 workers; searches for something new are not shared."""
    shares = []
    kept = rounds.share_of

    def counted(behaviour, workers):
        shares.append(workers)
        return kept(behaviour, workers)

    monkeypatch.setattr(rounds, "share_of", counted)
    rc.explore("FrozenLake-v1", 2, 2048, workers=8)
    assert set(shares) == {8}


@pytest.mark.parametrize(("model", "bound"), [("known", 0.2), ("learned", 0.06)])
def test_workers_come_close_to_the_best_where_all_is_reached_soon(model, bound, monkeypatch):
    """Ten runs each: 0.016 above the best with a standard deviation of 0.025, and 0.022 with 0.004.

    Both bounds are more than 7 standard deviations away: a probability below 1e-6.
    """
    monkeypatch.setattr(rounds, "SHORTEST_LEG", 256)  # as it is outside of these tests
    run = rc.explore("FrozenLake-v1", 2, 16_384, workers=8, model=model, seed=1)
    assert run.is_complete
    assert run.divergence - run.best.divergence < bound


# --- the parts -------------------------------------------------------------------------------------------


def test_a_leg_is_one_part_that_begins_with_a_reset_and_ends_truncated(tmp_path):
    collect("a learned lake", tmp_path / "out")
    manifest = load_manifest(tmp_path / "out")
    spaces, seen = spaces_of_manifest(manifest), []
    for part in manifest.parts:
        rows = load_part(tmp_path / "out", part, spaces)
        assert rows.step[0] == 0
        assert rows.terminated[-1] != rows.truncated[-1]
        assert rows.seed[0] == leg_seed(0, part.env, part.round)
        assert (rows.env == part.env).all()
        np.testing.assert_array_equal(np.unique(rows.episode), rows.t[rows.step == 0])
        seen.append(rows.t)
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(STEPS))
    by_round = {
        number: [p.env for p in manifest.parts if p.round == number] for number in range(manifest.num_rounds)
    }
    assert manifest.num_rounds > 4
    assert all(envs == list(range(WORKERS)) for envs in by_round.values())


def test_the_manifest_grows_by_whole_rounds(tmp_path, monkeypatch):
    written = []
    write = rounds.write_manifest

    def noted(folder, manifest):
        written.append(len(manifest.parts))
        write(folder, manifest)

    monkeypatch.setattr(rounds, "write_manifest", noted)
    collect("a known lake", tmp_path / "out")
    assert written == list(range(WORKERS, written[-1] + 1, WORKERS))


def test_a_part_that_the_manifest_does_not_name_does_not_count(tmp_path):
    """What a killed run left of a round, and what another run wrote over it, is removed on resuming."""
    collect("a known lake", tmp_path / "whole")
    with pytest.raises(WorkerError):
        collect("a known lake", tmp_path / "out", executor=Here(after=11))
    assert len(load_manifest(tmp_path / "out").parts) == 8
    stray = tmp_path / "out" / "parts" / "part-0003-000002.parquet"
    stray.write_bytes(b"half of a part")
    collect("a known lake", tmp_path / "out", resume=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


# --- interrupted -----------------------------------------------------------------------------------------


class Counting(gym.Wrapper):
    """Counts the steps of all its instances; the process is killed at step `at`."""

    steps, at = 0, -1

    def step(self, action):
        Counting.steps += 1
        if Counting.steps == Counting.at:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.env.step(action)


def counted_lake() -> gym.Env:
    return Counting(gym.make("FrozenLake-v1"))


def counted_car() -> gym.Env:
    return Counting(gym.make("MountainCar-v0"))


KILLED = {"a known lake": counted_lake, "a learned lake": counted_lake, "a net": counted_car}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("case", "at"),
    tiered([(case, at) for case in KILLED for at in (1, 130, 400, 777, 1023)], short=[("a net", 400)]),
)
def test_a_killed_collection_goes_on_to_the_same_files_and_steps_one_round_again(case, at, tmp_path):
    maker, rollout = KILLED[case], 1000 if case == "a net" else 0  # steps that fit the net
    collect(case, tmp_path / "whole", maker=maker)
    child = os.fork()
    if child == 0:
        Counting.steps, Counting.at = 0, at + rollout
        collect(case, tmp_path / "out", maker=maker)
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    stored = load_manifest(tmp_path / "out").num_steps
    Counting.steps, Counting.at = 0, -1
    collect(case, tmp_path / "out", maker=maker, resume=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert Counting.steps == STEPS - stored + rollout
    assert at - stored <= max(WORKERS * 32, STEPS // 8) + WORKERS * 32


def test_a_leg_that_fails_for_good_leaves_whole_rounds(tmp_path):
    collect("a learned lake", tmp_path / "whole")
    with pytest.raises(WorkerError, match=r"leg . of the round after step \d+ failed .* 4 times"):
        collect("a learned lake", tmp_path / "out", executor=Here(after=15))
    assert load_manifest(tmp_path / "out").num_steps == 3 * WORKERS * 32
    collect("a learned lake", tmp_path / "out", resume=True, executor=Here())
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_a_damaged_part_is_taken_again(tmp_path):
    collect("a known lake", tmp_path / "whole")
    with pytest.raises(WorkerError):
        collect("a known lake", tmp_path / "out", executor=Here(after=15))
    (tmp_path / "out" / "parts" / "part-0002-000001.parquet").write_bytes(b"damaged")
    with pytest.warns(CheckpointWarning, match="part-0002-000001"):
        collect("a known lake", tmp_path / "out", resume=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_an_environment_that_fails_is_told_with_its_leg(tmp_path):
    with pytest.raises(
        EnvironmentFailedError, match=r"the simulator is gone.* in leg 0 of the round after step 0"
    ):
        rc.collect(lambda: Failing(limited(), 9), 2, 256, out=tmp_path / "out", workers=2, **LEARNED)
    assert load_manifest(tmp_path / "out").num_steps == 0


# --- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "arguments", "words"),
    [
        ("FrozenLake-v1", {"workers": 0}, "`workers` must be at least 1"),
        ("FrozenLake-v1", {"workers": 3}, "`num_steps` must be a multiple of workers=3"),
        ("FrozenLake-v1", {"workers": 2, "executor": 3}, "`executor` must have a method submit"),
        ("FrozenLake-v1", {"executor": Here()}, "`executor` runs the legs of several `workers`"),
        ("FrozenLakes-v1", {"workers": 2}, "Gymnasium cannot make it"),
        ("no_such_module:make", {"workers": 2}, "cannot be imported"),
        ("toy_environments:nothing", {"workers": 2}, "cannot be imported"),
        (lambda: 3, {"workers": 2}, "must return a Gymnasium environment"),
        (Ring(), {"workers": 2}, "a function that makes one"),
        (3, {"workers": 2}, "a function that makes one"),
        ("MountainCar-v0", {"workers": 2, "states": rc.Net(of=rc.LearnedFeatures())} | LEARNED, "cannot be learned"),
        ("MountainCar-v0", {"workers": 2, "states": rc.Bins(4), "held_out": rc.Net(1.0)} | LEARNED, "cannot be a net"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused_before_anything_is_written(env, arguments, words, tmp_path):
    if "workers" not in arguments:
        env = gym.make(env)
    with pytest.raises(InvalidArgumentError) as caught:
        rc.collect(env, 2, 1000, out=tmp_path / "out", **arguments)
    assert words in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_vector_and_workers_are_refused():
    with pytest.raises(InvalidArgumentError, match="`world` cannot be a vector with `workers`"):
        rc.explore(gym.make_vec("FrozenLake-v1", num_envs=2), 2, 1000, workers=2)


def test_what_cannot_be_sent_to_processes_is_refused_at_the_door(tmp_path):
    with rc.engines.process(1) as engine:
        given = {"workers": 2, "executor": engine, **LEARNED}
        with pytest.raises(InvalidArgumentError, match=r"`env` .* cannot be sent to other processes"):
            rc.collect(lambda: Ring(), 2, 128, out=tmp_path / "out", **given)
        with pytest.raises(InvalidArgumentError, match=r"`states` .* cannot be sent to other processes"):
            rc.collect("FrozenLake-v1", 2, 128, out=tmp_path / "out", states=lambda o: o, **given)


def test_another_number_of_workers_is_another_collection(tmp_path):
    with pytest.raises(WorkerError):
        collect("a known lake", tmp_path / "out", executor=Here(after=6))
    with pytest.raises(InvalidArgumentError, match="`workers` was 4 when this collection was begun"):
        collect("a known lake", tmp_path / "out", workers=2, resume=True)


# --- the pieces ------------------------------------------------------------------------------------------


def test_names_to_import_are_no_ids():
    assert is_import_name("package.module:make")
    assert not is_import_name("module:Lake-v1")
    assert not is_import_name("FrozenLake-v1")
    assert not is_import_name("module:")


def test_watches_add_up():
    """What several have seen, added in order, has the length, the first places and about the sample of one."""
    code = rc.Bins((4,), low=0, high=1).code(gym.spaces.Box(0, 1, (1,)))
    points = np.random.default_rng(0).random((30_000, 1))
    whole = Watch(code, code)
    whole.see_all(points)
    total = Watch(code, code)
    for some in np.array_split(points, 7):
        one = Watch(code, code, total.stride)
        one.see_all(some)
        total.add(one.watched())
    assert total.num_seen == whole.num_seen == 30_000
    assert total.stride == whole.stride
    assert total.watched().first == whole.watched().first
    assert abs(len(total.watched().kept) - len(whole.watched().kept)) <= 7


def test_what_is_beyond_a_net_is_filed_as_if_one_net_had_met_it_all():
    """In the order of the workers; the keys are those of the finished net."""
    points = [np.random.default_rng(k).random((200, 2)) for k in range(3)]
    net, one = rc.Net(0.2).fit(points[0]), rc.Net(0.2).fit(points[0])
    found = [legs._keys_of(net, some) for some in points]  # all by the net before the round
    keys = []
    for known, beyond, met in found:
        both = [*known, *net.keys_of(beyond).tolist()]
        keys.append([both[k] for k in met.tolist()])
    assert keys == [one.keys(some).tolist() for some in points]
    assert keys == [net.keys(some, grows=False).tolist() for some in points]


@pytest.mark.thorough
def test_the_datasheet_tells_the_workers_and_repeats_the_call(tmp_path, real_pages):
    found = collect("a known lake", tmp_path / "out")
    assert found.datasheet["settings"]["workers"] == WORKERS
    assert f"workers={WORKERS}" in found.datasheet["repeat"]
    assert "workers" in found.page.read_text("utf-8")
    assert json.loads((tmp_path / "out" / "datasheet.json").read_text("utf-8"))
