"""The visits of a wrapper are a tally: their audit is that of the same transitions handed over as arrays."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from wrapper_worlds import NUM_ACTIONS, limited

import rhocover as rc
from rhocover.datasets import Tally, read_tally
from rhocover.datasets.states import num_unmet
from rhocover.errors import InvalidDataError

BINS = rc.Bins((6, 5), low=(-1.2, -0.07), high=(0.6, 0.07))
WORLDS: dict[str, tuple[Any, dict[str, Any], int]] = {
    "numbers": (limited, {}, 700),
    "few steps": (limited, {}, 9),
    "bins": (lambda: car(), {"states": BINS}, 1000),
    "bins of a function": (
        lambda: car(),
        {"states": rc.Bins(7, low=-1.2, high=0.6, of=lambda observation: observation[0])},
        1000,
    ),
}


def car() -> gym.Env:
    """Returns a car whose space has no bounds: arrays know of none, and bounds are in the names of bins."""
    space = gym.spaces.Box(-np.inf, np.inf, (2,))
    env = gym.make("MountainCar-v0", max_episode_steps=150)
    return gym.wrappers.TransformObservation(env, lambda observation: observation, space)


def walked(wrapper: Any, name: str) -> tuple[Any, dict[str, np.ndarray]]:
    """Returns an environment after a walk at random, and its transitions as columns."""
    make, settings, num_steps = WORLDS[name]
    env, rng, rows = wrapper(make(), **settings), np.random.default_rng(2), []
    state, _ = env.reset(seed=3)
    for number in range(num_steps):
        action = int(rng.integers(NUM_ACTIONS))
        after, _, terminated, truncated, _ = env.step(action)
        rows.append((state, action, after, terminated, truncated))
        state = after
        if (terminated or truncated) and number < num_steps - 1:
            state, _ = env.reset()
    names = ("s", "a", "s_next", "terminated", "truncated")
    columns = {
        column: np.array(values) for column, values in zip(names, zip(*rows, strict=True), strict=True)
    }
    return env, columns


def check_same(one: Tally, other: Tally) -> None:
    for name in (
        "keys",
        "num_actions",
        "num_steps",
        "num_episodes",
        "num_truncated",
        "num_jumps",
        "end_keys",
    ):
        assert getattr(one, name) == getattr(other, name), name
    for name in ("counts", "ends", "starts"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert (one.moves != other.moves).nnz == 0
    assert one.batch_length == other.batch_length
    assert np.array_equal(one.batches.toarray(), other.batches.toarray())
    assert [*map(one.pair_name, range(one.counts.size))] == [*map(other.pair_name, range(other.counts.size))]


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("wrapper", [rc.CountVisits, rc.CoverageReward])
def test_the_tally_is_that_of_the_transitions_as_arrays(name, wrapper):
    env, columns = walked(wrapper, name)
    check_same(env.visits, read_tally(columns, num_actions=NUM_ACTIONS, states=WORLDS[name][1].get("states")))


@pytest.mark.filterwarnings("ignore:The codes are too coarse")
@pytest.mark.parametrize("name", WORLDS)
def test_the_audit_is_that_of_the_transitions_as_arrays(name):
    """To the last bit: figures, gap, certificate, error bars, verdict."""
    env, columns = walked(rc.CountVisits, name)
    found = rc.audit(env.visits)
    same = rc.audit(columns, num_actions=NUM_ACTIONS, states=WORLDS[name][1].get("states"))
    renamed = {"source": None, "codes": None}  # a wrapper keeps no sample of the observations
    assert found.summary() | renamed == same.summary() | renamed
    assert found.verdict == same.verdict
    assert found.occupancy.tobytes() == same.occupancy.tobytes()
    assert [pair.name for pair in found.thin] == [pair.name for pair in same.thin]


def test_what_an_end_showed_is_no_state_but_known():
    """So a bin in which episodes end is not taken for one that nobody found."""
    env = rc.CountVisits(car(), states=BINS)
    env.reset(seed=0)
    env.unwrapped.state = np.array([0.49, 0.06])
    env.step(2)
    (end,) = env.visits.end_keys
    assert end not in env.visits.keys
    assert num_unmet(env.visits) == 6 * 5 - 2  # the start is known, and the end


def test_an_audit_of_nothing_is_refused():
    with pytest.raises(InvalidDataError, match="Wanderer has no transitions"):
        rc.audit(rc.CountVisits(limited()).visits)


def test_visits_of_a_vector_are_audited_like_those_of_its_sub_environments():
    envs = rc.CountVisitsVector(SyncVectorEnv([limited] * 2))
    singles = [rc.CountVisits(limited()) for _ in range(2)]
    envs.reset(seed=5)
    for number, single in enumerate(singles):
        single.reset(seed=5 + number)
    rng, was_over = np.random.default_rng(0), np.zeros(2, bool)
    for _ in range(300):
        actions = rng.integers(NUM_ACTIONS, size=2)
        _, _, terminated, truncated, _ = envs.step(actions)
        for number, single in enumerate(singles):
            single.reset() if was_over[number] else single.step(actions[number])
        was_over = terminated | truncated
    both = singles[0].visits + singles[1].visits
    found, same = rc.audit(envs.visits), rc.audit(both)
    assert (found.divergence, found.worst_ratio, found.gap) == (same.divergence, same.worst_ratio, same.gap)
    assert found.certificate == same.certificate


def test_visits_can_be_pickled_where_the_states_are_a_function():
    """Learners have their sub-environments in other processes, and ask them for their visits."""
    env, _ = walked(rc.CountVisits, "bins of a function")
    check_same(pickle.loads(pickle.dumps(env.visits)), env.visits)


def test_an_episode_that_began_is_counted_before_its_first_step():
    """Arrays of transitions cannot say so; the wrapper has seen it."""
    env = rc.CountVisits(limited())
    for _ in range(3):
        env.reset(seed=1)
    assert (env.visits.num_episodes, env.visits.num_steps, env.visits.num_states) == (3, 0, 1)


def test_visits_of_an_environment_and_a_model_made_from_it_are_told_to_pass_the_environment():
    """The model leaves holes and goal out and numbers the others from 0, so that its numbers are not the lake's."""
    env, actions = rc.CountVisits(gym.make("FrozenLake-v1")), np.random.default_rng(0).integers(4, size=300)
    env.reset(seed=0)
    for action in actions.tolist():
        if any(env.step(action)[2:4]):
            env.reset()
    with pytest.raises(InvalidDataError, match=r"pass the environment, model=env\. Is it data of another"):
        rc.audit(env.visits, model=rc.MDP.from_gymnasium(env), best=False)
    assert rc.audit(env.visits, model=env, best=False).counts.sum() == 300


def test_dimensions_of_actions_are_named_apart_from_those_of_states():
    rng = np.random.default_rng(0)
    data = rng.random((300, 2)), rng.normal(size=(300, 2)), rng.random((300, 2)), np.zeros(300, bool)
    names = rc.audit(data, states=rc.Bins(2, low=0, high=1), actions=2, best=False).tally
    assert names.state_name(0).startswith("(x0 ")
    assert names.action_names[0].startswith("(a0 below ")
