"""A run stops at the first look at which its rule is met: not before it is true, and not much after."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from exploring_models import INF, same_run

import rhocover as rc
from rhocover.documents import from_document
from rhocover.errors import FileFormatError, InvalidArgumentError
from rhocover.exploring.runs.stopping import STOP, next_look
from rhocover.learning.confidence import make_confidence
from tiers import tiered

RIVER = rc.envs.river_swim()
MOST = 60_000
RULES = {
    "every pair": rc.EveryPair(25),
    "certified gap, known": rc.CertifiedGap(0.02),
    "certified gap, learned": rc.CertifiedGap(0.2),  # D* is 0.29, so the bound on it must be a good one
    "model error": rc.SmallModelError(0.3),
}
MODELS = {
    "every pair": ("known", "learned", "from_scratch"),
    "certified gap, known": ("known",),
    "certified gap, learned": ("learned",),
    "model error": ("known", "learned"),
}
CASES = [(rule, model) for rule in RULES for model in MODELS[rule]]


def is_met(rule: str, run: rc.Run) -> bool:
    """Returns whether a rule is met, from the numbers of a run, without the code of the rule."""
    until = RULES[rule]
    if rule == "every pair":
        return bool(run.visits.min() >= until.visits)
    if rule == "model error":
        return make_confidence(run.transitions, until.delta).l1_radius.mean() <= until.error
    return run.is_complete and run.certificate(until.delta).gap <= until.gap


def looks(until, before: int, num_chains: int = 1) -> list[int]:
    found = [next_look(until, 0, num_chains)]
    while found[-1] < before:
        found.append(next_look(until, found[-1], num_chains))
    return found


@pytest.fixture(scope="module", autouse=True)
def rarely():
    """Looks less often at what takes long to look at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rc.CertifiedGap, "growth", 1.5)
        yield


@pytest.fixture(scope="module")
def stopped():
    """Returns runs that a rule stopped, each made once."""
    made = {}

    def run(rule: str, model: str) -> rc.Run:
        if (rule, model) not in made:
            made[rule, model] = rc.explore(RIVER, 2, MOST, model=model, until=RULES[rule], seed=2)
        return made[rule, model]

    return run


# --- when ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "model"), tiered(CASES))
def test_a_run_stops_at_the_first_look_at_which_its_rule_is_met(rule, model, stopped):
    # Mutants: a rule that looks at the block alone, a stop one look too late, a rule that is never asked.
    run, until = stopped(rule, model), RULES[rule]
    assert run.is_enough
    assert run.num_steps < MOST
    assert is_met(rule, run)
    *earlier, last = looks(until, run.num_steps)
    assert last == run.num_steps
    assert run.num_steps <= until.growth * earlier[-1] + 1
    before = rc.explore(RIVER, 2, earlier[-1], model=model, seed=2, trace_points=1)
    assert not is_met(rule, before)


@pytest.mark.parametrize(("rule", "model"), tiered(CASES))
def test_looking_changes_nothing_and_the_last_row_is_where_the_run_stopped(rule, model, stopped):
    run = stopped(rule, model)
    same_run(run, rc.explore(RIVER, 2, run.num_steps, model=model, seed=2))
    steps = run.trace["steps"]
    assert steps[-1] == run.num_steps
    assert (np.diff(steps) > 0).all()
    assert run.summary()["is_enough"] is True


def test_a_run_whose_rule_is_not_met_uses_its_budget():
    run = rc.explore(RIVER, 2, 500, until=rc.EveryPair(10_000), seed=0)
    assert not run.is_enough
    assert run.num_steps == 500
    same_run(run, rc.explore(RIVER, 2, 500, seed=0))


@pytest.mark.parametrize(("rho", "gap"), tiered([(0.0, 0.5), (1.0, 0.5), (INF, 1.2)]))
@pytest.mark.parametrize("model", tiered(["known", "learned"]))
def test_a_certified_gap_holds_for_the_true_model(model, rho, gap):
    """Sure with a known model; with a learned one it fails with probability 1e-6 for each of three runs."""
    until = rc.CertifiedGap(gap, delta=1e-6)
    run = rc.explore(RIVER, rho, MOST, model=model, until=until, seed=4, trace_points=2)
    assert run.is_enough
    excess = float(run.trace["excess"][-1])
    certificate = run.certificate(1e-6)
    assert excess <= certificate.gap <= gap
    assert certificate.lower_bound <= run.best.divergence


def test_a_small_model_error_holds_for_the_true_model():
    """It fails with probability 1e-6."""
    run = rc.explore(RIVER, 2, MOST, model="learned", until=rc.SmallModelError(0.4, 1e-6), seed=1)
    assert run.is_enough
    P = RIVER.transitions.toarray()
    counts = run.transitions.toarray()
    error = np.abs(counts / counts.sum(axis=1, keepdims=True) - P).sum(axis=1)
    assert error.mean() <= 0.4


def test_pairs_of_no_weight_are_not_waited_for():
    mu = np.ones((6, 2))
    mu[:, 0] = 0.0  # only swimming right matters
    runs = {
        weights: rc.explore(RIVER, 2, MOST, mu, until=rc.EveryPair(200), seed=0, trace_points=1)
        for weights, mu in (("all", None), ("some", mu))
    }
    assert runs["some"].counts[:, 1].min() >= 200 > runs["some"].counts[:, 0].min()
    assert runs["some"].num_steps < runs["all"].num_steps


def test_from_scratch_every_pair_means_those_of_the_states_that_were_met():
    run = rc.explore(RIVER, 2, MOST, model="from_scratch", until=rc.EveryPair(2), seed=0)
    met = np.isin(RIVER.pair_state, np.union1d(run.first_states, RIVER.transitions.indices[run.moves > 0]))
    assert run.visits[met].min() >= 2
    assert rc.explore(RIVER, 2, MOST, model="learned", until=rc.EveryPair(2), seed=0).is_complete


# --- where it looks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("num_chains", [1, 3, 50])
@pytest.mark.parametrize("until", [rc.EveryPair(1), rc.CertifiedGap(1.0)])
def test_looks_are_a_fixed_sequence_of_multiples_of_the_chains(until, num_chains):
    sequence = looks(until, 20_000, num_chains)
    assert all(step % num_chains == 0 for step in sequence)
    for one, other in pairwise(sequence):
        assert one < other < until.growth * one + 1 + num_chains
        for asked in {one, (one + other) // 2, other - 1}:
            assert next_look(until, asked, num_chains) == other


def test_several_chains_stop_together():
    run = rc.explore(RIVER, 2, 30_000, until=rc.EveryPair(30), num_chains=3, model="learned", seed=0)
    assert run.is_enough
    assert run.num_steps % 3 == 0
    assert run.num_steps == looks(rc.EveryPair(30), run.num_steps, 3)[-1]
    assert run.visits.min() >= 30


# --- interrupted --------------------------------------------------------------------------------------


def until_step(step: int):
    def report(steps, num_steps):
        if steps >= step:
            raise KeyboardInterrupt

    return report


@pytest.mark.parametrize(("rule", "model"), tiered(CASES))
def test_an_interrupted_run_stops_where_it_would_have_stopped(rule, model, stopped, tmp_path):
    whole, out = stopped(rule, model), tmp_path / "out"
    arguments = {"model": model, "until": RULES[rule], "seed": 2, "out": out}
    with pytest.raises(KeyboardInterrupt):
        rc.explore(RIVER, 2, MOST, **arguments, report=until_step(whole.num_steps // 3))
    with pytest.raises(KeyboardInterrupt):
        rc.resume(out, report=until_step(whole.num_steps // 2))
    run = rc.resume(out)
    same_run(run, whole)
    assert run.is_enough


@pytest.mark.parametrize(("rule", "model"), tiered(CASES))
def test_a_run_that_stopped_is_returned_as_it_is(rule, model, stopped, tmp_path):
    whole, out = stopped(rule, model), tmp_path / "out"
    rc.explore(RIVER, 2, MOST, model=model, until=RULES[rule], seed=2, out=out)
    for _ in range(2):
        run = rc.resume(out)
        same_run(run, whole)
        assert run.is_enough


# --- words --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("until", RULES.values())
def test_a_rule_comes_back_from_its_document(until):
    assert from_document(STOP, json.loads(json.dumps(STOP.write(until))), "the rule") == until


@pytest.mark.parametrize(
    "document", [{}, {"name": "soon"}, {"name": "every_pair", "settings": {"visits": 0}}, 3]
)
def test_a_document_that_is_no_rule_is_refused(document):
    with pytest.raises(FileFormatError, match="cannot be read"):
        from_document(STOP, document, "the rule")


@pytest.mark.parametrize("until", [5, "every_pair", rc.EveryPair, lambda run: True])
def test_what_is_no_rule_is_refused(until):
    with pytest.raises(InvalidArgumentError, match=r"`until` must be one of EveryPair\(visits\), Certified"):
        rc.explore(RIVER, 2, 100, until=until)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rc.EveryPair(0), "`visits`"),
        (lambda: rc.EveryPair(2.5), "`visits`"),
        (lambda: rc.CertifiedGap(0.0), "`gap` must be positive and finite, got 0"),
        (lambda: rc.CertifiedGap(float("nan")), "`gap`"),
        (lambda: rc.CertifiedGap(1.0, delta=1.0), "`delta`"),
        (lambda: rc.SmallModelError(-1.0), "`error` must be positive"),
        (lambda: rc.SmallModelError(1.0, delta=0.0), "`delta`"),
    ],
)
def test_rules_that_make_no_sense_are_refused(make, message):
    with pytest.raises(InvalidArgumentError, match=message):
        make()
