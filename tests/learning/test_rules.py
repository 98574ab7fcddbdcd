"""Rules tend to the weights of the true model, keep every pair in view, and are asked again as a run learns."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp

import rhocover as rc
from rhocover import weights
from rhocover.errors import FileFormatError, InvalidArgumentError, UnknownNameError
from rhocover.learning.estimate import Estimate, exact_estimate
from rhocover.learning.rules import (
    ErrorRule,
    StdRule,
    UniformRule,
    bonus,
    evaluated,
    read_rule,
    rule_document,
    rule_from_document,
)
from small_models import SMALL_ENVS, random_model

RIVER = rc.envs.river_swim()


def estimate_of(counts: list[list[int]]) -> Estimate:
    """Returns an estimate of one action a state."""
    n = len(counts)
    matrix = sp.csr_array(np.array(counts, np.int64))
    return Estimate(matrix, np.arange(n), np.zeros(n, np.int64), 1, np.array([0]))


# --- values -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", SMALL_ENVS)
def test_with_infinitely_many_visits_rules_are_the_weights_of_the_model(env):
    mdp = getattr(rc.envs, env)(**SMALL_ENVS[env])
    exact = exact_estimate(mdp)
    rules = {weights.transition_std: StdRule(), weights.model_error: ErrorRule()}
    for builder, rule in rules.items():
        expected = mdp.per_pair(builder(mdp, min_weight=1e-300), "mu")  # deterministic models have no other
        np.testing.assert_allclose(rule(exact), np.where(expected > 1e-200, expected, 0.0), rtol=1e-13)
    assert (UniformRule()(exact) == 1).all()


@pytest.mark.parametrize("delta", [0.1, 0.01])
def test_the_bonus_falls_as_one_over_the_root_of_visits(delta):
    visits = np.array([101, 401, 1601, 10_001])
    found = bonus(estimate_of([[v, 0, 0, 0] for v in visits]), delta)
    np.testing.assert_allclose(found, np.sqrt(2 * np.log(1 / delta) / (visits - 1)), rtol=1e-15)
    np.testing.assert_allclose(found[1:3] / found[:2], 0.5, rtol=1e-15)
    assert (bonus(estimate_of([[0, 0], [1, 0]]), delta) == 1).all()


@pytest.mark.parametrize(("rule", "power"), [(StdRule, 1.0), (ErrorRule, 2 / 3)])
def test_a_rule_is_the_spread_of_the_frequencies_and_the_bonus(rule, power):
    # Mutants: the smoothed estimate in the place of the frequencies, the bonus outside of the power.
    counts = [[30, 10, 0], [0, 5, 5], [7, 0, 0]]
    p = np.array(counts) / np.sum(counts, axis=1, keepdims=True)
    c = p * (1 - p)
    spread = np.sqrt(c.sum(axis=1)) if rule is StdRule else np.sqrt(c).sum(axis=1)
    estimate = estimate_of(counts)
    np.testing.assert_allclose(rule(upper=False)(estimate), spread**power, rtol=1e-14)
    above = (spread + bonus(estimate, 0.1)) ** power
    np.testing.assert_allclose(rule()(estimate), above, rtol=1e-14)


@pytest.mark.parametrize("rule", [StdRule(), ErrorRule(), UniformRule()])
def test_a_pair_that_was_tried_once_or_never_keeps_its_weight(rule):
    weight = evaluated(rule, estimate_of([[40, 60, 0], [0, 1, 0], [0, 0, 0]]))
    assert (weight >= 1).all() or weight[1:].min() >= 0.9 * weight[0]
    assert weight.min() > 0.5


@pytest.mark.parametrize("rule", [StdRule(upper=False), ErrorRule(upper=False)])
def test_without_the_bonus_one_visit_takes_a_pair_out_of_sight(rule):
    assert rule(estimate_of([[40, 60], [0, 1]]))[1] == 0


@pytest.mark.parametrize("rule", [StdRule(), ErrorRule()])
def test_a_sure_pair_loses_its_weight_as_visits_grow(rule):
    few, many = (rule(estimate_of([[50, 50], [0, n]]))[1] for n in (10, 10_000))
    assert many < few / 10


# --- rules of one's own -------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["learned", "posterior", "from_scratch"])
def test_a_function_is_asked_again_with_each_plan_and_its_weights_follow_what_was_seen(model):
    asked = []

    def own(estimate):
        assert isinstance(estimate, Estimate)
        weight = 1 + np.sqrt(StdRule()(estimate))
        asked.append((estimate.visits.sum(), estimate.num_pairs, weight))
        return weight

    run = rc.explore(RIVER, 2, 3000, own, model=model, seed=3)
    steps = [visits for visits, _, _ in asked[1:]]  # the first time the trace asks, with the model itself
    assert asked[0][0] == 12 * 10**9
    assert steps == sorted(steps)
    assert 0 <= steps[0] <= 3000 / 1.2 - 32 <= steps[-1] <= 3000  # an errand of 32 steps may come in between
    assert len(set(steps)) >= np.log(2500 / 250) / np.log(1.2)  # each time t has grown by 1.2
    assert len({weight.tobytes() for _, n, weight in asked[1:] if n == 12}) >= 10
    assert run.is_complete


def test_with_a_known_model_a_function_is_asked_once_and_sees_the_model_as_after_a_billion_visits():
    asked = []

    def own(estimate):
        asked.append(estimate)
        return StdRule()(estimate)

    run = rc.explore(RIVER, 2, 500, own, seed=0)
    assert len(asked) == 1
    assert asked[0].visits.dtype == np.int64
    true = RIVER.per_pair(weights.transition_std(RIVER), "mu")  # the bonus is sqrt(2 log 10 / 1e9) < 1e-4
    np.testing.assert_allclose(run.coverage.mu, (true / true.sum()), atol=1e-4)


@pytest.mark.parametrize("own", [lambda e: 1 / np.sqrt(np.maximum(e.visits, 1)), lambda e: e.visits + 1.0])
@pytest.mark.parametrize("model", ["known", "learned"])
def test_a_rule_may_look_at_visits_alone(own, model):
    """Evaluated with infinitely many visits these would be all zero, or infinite."""
    assert rc.explore(RIVER, 2, 1500, own, model=model, seed=0).is_complete


def test_a_table_and_a_vector_are_the_same_rule():
    runs = [
        rc.explore(RIVER, 2, 1500, rule, model="from_scratch", seed=1)
        for rule in (lambda e: 1.0 + e.pair_state, lambda e: e.table(1.0 + e.pair_state))
    ]
    np.testing.assert_array_equal(runs[0].visits, runs[1].visits)


BAD = {
    "nan": (lambda e: np.full(e.num_pairs, np.nan), "`mu` must be finite"),
    "infinite": (lambda e: np.full(e.num_pairs, np.inf), "`mu` must be finite"),
    "negative": (lambda e: -np.ones(e.num_pairs), "`mu` must be non-negative"),
    "wrong shape": (lambda e: np.ones(e.num_pairs + 1), "`mu` must have shape"),
    "a number": (lambda e: 1.0, "`mu` must have shape"),
    "words": (lambda e: ["a"] * e.num_pairs, "`mu` must"),
}


@pytest.mark.parametrize("bad", BAD)
def test_weights_that_are_none_are_refused_at_the_door_and_during_a_run(bad):
    rule, message = BAD[bad]
    with pytest.raises(InvalidArgumentError, match=message):
        evaluated(rule, estimate_of([[1, 2], [3, 4]]))
    for model in ("known", "learned"):
        with pytest.raises(InvalidArgumentError, match=message):
            rc.explore(RIVER, 2, 100, rule, model=model)

    def late(estimate):
        good = estimate.visits.sum() == np.inf or estimate.visits.sum() < 50
        return np.ones(estimate.num_pairs) if good else rule(estimate)

    with pytest.raises(InvalidArgumentError, match=message):
        rc.explore(RIVER, 2, 1000, late, model="learned")


@pytest.mark.parametrize("restarts", [{"discount": 0.9}, {"horizon": 8}])
def test_a_rule_goes_with_runs_without_restarts(restarts):
    with pytest.raises(InvalidArgumentError, match="`mu` can be a rule only in runs without restarts"):
        rc.explore(RIVER, 2, 100, "transition_std", start=0, model="learned", **restarts)


# --- names and documents ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule", [UniformRule(), StdRule(), StdRule(upper=False), StdRule(delta=0.3), ErrorRule(False, 0.01)]
)
def test_a_rule_comes_back_from_its_document(rule):
    assert rule_from_document(json.loads(json.dumps(rule_document(rule)))) == rule


def test_a_function_is_stored_by_its_name_and_by_what_it_does():
    def own(estimate):
        return np.ones(estimate.num_pairs)

    class Weigh:
        def __call__(self, estimate):
            return np.ones(estimate.num_pairs)

    assert rule_document(own).startswith("own ")
    assert rule_document(lambda e: e.visits + 1.0) != rule_document(lambda e: e.visits + 2.0)
    assert rule_document(lambda e: e.visits + 1.0) == rule_document(lambda e: e.visits + 1.0)
    assert rule_document(Weigh()) == "Weigh"


@pytest.mark.parametrize(
    "document",
    [
        {"name": "best"},
        {"name": "uniform", "settings": {"x": 1}},
        {},
        {"name": "transition_std", "settings": {"delta": 2}},
    ],
)
def test_a_document_that_is_no_rule_is_refused(document):
    with pytest.raises(FileFormatError, match="cannot be read"):
        rule_from_document(document)


def test_names_are_those_of_the_weights():
    assert read_rule("uniform") == UniformRule()
    assert read_rule("transition_std") == StdRule()
    assert read_rule("model_error") == ErrorRule()
    with pytest.raises(UnknownNameError, match="transition_std"):
        read_rule("transition_sdt")
    for wrong in (StdRule, 3, [1.0]):
        with pytest.raises(InvalidArgumentError, match="`mu` must be weights"):
            read_rule(wrong)
    for delta in (0.0, 1.0, -1.0):
        with pytest.raises(InvalidArgumentError, match="`delta`"):
            StdRule(delta=delta)


@pytest.mark.parametrize("name", ["uniform", "transition_std", "model_error"])
def test_a_learned_rule_leads_to_the_coverage_of_the_true_weights(name):
    """The trace measures against the weights of the true model: the excess falls as the rule learns them.

    In the mean over four models: that of one run at one time is luck.
    """
    early = late = 0.0
    for seed in range(4):
        run = rc.explore(random_model(seed, 5, 2), 2, 30_000, name, model="learned", seed=0, trace_points=2)
        early += run.trace["pathwise_excess"][int(np.searchsorted(run.trace["steps"], 300))]
        late += run.trace["pathwise_excess"][-1]
    assert late < 0.1 * early
