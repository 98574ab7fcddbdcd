"""Several workers that know of each other only between rounds: one result wherever they act, and close to the limit."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest
from exploring_models import problem_of

import rhocover as rc
from rhocover.exploring.runs import rounds
from rhocover.exploring.worlds import FlowCorrectedScore, LowestScore, SamplePolicy
from rhocover.exploring.worlds.legs import Round, leg_generator, share_of, take_leg
from rhocover.exploring.worlds.simulator import Simulator
from tiers import tiered

RIVER = rc.envs.river_swim()
EXPLORERS = ["feedback", "tracking", "stationary", "algorithm1", "uniform_random", "maxent"]


class Here:
    """Runs calls in this process, in the order that `order` gives to those of one round; may fail at some."""

    def __init__(self, fails=lambda number: False, error=RuntimeError) -> None:
        self.fails, self.error, self.number = fails, error, 0

    def submit(self, function, *args):
        future: Future = Future()
        self.number += 1
        if self.fails(self.number):
            future.set_exception(self.error("lost"))
        else:
            future.set_result(function(*args))
        return future


class Backwards:
    """Keeps the calls of a round until the last one is there, and answers them in the opposite order."""

    def __init__(self, workers) -> None:
        self.workers, self.waiting = workers, []

    def submit(self, function, *args):
        future: Future = Future()
        self.waiting.append((future, function, args))
        if len(self.waiting) == self.workers:
            for first, call, own in reversed(self.waiting):
                first.set_result(call(*own))
            self.waiting = []
        return future


def assert_same(run, other):
    np.testing.assert_array_equal(run.moves, other.moves)
    np.testing.assert_array_equal(run.last_states, other.last_states)
    for name in run.trace.columns:
        np.testing.assert_array_equal(run.trace[name], other.trace[name])


# --- one result ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model", tiered(["known", "learned", "posterior", "from_scratch"], short=["learned"])
)
@pytest.mark.parametrize("explorer", tiered(EXPLORERS))
def test_a_run_is_the_same_whoever_takes_the_legs(explorer, model):
    """Here, in threads, in the opposite order, and where every third leg is lost and taken again."""
    if explorer in ("algorithm1", "maxent", "uniform_random") and model == "from_scratch":
        pytest.skip("these know all states from the start")
    given = {"num_steps": 8_000, "explorer": explorer, "model": model, "workers": 8, "seed": 3}
    run = rc.explore(RIVER, **given)
    assert run.visits.sum() == run.moves.sum() == run.num_steps == 8_000
    with ThreadPoolExecutor(3) as threads:
        assert_same(run, rc.explore(RIVER, **given, executor=threads))
    assert_same(run, rc.explore(RIVER, **given, executor=Backwards(8)))
    assert_same(run, rc.explore(RIVER, **given, executor=Here(lambda number: number % 3 == 0)))


def test_a_leg_is_a_function_of_its_arguments():
    simulator, problem = Simulator(RIVER, np.eye(6)[0]), problem_of(RIVER, 2)
    rule = simulator.rule_of(SamplePolicy(problem.best.policy))
    legs = [take_leg(Round(simulator.arrays, rule, True, 5, 640, 1000), 2, 0) for _ in range(2)]
    assert legs[0].state == legs[1].state
    np.testing.assert_array_equal(legs[0].places, legs[1].places)
    np.testing.assert_array_equal(legs[0].times, legs[1].times)
    assert legs[0].times.sum() == 1000


def test_no_two_legs_have_the_same_random_numbers():
    keys = [(seed, slot, number) for seed in (0, 1) for slot in (0, 1, 2) for number in (0, 1, 2)]
    drawn = {float(leg_generator(*key).random()) for key in keys}
    assert len(drawn) == len(keys)


def test_the_legs_of_a_policy_are_the_simulator_with_their_random_numbers():
    """A second way to the same counts: the chain of `Simulator`, which steps with one generator."""
    simulator, problem = Simulator(RIVER, np.eye(6)[0]), problem_of(RIVER, 2)
    behaviour = SamplePolicy(problem.best.policy)
    leg = take_leg(Round(simulator.arrays, simulator.rule_of(behaviour), True, 5, 0, 70_000), 1, 0)
    position = simulator.begin(0)
    position.states[:], position.generator = 0, leg_generator(5, 1, 0)
    seen = rc.exploring.worlds.Visits.none(RIVER)
    simulator.advance(position, simulator.follow(behaviour), seen, 70_000)
    moves = np.zeros_like(seen.moves)
    moves[leg.places] = leg.times
    np.testing.assert_array_equal(moves, seen.moves)
    assert position.states[0] == leg.state


def test_the_shares_of_a_deficit_add_up_to_it():
    ones = np.ones(4)
    score = share_of(LowestScore(8 * ones, ones, ones), 4)
    assert isinstance(score, LowestScore)
    np.testing.assert_array_equal(4 * score.base, 8 * ones)
    np.testing.assert_array_equal(score.rate, ones)
    flow = share_of(FlowCorrectedScore(8 * ones, 4 * ones, ones, ones, ones, np.eye(2), 4, RIVER), 4)
    assert isinstance(flow, FlowCorrectedScore)
    np.testing.assert_array_equal((flow.offset, flow.moved), (2 * ones, ones))
    policy = SamplePolicy(ones)
    assert share_of(policy, 4) is policy


@pytest.mark.parametrize("until", [None, rc.EveryPair(100)])
def test_rounds_are_few(until, monkeypatch):
    """At most 45 of them double t, and the last halves need some more; a rule is looked at between rounds."""
    taken = []
    whole = rounds.SharedWorld.take_round

    def counted(world, now, *rest):
        taken.append(now.num_steps)
        return whole(world, now, *rest)

    monkeypatch.setattr(rounds.SharedWorld, "take_round", counted)
    run = rc.explore(RIVER, num_steps=2**20, workers=64, until=until)
    assert len(taken) <= 45 * 10 + 20
    assert sorted(set(taken)) == taken
    if until is None:
        assert run.num_steps == 2**20
        assert run.trace["steps"][-1] == 2**20
    else:
        assert run.is_enough
        assert run.visits.min() >= 100


@pytest.mark.parametrize(
    "arguments", tiered([{"horizon": 5}, {"discount": 0.9}, {"rho": np.inf}, {"rho": 0.5}])
)
def test_workers_act_under_every_criterion_and_order(arguments):
    run = rc.explore(rc.envs.wheel(), num_steps=8000, workers=16, start=0, **arguments)
    assert run.is_complete
    assert run.visits.sum() == 8000


# --- close to the limit ----------------------------------------------------------------------------------


def scaled_bregman(mdp, rho, model, seeds, num_steps=2**18):
    runs = [
        rc.explore(mdp, rho, num_steps, model=model, seed=s, workers=64, trace_points=1) for s in range(seeds)
    ]
    bregman = np.array([run.trace["bregman"][-1] for run in runs])
    return num_steps * bregman / runs[0].trace.kappa_min


@pytest.mark.parametrize("model", ["known", "learned"])
def test_sixty_four_workers_are_within_three_times_the_limit(model):
    """Measured 1.0 to 1.6, with a standard deviation of 0.5 between runs.

    The mean of 4 has a standard error of 0.25: it is above 3 with probability below 1e-6.
    """
    assert scaled_bregman(rc.envs.noisy_river_swim(), 2, model, 4).mean() <= 3


def test_workers_that_each_repay_the_whole_deficit_miss_it(monkeypatch):
    """The mutant: measured more than 30 times the limit, and the test above says 3."""
    monkeypatch.setattr(rounds, "share_of", lambda behaviour, workers: behaviour)
    assert scaled_bregman(rc.envs.noisy_river_swim(), 2, "known", 2).mean() > 10


# --- interrupted, failed, resumed ------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["known", "learned"])
@pytest.mark.parametrize("at", tiered([1, 8, 9, 60, 301, 500], short=[60]))
def test_a_leg_that_fails_for_good_ends_the_run_which_continues_from_the_round_before(tmp_path, model, at):
    """Every try from the `at`-th on fails; the folder continues with another executor, to the same bits."""
    given = {"num_steps": 40_000, "workers": 8, "seed": 1, "model": model}
    with pytest.raises(rc.errors.WorkerError, match=r"leg . of the round after step \d+ failed .* 4 times"):
        rc.explore(RIVER, **given, out=tmp_path / "run", executor=Here(lambda number: number >= at))
    assert_same(rc.explore(RIVER, **given), rc.resume(tmp_path / "run", executor=Here()))


@pytest.mark.parametrize("at", tiered([3, 50, 333], short=[50]))
def test_an_interrupted_round_is_not_counted(tmp_path, at):
    given = {"num_steps": 40_000, "workers": 8, "seed": 1}

    class Interrupting(Here):
        def submit(self, function, *args):
            self.number += 1
            if self.number == at:
                raise KeyboardInterrupt
            return Here().submit(function, *args)

    with pytest.raises(KeyboardInterrupt):
        rc.explore(RIVER, **given, out=tmp_path / "run", executor=Interrupting())
    assert_same(rc.explore(RIVER, **given), rc.resume(tmp_path / "run"))


def test_an_interrupted_update_is_repeated(tmp_path, monkeypatch):
    """The round is counted and the explorer has not seen it: on resuming it does, and the round is not taken again."""
    given = {"num_steps": 40_000, "workers": 8, "seed": 1}
    update, calls = rc.Feedback.update, []

    def interrupted(explorer, state, visits):
        calls.append(1)
        if len(calls) == 9:
            raise KeyboardInterrupt
        return update(explorer, state, visits)

    whole = rc.explore(RIVER, **given)
    monkeypatch.setattr(rc.Feedback, "update", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rc.explore(RIVER, **given, out=tmp_path / "run")
    assert_same(whole, rc.resume(tmp_path / "run"))


# --- refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"workers": 0}, "`workers` must be at least 1"),
        ({"workers": 7}, "`num_steps` must be a multiple of workers=7"),
        ({"workers": 4, "num_chains": 2}, "`num_chains` must be 1 with `workers`"),
        ({"executor": Here()}, "`executor` runs the legs of several `workers`"),
        ({"workers": 4, "executor": 3}, "`executor` must have a method submit"),
    ],
)
def test_what_does_not_fit_together_is_refused(arguments, words):
    with pytest.raises(rc.errors.InvalidArgumentError) as caught:
        rc.explore(RIVER, num_steps=1000, **arguments)
    assert words in str(caught.value)


@pytest.mark.thorough
def test_large_models_have_workers_too():
    """More than 256 states: the scores are corrected between rounds."""
    run = rc.explore(rc.envs.grid_world(num_rows=20), num_steps=64_000, workers=16)
    assert run.visits.sum() == 64_000
    assert run.is_complete
