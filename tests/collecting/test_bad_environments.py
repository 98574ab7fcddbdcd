"""Environments that break their contract are named, with the step; what was seen before is kept."""

from __future__ import annotations

import contextlib
import decimal
import re
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from toy_environments import Counted, Failing, Ring, contents, limited, nested_ring, place, visits_of_tally

import rhocover as rc
from rhocover.datasets.collection.manifest import load_manifest
from rhocover.datasets.collection.source import open_collection
from rhocover.errors import EnvironmentFailedError, InvalidArgumentError, RhocoverError
from tiers import tiered

LEARNED = {"model": "learned"}
BOX = spaces.Box(0.0, 10.0, (2,), np.float32)
BINS = rc.Bins(10)


def ring(shown=None, space=None, **more) -> Ring:
    return Ring(shown, space, **more)


def late(good, bad, at: int = 40):
    """Returns what an environment shows: the good thing before its step number `at`, then the bad one."""
    return lambda s, t: bad(s) if t >= at else good(s)


def array(s: int):
    return np.array([s, s], np.float32)


def stored_steps(out) -> int:
    return load_manifest(out).num_steps


# --- what an environment shows ----------------------------------------------------------------------------


NUMBERS = {
    "too large": (lambda s: 7, "7.*outside its space: expected 0 to 6"),
    "negative": (lambda s: -1, "-1.*outside its space: expected 0 to 6"),
    "a float": (lambda s: 1.5, "1.5.*expected a whole number from 0 to 6"),
    "a whole float": (lambda s: 1.0, "1.0.*expected a whole number from 0 to 6"),
    "nothing": (lambda s: None, "None.*expected a whole number"),
    "a text": (lambda s: "3", "'3'.*expected a whole number"),
    "an array": (lambda s: np.array([s]), "array.*expected a whole number"),
    "not a number": (lambda s: float("nan"), "nan.*expected a whole number"),
}
ARRAYS = {
    "outside": (lambda s: np.array([11, 0], np.float32), "11"),
    "not a number": (lambda s: np.array([np.nan, 0], np.float32), "nan"),
    "infinite": (lambda s: np.array([np.inf, 0], np.float32), "inf"),
    "too few": (lambda s: np.zeros(1, np.float32), r"\(1,\)|1 number|2 numbers"),
    "too many": (lambda s: np.zeros(3, np.float32), r"\(3,\)|3 numbers|2 numbers|shape"),
    "one number": (lambda s: 1.0, "1.0|number"),
    "nothing": (lambda s: None, "None|2 numbers"),
    "a text": (lambda s: "here", "here|str"),
}


@pytest.mark.parametrize(
    "name",
    tiered(list(NUMBERS)),
)
def test_a_state_that_cannot_be_is_named_with_its_step(name, tmp_path):
    bad, message = NUMBERS[name]
    env = ring(late(int, bad))
    with pytest.raises(EnvironmentFailedError, match=f"(?s)after 40 steps.*{message}"):
        rc.collect(env, 2.0, 200, out=tmp_path / "out", **LEARNED)
    assert stored_steps(tmp_path / "out") == 39
    rc.collect(ring(), 2.0, 200, out=tmp_path / "out", resume=True, **LEARNED)  # mended


@pytest.mark.parametrize(
    "name",
    tiered(list(ARRAYS)),
)
def test_numbers_that_cannot_be_are_named_with_their_step(name, tmp_path):
    bad, message = ARRAYS[name]
    with pytest.raises(EnvironmentFailedError, match=rf"(?s)(after|step) (39|40).*({message})"):
        rc.collect(ring(late(array, bad), BOX), 2.0, 200, states=BINS, out=tmp_path / "out", **LEARNED)
    assert stored_steps(tmp_path / "out") == 39
    rc.collect(
        ring(lambda s, t: array(s), BOX), 2.0, 200, states=BINS, out=tmp_path / "out", resume=True, **LEARNED
    )


@pytest.mark.parametrize("name", ["outside", "negative", "nothing"])
def test_a_first_state_that_cannot_be_is_named(name):
    bad = {"outside": 7, "negative": -1, "nothing": None}[name]
    with pytest.raises(EnvironmentFailedError, match=f"after 0 steps.*{bad}"):
        rc.explore(ring(lambda s, t: bad), 2.0, 100, **LEARNED)


@pytest.mark.parametrize("name", ["too few", "one number"])
def test_a_shape_that_is_not_the_spaces_is_never_stretched_to_fit(name, tmp_path):
    """NumPy would fill a row with one number; a function that asks only for the first never notices."""
    bad = {"too few": lambda s: np.full(1, s, np.float32), "one number": lambda s: np.float32(s)}[name]
    env = ring(late(array, bad), BOX)
    with pytest.raises(EnvironmentFailedError):
        rc.collect(env, 2.0, 200, states=lambda o: int(np.ravel(o)[0]), out=tmp_path / "out", **LEARNED)
    assert stored_steps(tmp_path / "out") <= 40


def test_numbers_that_do_not_fit_their_type_are_never_wrapped_around(tmp_path):
    """300 in a byte would be 44."""
    space = spaces.Box(0, 255, (1,), np.uint8)
    env = ring(late(lambda s: np.array([s], np.uint8), lambda s: np.array([s + 300])), space)
    with pytest.raises(EnvironmentFailedError):
        rc.collect(env, 2.0, 200, states=lambda o: int(o[0]) % 256 % 44, out=tmp_path / "out", **LEARNED)


def test_a_decimal_that_no_integer_type_holds_is_refused(tmp_path):
    env = ring(late(int, lambda s: decimal.Decimal("1e500")))
    with pytest.raises(EnvironmentFailedError, match="do not fit into one array"):
        rc.collect(env, 2.0, 200, states=lambda o: int(o) % 7, out=tmp_path / "out", **LEARNED)


GOOD = {
    "Python's": lambda s, t: s,
    "bool": lambda s, t: s if s > 1 else bool(s),
    "int8": lambda s, t: np.int8(s),
    "int64": lambda s, t: np.int64(s),
    "uint64": lambda s, t: np.uint64(s),
    "an array without axes": lambda s, t: np.array(s),
}


@pytest.mark.parametrize("name", tiered(GOOD))
def test_whole_numbers_of_any_kind_are_states(name, tmp_path):
    found = rc.collect(ring(GOOD[name]), 2.0, 200, out=tmp_path / "out", **LEARNED)
    plain = rc.collect(ring(), 2.0, 200, out=tmp_path / "plain", **LEARNED)
    assert visits_of_tally(found.tally) == visits_of_tally(plain.tally)
    assert all(type(key) is int for key in found.run.tally.keys)
    assert visits_of_tally(rc.audit(found.path, 2.0).tally) == visits_of_tally(found.tally)


# --- buffers ----------------------------------------------------------------------------------------------


def reused_array():
    buffer = np.zeros(2, np.float32)

    def shown(s: int, t: int):
        buffer[:] = s, t % 10
        return buffer

    return ring(shown, BOX), {"states": BINS}


def reused_number():
    buffer = np.zeros((), np.int64)

    def shown(s: int, t: int):
        buffer[...] = s
        return buffer

    return ring(shown), {}


def reused_point():
    buffer = np.zeros((), np.float32)

    def shown(s: int, t: int):
        buffer[...] = s
        return buffer

    return ring(shown, spaces.Box(0.0, 10.0, (), np.float32)), {"states": lambda o: int(o)}


BUFFERS = {
    "an array": (reused_array, lambda: (ring(lambda s, t: np.array([s, t % 10], np.float32), BOX), {"states": BINS})),
    "a number": (reused_number, lambda: (ring(), {})),
    "a point": (
        reused_point,
        lambda: (ring(lambda s, t: np.array(s, np.float32), spaces.Box(0.0, 10.0, (), np.float32)), {"states": int}),
    ),
    "a Dict": (
        lambda: (nested_ring(reuses=True), {"states": place}), lambda: (nested_ring(), {"states": place}),
    ),
    "a Tuple": (
        lambda: (nested_ring(reuses=True, is_tuple=True), {"states": place}),
        lambda: (nested_ring(is_tuple=True), {"states": place}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", tiered(BUFFERS))
def test_an_environment_that_uses_one_buffer_for_ever_is_stored_step_by_step(name, tmp_path):
    found = []
    for number, make in enumerate(BUFFERS[name]):
        env, settings = make()
        one = rc.collect(env, 2.0, 200, out=tmp_path / str(number), **settings, **LEARNED)
        found.append([leaves(episode.observations) for episode in open_collection(one.path).episodes()])
    reused, plain = found
    assert len(reused) == len(plain) > 5
    for a, b in zip(reused, plain, strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def leaves(observations) -> list:
    if isinstance(observations, dict):
        return list(observations.values())
    return list(observations) if isinstance(observations, tuple) else [observations]


class Scribbling(gym.Wrapper):
    """Writes into the action that it is given."""

    def step(self, action):
        with contextlib.suppress(ValueError):  # it is read-only
            action *= 0
        return self.env.step(action)


def test_an_environment_that_writes_into_its_actions_changes_nothing_but_itself(tmp_path):
    angle = rc.Bins(5, low=-8.0, high=8.0, of=2)
    found = rc.collect(
        Scribbling(gym.make("Pendulum-v1")),
        2.0,
        200,
        states=angle,
        actions=3,
        out=tmp_path / "out",
        **LEARNED,
    )
    actions = np.concatenate([e.actions for e in open_collection(found.path).episodes()])
    assert set(actions.ravel().tolist()) == {-2.0, 0.0, 2.0}


# --- rewards, ends and infos ------------------------------------------------------------------------------


REWARDS = {
    "not a number": (lambda s, t: float("nan"), [np.nan]),
    "infinite": (lambda s, t: float("inf"), [np.inf]),
    "whole": (lambda s, t: 3, [3.0]),
    "true": (lambda s, t: True, [1.0]),
    "float32": (lambda s, t: np.float32(0.1), [float(np.float32(0.1))]),
    "an array without axes": (lambda s, t: np.array(2.5), [2.5]),
    "an array of one": (lambda s, t: np.array([2.5], np.float32), [2.5]),
}


@pytest.mark.parametrize("name", tiered(REWARDS))
def test_rewards_that_are_numbers_are_stored(name, tmp_path):
    reward, wanted = REWARDS[name]
    found = rc.collect(ring(reward=reward), 2.0, 100, out=tmp_path / "out", **LEARNED)
    rewards = np.concatenate([e.rewards for e in open_collection(found.path).episodes()])
    assert rewards.dtype == np.float64
    assert np.array_equal(np.unique(rewards), wanted, equal_nan=True)


@pytest.mark.parametrize("reward", tiered([None, "much", "1.5", b"1", np.ones(2), {"a": 1}, 1j]), ids=repr)
def test_rewards_that_are_no_numbers_are_refused_with_their_step(reward, tmp_path):
    env = ring(reward=lambda s, t: reward if t >= 40 else 0.0)
    with pytest.raises(EnvironmentFailedError, match="reward"):
        rc.collect(env, 2.0, 100, out=tmp_path / "out", **LEARNED)
    assert 0 < stored_steps(tmp_path / "out") <= 39


class Spoiled(gym.Wrapper):
    """Changes what a step returns by a function of the five."""

    def __init__(self, env: gym.Env, change) -> None:
        super().__init__(env)
        self.change = change

    def step(self, action):
        return self.change(*self.env.step(action))


def test_ends_may_be_numpys_truths_or_numbers(tmp_path):
    plain = rc.collect(limited(5), 2.0, 200, out=tmp_path / "plain", **LEARNED)
    for number, kind in enumerate((np.bool_, int, np.array)):
        env = Spoiled(limited(5), lambda o, r, e, c, i, kind=kind: (o, r, kind(e), kind(c), i))
        found = rc.collect(env, 2.0, 200, out=tmp_path / str(number), **LEARNED)
        ends, others = (
            [(e.terminations.tolist(), e.truncations.tolist()) for e in open_collection(one.path).episodes()]
            for one in (found, plain)
        )
        assert ends == others


@pytest.mark.parametrize("info", tiered([None, 3, "well", [], {}]), ids=repr)
def test_infos_are_nobodys_business(info, tmp_path):
    env = Spoiled(limited(5), lambda o, r, e, c, i: (o, r, e, c, info))
    assert rc.collect(env, 2.0, 100, out=tmp_path / "out", **LEARNED).num_steps == 100


def test_an_environment_of_the_old_gym_is_refused(tmp_path):
    """Four values from a step, one from a reset: the contract before Gymnasium."""
    with pytest.raises(EnvironmentFailedError, match=r"(?s)stepping after 0 steps.*unpack"):
        rc.explore(Spoiled(Ring(), lambda o, r, e, c, i: (o, r, e or c, i)), 2.0, 100, **LEARNED)

    class Old(Ring):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=seed)[0]

    with pytest.raises(EnvironmentFailedError, match="being reset after 0 steps"):
        rc.explore(Old(), 2.0, 100, **LEARNED)


def test_an_environment_that_takes_no_seed_is_refused():
    class Unseeded(Ring):
        def reset(self):
            return 0, {}

    with pytest.raises(EnvironmentFailedError, match=r"being reset after 0 steps.*seed"):
        rc.explore(Unseeded(), 2.0, 100, **LEARNED)


# --- raising ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [1, 2, 17, 100])
@pytest.mark.parametrize("in_reset", [False, True])
def test_an_environment_that_raises_is_named_with_its_step_and_its_error(at, in_reset):
    env = Counted(Failing(limited(4), at, in_reset=in_reset, error=KeyError("joint")))
    what = "being reset" if in_reset else "stepping"
    with pytest.raises(
        EnvironmentFailedError, match=rf"raised while {what} after (\d+) steps?: KeyError: 'joint'"
    ) as e:
        rc.explore(env, 2.0, 200, **LEARNED)
    taken = sum(entry[0] == "step" for entry in env.paper)
    assert int(re.findall(r"after (\d+) step", str(e.value))[0]) == taken
    assert isinstance(e.value.__cause__, KeyError)
    assert isinstance(e.value, RhocoverError)


def test_a_function_that_fails_is_named():
    def states(observation):
        return 1 // (observation - 3)

    with pytest.raises(RhocoverError, match=r"(?s)states.*failed on the observation.*ZeroDivisionError"):
        rc.explore(Ring(), 2.0, 200, states=states, **LEARNED)


@pytest.mark.parametrize("value", [np.nan, [1], {1}, np.array([1]), (1, [2]), object], ids=repr)
def test_a_function_that_gives_no_key_is_refused(value):
    with pytest.raises(RhocoverError, match="must return a hashable value"):
        rc.explore(Ring(), 2.0, 200, states=lambda o: value, **LEARNED)


# --- ends, early and never --------------------------------------------------------------------------------


def test_an_environment_that_ends_at_every_first_step(tmp_path):
    env = Counted(Ring(ending=2.0))
    found = rc.collect(env, 2.0, 150, out=tmp_path / "out", **LEARNED)
    assert set(found.run.tally.keys) == {0, 1}
    assert found.audit.tally.num_episodes == 150
    assert rc.audit(found.path, 2.0).tally.num_episodes == 150


def test_an_environment_that_never_ends(tmp_path):
    env = Counted(Ring(ending=-1.0))
    found = rc.collect(env, 2.0, 500, out=tmp_path / "out", **LEARNED)
    assert sum(entry[0] == "reset" for entry in env.paper) == 1
    (episode,) = open_collection(found.path).episodes()
    assert episode.truncations.tolist() == [False] * 499 + [True]
    assert not episode.terminations.any()


def test_an_environment_with_one_state_and_one_action(tmp_path):
    class Still(Ring):
        def __init__(self) -> None:
            super().__init__(lambda s, t: 0, spaces.Discrete(1))
            self.action_space = spaces.Discrete(1)

    found = rc.collect(Still(), 2.0, 60, out=tmp_path / "out", **LEARNED)
    assert found.audit.counts.tolist() == [[60]]


@pytest.mark.parametrize("num_steps", tiered([1, 2]))
@pytest.mark.parametrize("explorer", tiered(["feedback", "maxent", "uniform_random", "tracking"]))
def test_one_step_is_a_collection(num_steps, explorer, tmp_path):
    found = rc.collect(Ring(), 2.0, num_steps, explorer=explorer, out=tmp_path / "out", **LEARNED)
    assert found.num_steps == rc.audit(found.path, 2.0).num_steps == num_steps


def test_actions_that_do_not_begin_at_zero(tmp_path):
    for first in (-4, 1, 100):
        found = rc.collect(Ring(first_action=first), 2.0, 150, out=tmp_path / str(first), **LEARNED)
        actions = np.concatenate([e.actions for e in open_collection(found.path).episodes()])
        assert set(actions.tolist()) == {first, first + 1, first + 2}
        assert rc.audit(found.path, 2.0).counts.sum() == 150


def test_states_that_do_not_begin_at_zero(tmp_path):
    env = ring(lambda s, t: s - 3, spaces.Discrete(7, start=-3))
    found = rc.collect(env, 2.0, 150, out=tmp_path / "out", **LEARNED)
    assert set(found.run.tally.keys) == set(range(-3, 4))
    assert visits_of_tally(rc.audit(found.path, 2.0).tally) == visits_of_tally(found.tally)


# --- what is no environment, or too much of one -----------------------------------------------------------


@pytest.mark.parametrize(
    "env",
    [None, 3, "FrozenLake-v1", Ring, object(), rc.envs.river_swim()],
    ids=lambda env: type(env).__name__,
)
def test_what_is_no_environment_is_refused(env, tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"`env` must be a Gymnasium environment, got .*Make one"):
        rc.collect(env, 2.0, 100, out=tmp_path / "out", **LEARNED)
    assert not (tmp_path / "out").exists()


def test_spaces_that_no_code_knows_are_refused(tmp_path):
    graph = spaces.Graph(spaces.Discrete(2), None)
    with pytest.raises(
        InvalidArgumentError, match=r"has no numbered values. Pass states=str, or `states` as a function"
    ):
        rc.explore(ring(space=graph), 2.0, 100, **LEARNED)
    text = ring(lambda s, t: "abcdefg"[s], spaces.Text(1))
    assert rc.explore(text, 2.0, 100, states=lambda o: o, **LEARNED).num_steps == 100
    with pytest.raises(InvalidArgumentError, match=r"(?i)text|numbers"):  # Minari's files hold numbers
        rc.collect(ring(lambda s, t: "abcdefg"[s], spaces.Text(1)), 2.0, 100, states=lambda o: o,
                   out=tmp_path / "out", **LEARNED)  # fmt: skip


@pytest.mark.parametrize("explorer", tiered(["feedback", "maxent", "uniform_random"]))
def test_many_possible_states_cost_nothing_before_they_are_met(explorer, tmp_path):
    """10^15 cells, of which a ring meets seven: a table of all would not fit into any machine."""
    env = ring(lambda s, t: array(s), BOX)
    bins = rc.Bins((1000,) * 5, low=0.0, high=10.0, of=lambda o: [*o, *o, o[0]])
    found = rc.collect(env, 2.0, 120, states=bins, explorer=explorer, out=tmp_path / "out", **LEARNED)
    assert found.audit.tally.num_states == 7
    assert rc.audit(found.path, 2.0, states=bins).counts.sum() == 120


@pytest.mark.parametrize(
    "name",
    tiered(
        [
            "Größe",
            "_",
            "世界",
            "a" * 300,
            "Ring.v2",
        ]
    ),
    ids=["umlauts", "no letter", "no Latin letter", "many letters", "a dot"],
)
def test_an_environment_of_a_name_that_no_id_may_have_gets_one_all_the_same(name, tmp_path):
    env = type(name, (Ring,), {})()
    found = rc.collect(env, 2.0, 60, out=tmp_path / "out", **LEARNED)
    assert found.path.is_dir()
    assert rc.audit(found.path, 2.0).num_steps == 60


def test_warnings_of_an_environment_are_left_alone(tmp_path):
    class Warning(gym.Wrapper):
        def step(self, action):
            warnings.warn("a joint is loose", UserWarning, stacklevel=2)
            return self.env.step(action)

    with pytest.warns(UserWarning, match="a joint is loose"):
        assert rc.explore(Warning(Ring()), 2.0, 50, **LEARNED).num_steps == 50


def test_a_failed_collection_says_what_it_holds_and_nothing_more(tmp_path):
    with pytest.raises(EnvironmentFailedError, match="The steps before are kept"):
        rc.collect(Failing(Ring(), 50), 2.0, 100, out=tmp_path / "out", **LEARNED)
    part = "part-0000-000000-000049.parquet"
    assert set(contents(tmp_path / "out")) == {"manifest.json", "parts", f"parts/{part}"}
    assert stored_steps(tmp_path / "out") == 49


# --- what would pass unheard ------------------------------------------------------------------------------


class Answering(gym.Wrapper):
    """Answers its steps from number 30 on with one entry changed; `place` is that of the entry."""

    def __init__(self, place: int, value, env=None) -> None:
        super().__init__(Ring(ending=-1.0) if env is None else env)
        self.place, self.value, self.num_steps = place, value, 0

    def step(self, action):
        self.num_steps += 1
        result = list(self.env.step(action))
        if self.num_steps >= 30:
            result[self.place] = self.value
        return tuple(result)


class AnsweringCopies(gym.vector.VectorWrapper):
    """The same for copies: every reward, or every end, is the value."""

    def __init__(self, place: int, value) -> None:
        super().__init__(gym.vector.SyncVectorEnv([Ring, Ring]))
        self.place, self.value, self.num_calls = place, value, 0

    def step(self, actions):
        self.num_calls += 1
        result = list(self.env.step(actions))
        if self.num_calls >= 15:
            result[self.place] = [self.value] * 2
        return tuple(result)


@pytest.mark.parametrize("kind", [Answering, AnsweringCopies])
@pytest.mark.parametrize("value", [10**400, -(10**400), "1.5"], ids=["large", "negative", "a text"])
def test_a_reward_that_no_float_holds_is_refused(kind, value, tmp_path):
    with pytest.raises(
        EnvironmentFailedError,
        match=r"returned (an integer of 1329 bits|'1.5') as a reward, expected a number",
    ):
        rc.collect(kind(1, value), 2.0, 80, out=tmp_path / "out", **LEARNED)
    assert 0 < stored_steps(tmp_path / "out") <= 30


@pytest.mark.parametrize("value", [None, "False", 3])
def test_an_end_of_a_copy_that_is_neither_true_nor_false_is_refused(value, tmp_path):
    with pytest.raises(EnvironmentFailedError, match=r"returned terminated = .*expected True or False"):
        rc.collect(AnsweringCopies(2, value), 2.0, 80, out=tmp_path / "out", **LEARNED)
    assert 0 < stored_steps(tmp_path / "out") <= 30


@pytest.mark.parametrize(
    "value",
    tiered(["yes", "False", "", None, 2, 0.5, float("nan"), [], pytest.param(()), np.ones(2)]),
    ids=repr,
)
@pytest.mark.parametrize("place", tiered([2, 3]))
def test_an_end_that_is_neither_true_nor_false_is_refused(place, value, tmp_path):
    """The text "False" is true for Python, and None is false."""
    name = {2: "terminated", 3: "truncated"}[place]
    with pytest.raises(EnvironmentFailedError, match=f"returned {name} = .*expected True or False"):
        rc.collect(Answering(place, value), 2.0, 80, out=tmp_path / "out", **LEARNED)
    assert 0 < stored_steps(tmp_path / "out") < 30


@pytest.mark.parametrize(
    "value", tiered([np.bool_(False), 0, np.int8(0), 0.0, np.array(False), np.array([0])]), ids=repr
)
def test_what_is_as_good_as_false_is_false(value, tmp_path):
    found = rc.collect(Answering(2, value), 2.0, 80, out=tmp_path / "out", **LEARNED)
    assert found.tally.num_episodes == 1


@pytest.mark.parametrize("error", tiered([SystemExit(3), SystemExit("bye"), GeneratorExit()]), ids=repr)
@pytest.mark.parametrize("in_reset", tiered([False, True]))
def test_an_environment_that_exits_has_failed_and_what_was_collected_is_kept(error, in_reset, tmp_path):
    env = Failing(Ring(), 30, in_reset=in_reset, error=error)
    with pytest.raises(EnvironmentFailedError, match=f"{type(error).__name__}.*The steps before are kept"):
        rc.collect(env, 2.0, 80, out=tmp_path / "out", **LEARNED)
    assert stored_steps(tmp_path / "out") >= 29
    rc.collect(Ring(), 2.0, 80, out=tmp_path / "out", resume=True, **LEARNED)


def test_a_space_that_no_column_holds_is_refused_before_anything_is_written(tmp_path):
    env = Ring(lambda s, t: "abcdefg"[s], spaces.Text(1))
    with pytest.raises(InvalidArgumentError, match="the space of `observations` is Text"):
        rc.collect(env, 2.0, 80, states=lambda o: o, out=tmp_path / "out", **LEARNED)
    assert not (tmp_path / "out").exists()
