"""Vector environments: many copies, three ways to begin anew, one set of counts.

Copies step together and a run ends in the middle of a round, so some copies have taken a step that is not
counted: each at most its last one, and not all of them, as the last step counted is some copy's last. So
with n copies the counts are those made by hand inside of the copies less at most n - 1 steps, and what is
missing are last steps. A call that only resets a copy is nobody's step.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from toy_environments import (
    ANGLE,
    CAR,
    POLE,
    Counted,
    Ring,
    limited,
    moves_of,
    moves_of_run,
    nested_ring,
    place,
    visits_of,
    visits_of_tally,
)

import rhocover as rc
from rhocover.environments.encoding import read_state_code
from rhocover.errors import EnvironmentFailedError, InvalidArgumentError
from tiers import tiered

MODES = list(AutoresetMode)


def papers_of(env: gym.vector.VectorEnv) -> list[list[tuple]]:
    return list(env.call("get_paper"))  # type: ignore[attr-defined]


def uncounted(papers: list[list[tuple]], counted: Counter) -> Counter:
    """Returns what was done and not counted; refuses what was counted and not done."""
    done: Counter = Counter()
    for paper in papers:
        done.update(moves_of(paper))
    missing = done.copy()
    missing.subtract(counted)
    assert min(missing.values(), default=0) >= 0, "counted and never done"
    return +missing


def check_counts(run, papers: list[list[tuple]]) -> Counter:
    """Checks the relation above, and returns what is missing."""
    missing = uncounted(papers, moves_of_run(run))
    last = Counter(found[-1] for paper in papers if (found := moves_of(paper)))
    assert missing <= last
    assert missing.total() <= len(papers) - 1
    assert run.num_steps == run.tally.num_steps
    return missing


def rings(mode: AutoresetMode, num: int = 3, limit: int = 6) -> SyncVectorEnv:
    return SyncVectorEnv([lambda: Counted(limited(limit))] * num, autoreset_mode=mode)


@pytest.mark.parametrize("mode", tiered(MODES))
@pytest.mark.parametrize("num_steps", tiered([1, 2, 3, 400, 401, 402]))
def test_the_counts_are_those_made_inside_the_copies_less_some_last_steps(mode, num_steps):
    env = rings(mode)
    run = rc.explore(env, 2.0, num_steps, model="learned")
    check_counts(run, papers_of(env))
    assert run.num_steps == num_steps


@pytest.mark.parametrize("mode", MODES)
def test_both_kinds_of_end_are_met_and_told_apart(mode):
    """With cuts taken for ends (or the other way round) the transitions would be other ones."""
    env = rings(mode)
    run = rc.explore(env, 2.0, 600, model="learned")
    papers = papers_of(env)
    steps = [entry for paper in papers for entry in paper if entry[0] == "step"]
    assert sum(entry[3] for entry in steps) > 20
    assert sum(entry[4] and not entry[3] for entry in steps) > 20
    check_counts(run, papers)
    wrong = [[(*e[:3], e[3] or e[4], False) if e[0] == "step" else e for e in paper] for paper in papers]
    with pytest.raises(AssertionError):
        check_counts(run, wrong)


@pytest.mark.parametrize("mode", MODES)
def test_copies_are_seeded_once_and_never_reset_without_need(mode):
    env = rings(mode)
    rc.explore(env, 2.0, 300, model="learned", seed=5)
    for number, paper in enumerate(papers_of(env)):
        assert paper[0][:2] == ("reset", 5 + number)
        for before, after in pairwise(paper):
            over = before[0] == "step" and (before[3] or before[4])
            assert (after[0] == "reset") == over
            assert after[0] == "step" or after[1] is None


def test_the_three_ways_to_begin_anew_give_the_same_transitions_for_the_same_copies():
    """A copy alone does the same whichever way it begins anew: its choices and its luck are the same."""
    found = []
    for mode in MODES:
        env = rings(mode, num=1)
        run = rc.explore(env, 2.0, 300, model="learned", explorer="tracking")
        assert not check_counts(run, papers_of(env))
        found.append(moves_of_run(run))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("mode", tiered(MODES))
@pytest.mark.parametrize("explorer", tiered(["uniform_random", "maxent", "tracking", "algorithm1_short"]))
def test_every_explorer_shares_the_counts_of_the_copies(mode, explorer):
    env = rings(mode)
    run = rc.explore(env, 2.0, 500, model="learned", explorer=explorer)
    check_counts(run, papers_of(env))


@pytest.mark.parametrize("mode", MODES)
def test_copies_that_end_at_every_step_are_counted(mode):
    env = SyncVectorEnv([lambda: Counted(Ring(ending=2.0))] * 2, autoreset_mode=mode)
    run = rc.explore(env, 2.0, 61, model="learned")
    check_counts(run, papers_of(env))
    assert set(run.tally.keys) == {0, 1}


@pytest.mark.parametrize("mode", MODES)
def test_copies_that_never_end_are_counted(mode):
    env = SyncVectorEnv([lambda: Counted(Ring(ending=-1.0))] * 2, autoreset_mode=mode)
    run = rc.explore(env, 2.0, 201, model="learned")
    assert check_counts(run, papers_of(env)).total() == 1  # 201 is odd: one copy is a step ahead


@pytest.mark.parametrize(
    ("name", "bins", "settings"),
    [("MountainCar-v0", CAR, {}), ("Pendulum-v1", ANGLE, {"actions": 3}), ("CartPole-v1", POLE, {})],
)
def test_binned_copies_are_counted(name, bins, settings):
    def make() -> gym.Env:
        env = gym.make(name, max_episode_steps=40)
        return Counted(env, read_state_code(bins, env.observation_space).key)

    env = SyncVectorEnv([make] * 3)
    run = rc.explore(env, 2.0, 500, states=bins, model="learned", **settings)
    check_counts(run, papers_of(env))


@pytest.mark.parametrize("mode", MODES)
def test_copies_in_processes_of_their_own_are_counted(mode):
    env = AsyncVectorEnv([lambda: Counted(limited(6))] * 2, autoreset_mode=mode)
    try:
        run = rc.explore(env, 2.0, 151, model="learned")
        check_counts(run, papers_of(env))
    finally:
        env.close()


def test_processes_and_loops_do_the_same():
    found = []
    for kind in (SyncVectorEnv, AsyncVectorEnv):
        env = kind([lambda: limited(6)] * 2)
        try:
            found.append(moves_of_run(rc.explore(env, 2.0, 200, model="learned")))
        finally:
            env.close()
    assert found[0] == found[1]


@pytest.mark.parametrize("explorer", ["feedback", "uniform_random"])
def test_how_fast_the_machine_is_changes_nothing(explorer, monkeypatch):
    found = []
    for longest in (1 << 14, 16):
        monkeypatch.setattr("rhocover.collecting.stepping.LONGEST", longest)
        env = rings(AutoresetMode.NEXT_STEP)
        rc.explore(env, 2.0, 900, model="learned", explorer=explorer)
        found.append(papers_of(env))
    assert found[0] == found[1]


class Watched(gym.vector.VectorWrapper):
    """Writes down what a vector environment with next-step resets did, copy by copy."""

    def __init__(self, env: gym.vector.VectorEnv, key) -> None:
        super().__init__(env)
        self.key = key
        self.papers: list[list[tuple]] = [[] for _ in range(env.num_envs)]

    def reset(self, *, seed=None, options=None):
        observations, infos = self.env.reset(seed=seed, options=options)
        for paper, seen in zip(self.papers, observations, strict=True):
            paper.append(("reset", seed, self.key(seen)))
        return observations, infos

    def step(self, actions):
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        for k, paper in enumerate(self.papers):
            key = self.key(observations[k])
            over = paper[-1][0] == "step" and (paper[-1][3] or paper[-1][4])
            done = ("step", int(actions[k]), key, bool(terminated[k]), bool(truncated[k]))
            paper.append(("reset", None, key) if over else done)
        return observations, rewards, terminated, truncated, infos


def native_poles(num: int = 4) -> Watched:
    env = gym.make_vec("CartPole-v1", num, vectorization_mode="vector_entry_point", max_episode_steps=15)
    assert env.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    return Watched(env, read_state_code(POLE, env.single_observation_space).key)


def test_an_environment_that_is_a_vector_by_nature_is_counted():
    env = native_poles()
    run = rc.explore(env, 2.0, 800, states=POLE, model="learned")
    check_counts(run, env.papers)
    cut = [e for paper in env.papers for e in paper if e[0] == "step" and e[4] and not e[3]]
    assert cut, "no time limit was met"


@pytest.mark.parametrize("mode", MODES)
def test_vectors_of_nested_observations_are_counted_or_refused_at_the_door(mode):
    env = SyncVectorEnv([lambda: Counted(nested_ring(), place)] * 2, autoreset_mode=mode)
    run = rc.explore(env, 2.0, 200, states=place, model="learned")
    check_counts(run, papers_of(env))


@pytest.mark.parametrize("is_tuple", [False, True])
def test_vectors_of_nested_observations_are_collected(is_tuple, tmp_path):
    env = SyncVectorEnv([lambda: nested_ring(is_tuple=is_tuple)] * 2)
    found = rc.collect(env, 2.0, 200, states=place, model="learned", out=tmp_path / "out")
    again = rc.audit(found.path, 2.0, states=place)
    assert visits_of_tally(again.tally) == visits_of(moves_of_run(found.run))


@pytest.mark.parametrize("mode", MODES)
def test_a_vector_that_reuses_its_arrays_is_counted_and_stored(mode, tmp_path):
    """`copy=False` hands out the buffer that the next step writes into."""

    def make() -> gym.Env:
        return limited(
            6, shown=lambda s, t: np.array([s, t % 9], np.float32), space=gym.spaces.Box(0, 9, (2,))
        )

    bins = rc.Bins((9, 9))
    found = [
        rc.collect(
            SyncVectorEnv([make] * 3, autoreset_mode=mode, copy=copy), 2.0, 300, states=bins, model="learned",
            out=tmp_path / str(copy),
        )
        for copy in (True, False)
    ]  # fmt: skip
    plain, reused = ([e.observations for e in _episodes(one)] for one in found)
    assert all(np.array_equal(a, b) for a, b in zip(plain, reused, strict=True))


def _episodes(found):
    from rhocover.datasets.collection.source import open_collection

    return list(open_collection(found.path).episodes())


def test_a_way_to_begin_anew_that_nobody_knows_is_refused():
    env = rings(AutoresetMode.NEXT_STEP)
    env.metadata = {"autoreset_mode": "sometimes"}
    with pytest.raises(
        InvalidArgumentError, match=r"autoreset_mode.*next_step, same_step, disabled.*sometimes"
    ):
        rc.explore(env, 2.0, 100, model="learned")


def test_a_vector_has_no_table():
    env = gym.make_vec("FrozenLake-v1", 2)
    with pytest.raises(InvalidArgumentError, match=r'vector environment has no table.*model="learned"'):
        rc.explore(env, 2.0, 100)


@pytest.mark.parametrize("mode", MODES)
def test_a_copy_that_shows_what_it_cannot_is_refused_with_its_step(mode):
    def make() -> gym.Env:
        return Ring(lambda s, t: 99 if t == 9 else s)

    env = SyncVectorEnv([make] * 2, autoreset_mode=mode, observation_mode="same")
    with pytest.raises(EnvironmentFailedError, match=r"after 1\d steps.*99"):
        rc.explore(env, 2.0, 100, model="learned")
