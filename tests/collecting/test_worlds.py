"""Acting in single environments: what is counted is what happened, whoever explores."""

from __future__ import annotations

import json
import math
from collections import Counter
from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from toy_environments import (
    ANGLE,
    CAR,
    NUM_ACTIONS,
    NUM_STATES,
    POLE,
    Counted,
    Ring,
    limited,
    moves_of,
    moves_of_run,
    nested_ring,
    place,
    visits_of,
)

import rhocover as rc
from rhocover.environments.encoding import read_state_code
from rhocover.environments.table_model import read_table
from rhocover.errors import InvalidArgumentError
from rhocover.exploring.belief.learned import Learned
from rhocover.exploring.explorers.registry import explorer_names, make_explorer
from tiers import tiered

TABLES = {
    "FrozenLake-v1": {},
    "FrozenLake8x8-v1": {},
    "CliffWalking-v1": {},
    "CliffWalkingSlippery-v1": {},
    "Taxi-v4": {},
    "a short FrozenLake": {"id": "FrozenLake-v1", "max_episode_steps": 4},
    "a certain FrozenLake": {"id": "FrozenLake-v1", "is_slippery": False},
}


def table_environment(name: str) -> Counted:
    return Counted(gym.make(**{"id": name, **TABLES[name]}))


def known_run(name: str, num_steps: int = 3000, **settings):
    env = table_environment(name)
    return env, rc.explore(env, 2.0, num_steps, **settings)


def keys_of(env: gym.Env, run) -> list[int]:
    """Returns the environment's number of each state of the model that a run acted in."""
    return read_table(env).states[run.problem.question.states].tolist()


# --- a known table ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", tiered(TABLES))
def test_with_a_table_every_transition_is_counted_where_it_happened_and_ends_lead_to_the_next_start(name):
    env, run = known_run(name)
    by_hand = Counter(moves_of(env.paper))
    assert moves_of_run(run, keys_of(env, run)) == by_hand
    assert by_hand.total() == run.num_steps == 3000
    counted = dict(zip(keys_of(env, run), run.counts.tolist(), strict=True))
    for (state, action), number in visits_of(by_hand).items():
        assert counted[state][action] == number
    assert run.visits.sum() == 3000


@pytest.mark.parametrize("name", tiered(TABLES))
def test_the_environment_is_seeded_first_and_reset_only_after_ends(name):
    env, _ = known_run(name, seed=11)
    assert env.paper[0][:2] == ("reset", 11)
    for before, after in pairwise(env.paper):
        over = before[0] == "step" and (before[3] or before[4])
        assert (after[0] == "reset") == over
        assert after[0] == "step" or after[1] is None  # 3000 steps are fewer than those between two seeds


def test_a_time_limit_is_not_an_end():
    """In four steps the goal is out of reach: cuts would be counted as moves to the start if taken for ends."""
    env, run = known_run("a short FrozenLake")
    cut = [entry for entry in env.paper if entry[0] == "step" and entry[4] and not entry[3]]
    assert len(cut) > 100
    ended = [(*entry[:3], True, entry[4]) if entry in cut else entry for entry in env.paper]
    assert moves_of_run(run, keys_of(env, run)) == Counter(moves_of(env.paper)) != Counter(moves_of(ended))


@pytest.mark.parametrize("name", ["FrozenLake-v1", "Taxi-v4"])
def test_the_same_seed_gives_the_same_bits_and_another_seed_other_ones(name):
    (one, first), (two, second) = known_run(name, seed=3), known_run(name, seed=3)
    other, third = known_run(name, seed=4)
    assert one.paper == two.paper != other.paper
    assert np.array_equal(first.moves, second.moves)
    assert not np.array_equal(first.moves, third.moves)
    assert all(np.array_equal(first.trace[c], second.trace[c], equal_nan=True) for c in ("divergence", "gap"))


@pytest.mark.parametrize(
    "explorer", tiered(["feedback", "tracking", "stationary", "algorithm1", "algorithm1_short"])
)
@pytest.mark.parametrize("rho", tiered([0.0, 1.0, math.inf]))
def test_explorers_that_know_the_table_count_the_same_way(explorer, rho):
    env = table_environment("FrozenLake-v1")
    run = rc.explore(env, rho, 2000, explorer=explorer)
    assert moves_of_run(run, keys_of(env, run)) == Counter(moves_of(env.paper))


def test_weights_and_rules_go_with_a_table():
    weights = np.zeros((11, 4))
    weights[[3, 7]] = 1.0
    env = table_environment("FrozenLake-v1")
    run = rc.explore(env, 2.0, 4000, mu=weights)
    assert run.trace.num_weighted == 8
    assert rc.explore(env, 2.0, 1000, mu="transition_std").num_steps == 1000
    assert rc.explore(env, 2.0, 1000, mu=lambda e: np.ones(e.num_pairs)).num_steps == 1000


def test_a_run_with_a_table_may_end_early():
    env = table_environment("FrozenLake-v1")
    run = rc.explore(env, 2.0, 100_000, until=rc.EveryPair(5))
    assert run.is_enough
    assert run.visits.min() >= 5
    assert run.num_steps == len([entry for entry in env.paper if entry[0] == "step"]) < 20_000


class Elsewhere(gym.Wrapper):
    """Is not what its table says: an action moves further than it should."""

    def step(self, action):
        self.env.step(action)
        return self.env.step(action)


def test_an_environment_that_leaves_its_table_is_refused():
    env = Elsewhere(gym.make("CliffWalking-v1", max_episode_steps=200))
    with pytest.raises(rc.errors.EnvironmentFailedError, match=r'its own table.*model="learned"'):
        rc.explore(env, 2.0, 3000)


class OneWay(gym.Env):
    """Begins in state 0, which is left for ever; no episode ends."""

    P = {  # noqa: RUF012
        s: {a: [(1.0, max(1, (s + a + 1) % 3), 0.0, False)] for a in range(2)} for s in range(3)
    }

    def __init__(self):
        self.observation_space, self.action_space = spaces.Discrete(3), spaces.Discrete(2)
        self.initial_state_distrib = np.array([1.0, 0.0, 0.0])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = 0
        return 0, {}

    def step(self, action):
        self.state = self.P[self.state][int(action)][0][1]
        return self.state, 0.0, False, False, {}


def test_a_start_that_is_never_visited_again_is_refused_for_what_it_is():
    """The model has no room for it, and the environment is not to blame."""
    with pytest.raises(InvalidArgumentError, match="start"):
        rc.explore(OneWay(), 2.0, 200)


# --- states that appear as they are met -------------------------------------------------------------------


WORLDS = {
    "FrozenLake": lambda: (Counted(gym.make("FrozenLake-v1")), {}),
    "CliffWalking": lambda: (Counted(gym.make("CliffWalking-v1")), {}),
    "Taxi": lambda: (Counted(gym.make("Taxi-v4")), {}),
    "MountainCar": lambda: binned("MountainCar-v0", CAR),
    "Pendulum": lambda: binned("Pendulum-v1", ANGLE, actions=3),
    "CartPole": lambda: binned("CartPole-v1", POLE),
    "a ring with a limit": lambda: (Counted(limited(5)), {}),
}


def binned(name: str, bins: rc.Bins, **settings):
    env = gym.make(name)
    key = read_state_code(bins, env.observation_space).key
    return Counted(env, key), {"states": bins, **settings}


@pytest.mark.parametrize("world", tiered(WORLDS))
def test_without_a_table_every_transition_is_counted_where_it_happened(world):
    env, settings = WORLDS[world]()
    run = rc.explore(env, 2.0, 1500, model="learned", **settings)
    by_hand = Counter(moves_of(env.paper))
    assert moves_of_run(run) == by_hand
    assert by_hand.total() == run.num_steps == run.tally.num_steps == 1500
    met = {key for state, _, after in by_hand for key in (state, after)}
    assert set(run.tally.keys) == met
    assert run.num_states_met == len(met)


def test_states_are_numbered_in_the_order_in_which_they_are_met():
    env = Counted(gym.make("FrozenLake-v1"))
    run = rc.explore(env, 2.0, 800, model="learned")
    order = dict.fromkeys(key for s, _, after in moves_of(env.paper) for key in (s, after))
    assert run.tally.keys == tuple(order)


ALLOWED = (
    "feedback", "tracking", "stationary", "algorithm1_short", "algorithm1_adaptive", "active_exploration",
    "fw_modest", "maxent", "uniform_random", "weighted_maxent",
)  # fmt: skip


@pytest.mark.parametrize("explorer", tiered(ALLOWED))
@pytest.mark.parametrize("world", tiered(["a ring with a limit", "MountainCar"]))
def test_every_explorer_that_can_counts_what_happened(explorer, world):
    env, settings = WORLDS[world]()
    run = rc.explore(env, 2.0, 700, model="learned", explorer=explorer, **settings)
    assert moves_of_run(run) == Counter(moves_of(env.paper))
    assert run.num_steps == 700
    assert run.explorer == explorer


def test_algorithm_1_explores_where_its_first_episode_fits():
    env, settings = WORLDS["a ring with a limit"]()
    run = rc.explore(
        env, 2.0, 3000, model="learned", explorer="algorithm1", schedule="constant:200", **settings
    )
    assert moves_of_run(run) == Counter(moves_of(env.paper))


@pytest.mark.parametrize(
    "explorer", [name for name in explorer_names() if name not in (*ALLOWED, "algorithm1")]
)
def test_explorers_that_need_a_model_or_episodes_of_their_own_are_refused(explorer):
    assert not getattr(make_explorer(explorer), "in_environments", False)
    with pytest.raises(InvalidArgumentError, match=rf"`explorer` '{explorer}' needs a model.*from_gymnasium"):
        rc.explore(Ring(), 2.0, 500, model="learned", explorer=explorer)


@pytest.mark.parametrize("rho", tiered([0.0, 1.0, 2.0, math.inf], short=[2.0]))
@pytest.mark.parametrize("model", tiered(["learned", "posterior", "from_scratch"]))
def test_any_rho_and_any_way_to_learn(rho, model):
    env = Counted(limited(6))
    run = rc.explore(env, rho, 1200, model=model)
    assert moves_of_run(run) == Counter(moves_of(env.paper))
    assert run.is_complete
    assert run.rho == rho


@pytest.mark.parametrize("explorer", ["feedback", "maxent", "uniform_random"])
def test_the_same_seed_gives_the_same_run_and_another_seed_another_one(explorer):
    papers = []
    for seed in (0, 0, 1):
        env = Counted(Ring())
        rc.explore(env, 2.0, 900, model="learned", explorer=explorer, seed=seed)
        papers.append(env.paper)
    assert papers[0] == papers[1] != papers[2]


def test_weights_by_key_say_where_to_go():
    """All weight on one state: feedback returns there whenever it can, so it has most visits."""
    weights = np.zeros((NUM_STATES, NUM_ACTIONS))
    weights[4] = 1.0
    aimed = rc.explore(Ring(), 2.0, 4000, mu=weights, model="learned")
    plain = rc.explore(Ring(), 2.0, 4000, model="learned")
    share = [r.tally.counts[r.tally.number_of[4]].sum() / 4000 for r in (aimed, plain)]
    assert share[0] > share[1] + 0.05
    assert aimed.trace.num_weighted == NUM_ACTIONS


def test_a_rule_by_name_or_as_a_function_says_the_weights():
    for mu in ("transition_std", "model_error", lambda estimate: 1.0 + np.arange(estimate.num_pairs)):
        env = Counted(Ring())
        run = rc.explore(env, 2.0, 900, mu=mu, model="learned")
        assert moves_of_run(run) == Counter(moves_of(env.paper))


def test_weights_of_another_shape_are_refused():
    with pytest.raises(InvalidArgumentError, match=r"`mu`.*\(7, 3\)"):
        rc.explore(Ring(), 2.0, 100, mu=np.ones((6, 3)), model="learned")
    with pytest.raises(InvalidArgumentError, match=r"`mu`.*non-negative"):
        rc.explore(Ring(), 2.0, 100, mu=-np.ones((7, 3)), model="learned")
    with pytest.raises(InvalidArgumentError, match="`mu` as an array needs numbered states"):
        rc.explore(Ring(), 2.0, 100, mu=np.ones((7, 3)), states=int, model="learned")


def test_a_run_ends_early_when_every_pair_that_was_met_has_its_visits():
    env = Counted(Ring())
    run = rc.explore(env, 2.0, 50_000, model="learned", until=rc.EveryPair(8))
    visits = visits_of(Counter(moves_of(env.paper)))
    assert run.is_enough
    assert len(visits) == NUM_STATES * NUM_ACTIONS
    assert min(visits.values()) >= 8
    assert run.num_steps == sum(visits.values()) < 5000


def test_an_environment_as_only_many_steps_see_it_is_not_declared_done_too_early():
    """One far state: `EveryPair` must not be met while the explorer is on errands to what may be missing."""
    run = rc.explore(gym.make("CliffWalking-v1"), 2.0, 40_000, model="learned", until=rc.EveryPair(2))
    assert run.is_enough
    assert run.num_states_met == 37


@pytest.mark.parametrize(
    "explorer", tiered(["feedback", "tracking", "uniform_random", "maxent", "algorithm1_short"])
)
def test_how_fast_the_machine_is_changes_nothing(explorer, monkeypatch):
    """Steps are taken in stretches of about a tenth of a second; a slow machine takes the shortest ones."""
    papers = []
    for longest in (1 << 14, 16):
        monkeypatch.setattr("rhocover.collecting.stepping.LONGEST", longest)
        env = Counted(limited(6))
        rc.explore(env, 2.0, 1500, model="learned", explorer=explorer)
        papers.append(env.paper)
    assert papers[0] == papers[1]


# --- what can be said afterwards --------------------------------------------------------------------------


UNKNOWING = {
    "feedback": {"model": "learned"},
    "without errands": {"model": Learned(discovery=False)},
    "at random, with a function": {"model": "learned", "explorer": "uniform_random", "states": int},
}


@pytest.mark.parametrize("name", UNKNOWING)
def test_nothing_is_certified_where_states_may_be_missing(name):
    """30,000 steps on seven states would certify a small gap if it were known that there is no eighth one."""
    run = rc.explore(Ring(), 2.0, 30_000, **UNKNOWING[name])
    found = run.certificate()
    assert found.gap == math.inf
    assert "set of states is not known" in found.condition
    assert run.evidence().least_steps != math.inf


@pytest.mark.parametrize("name", UNKNOWING)
def test_a_certified_gap_is_refused_where_states_may_be_missing(name):
    with pytest.raises(InvalidArgumentError, match="CertifiedGap"):
        rc.explore(Ring(), 2.0, 30_000, until=rc.CertifiedGap(0.05), **UNKNOWING[name])


def test_a_small_model_error_ends_a_run():
    run = rc.explore(Ring(), 2.0, 30_000, model="learned", until=rc.SmallModelError(0.5))
    assert run.is_enough
    assert run.num_steps < 10_000


@pytest.mark.parametrize("num_steps", tiered([1, 2, 600]))
@pytest.mark.parametrize("world", tiered(["FrozenLake", "MountainCar", "a ring with a limit"]))
def test_a_run_can_be_asked_everything_however_short_it_was(world, num_steps, tmp_path):
    env, settings = WORLDS[world]()
    run = rc.explore(env, 2.0, num_steps, model="learned", **settings)
    assert json.loads(json.dumps(run.summary()))["coverage"] == run.coverage_text
    assert str(num_steps) in str(run)
    assert run.counts.sum() + run.num_outside == num_steps
    assert run.certificate().gap >= 0
    assert run.evidence().num_steps == num_steps
    assert run.least_visited[1] >= 0
    run.save(tmp_path / "run.safetensors")


def test_without_cuts_the_identity_of_regret_holds_to_rounding():
    """Visits, moves, first and last state and prices belong together: one miscounted step would show."""
    for env, settings in ((Ring(), {"model": "learned"}), (gym.make("CliffWalking-v1"), {})):
        run = rc.explore(env, 2.0, 3000, **settings)
        assert run.is_complete
        assert run.identity_error() < 1e-11


# --- functions as states ----------------------------------------------------------------------------------


FUNCTIONS = {
    "whole numbers": (lambda: Ring(), lambda o: int(o) // 2),
    "NumPy's whole numbers": (lambda: Ring(), lambda o: np.int32(o)),
    "texts": (lambda: Ring(), lambda o: "ABCDEFG"[o]),
    "tuples": (lambda: Ring(), lambda o: (int(o) % 2, "ab"[int(o) // 4])),
    "a Dict": (nested_ring, place),
    "a Tuple": (lambda: nested_ring(is_tuple=True), place),
    "Blackjack": (lambda: gym.make("Blackjack-v1"), lambda o: tuple(int(part) for part in o)),
}


@pytest.mark.parametrize("name", tiered(FUNCTIONS))
@pytest.mark.parametrize("explorer", tiered(["feedback", "maxent"]))
def test_a_function_of_the_users_names_the_states(name, explorer):
    make, states = FUNCTIONS[name]
    env = Counted(make(), states)
    run = rc.explore(env, 2.0, 700, states=states, model="learned", explorer=explorer)
    assert moves_of_run(run) == Counter(moves_of(env.paper))


def test_keys_that_are_equal_are_one_state():
    run = rc.explore(Ring(), 2.0, 300, states=lambda o: 0, model="learned")
    assert run.tally.keys == (0,)
    assert run.tally.counts.sum() == 300


# --- what has no meaning here -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [{"start": 0}, {"discount": 0.9}, {"horizon": 5}, {"restrict": True}, {"num_chains": 2}, {"out": "x"}],
    ids=lambda settings: next(iter(settings)),
)
def test_what_belongs_to_models_is_refused(settings, elsewhere):
    with pytest.raises(InvalidArgumentError, match=f"`{next(iter(settings))}` is only for models"):
        rc.explore(gym.make("FrozenLake-v1"), 2.0, 100, **settings)
    assert not list((elsewhere / "here").iterdir())


def test_what_is_no_environment_is_refused():
    with pytest.raises(
        InvalidArgumentError, match="`world` must be an MDP or a Gymnasium environment, got int"
    ):
        rc.explore(3, 2.0, 100)


def test_an_environment_without_a_table_points_to_learning():
    for env, states in ((gym.make("MountainCar-v0"), None), (Ring(), None)):
        with pytest.raises(InvalidArgumentError, match=r'no table.*model="learned"'):
            rc.explore(env, 2.0, 100, states=states)
    with pytest.raises(InvalidArgumentError, match=r'encoded by `states` has no table.*model="learned"'):
        rc.explore(gym.make("FrozenLake-v1"), 2.0, 100, states=int)


def test_numbers_without_states_are_refused_with_the_way_out():
    with pytest.raises(InvalidArgumentError, match=r"observation space Box.*Pass states=rc.Bins\(8\)"):
        rc.explore(gym.make("MountainCar-v0"), 2.0, 100, model="learned")
    with pytest.raises(InvalidArgumentError, match=r"no finite low bound.*low="):
        rc.explore(gym.make("CartPole-v1"), 2.0, 100, states=rc.Bins(3), model="learned")
    with pytest.raises(InvalidArgumentError, match=r"action space Box.*Pass actions="):
        rc.explore(gym.make("Pendulum-v1"), 2.0, 100, states=ANGLE, model="learned")


@pytest.mark.parametrize("seed", range(3))
def test_every_pair_of_a_slippery_lake_is_tried_though_some_are_far(seed):
    """By targets after 10,000 to 23,000 steps; a search step by step needed 33,000 to 133,000 here."""
    found = rc.explore(gym.make("FrozenLake8x8-v1"), 2.0, 32_000, model="learned", seed=seed)
    assert np.count_nonzero(found.counts) == 53 * 4
