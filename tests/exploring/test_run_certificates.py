"""What a run says of itself: exact with a known model, a bound with a learned one, nothing while incomplete."""

from __future__ import annotations

import numpy as np
import pytest
from exploring_models import INF, random_model

import rhocover as rc
from rhocover.errors import InvalidArgumentError
from rhocover.exploring.belief.certificates import OF_CODES, STATES_UNKNOWN, Certificate, on_condition
from rhocover.exploring.runs.result import JUDGED_BY_TRUTH
from rhocover.learning.estimate import Estimate
from rhocover.learning.rules import StdRule
from tiers import tiered

RIVER = rc.envs.river_swim()
LEARNED = ("learned", "posterior", "from_scratch")
RHOS = (0.0, 0.5, 1.0, 2.0, INF)


# --- the certificate ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2.0]))
def test_with_a_known_model_the_certificate_is_the_exact_gap(rho):
    run = rc.explore(RIVER, rho, 3000, seed=0, trace_points=1)
    found = run.certificate()
    assert found.gap == run.gap
    assert found.divergence == run.divergence
    assert found.lower_bound == run.best.lower_bound
    assert found.plug_in_gap == float(run.trace["excess"][-1])
    assert found.gap == max(0.0, run.divergence - run.best.lower_bound)
    assert found.delta == 0  # it is sure
    assert run.certificate(0.5) == found


@pytest.mark.parametrize(
    ("model", "rho"),
    tiered([("learned", 0.0), ("learned", 2.0), ("learned", INF), ("posterior", 0.5), ("posterior", INF)]),
)  # fmt: skip
def test_with_a_learned_model_the_certified_gap_is_above_the_estimate_and_above_the_truth(model, rho):
    """The truth is above the bound with probability 1e-6 at most, for each of 5 runs."""
    run = rc.explore(random_model(2, 4, 3), rho, 4000, model=model, seed=1, trace_points=1)
    found = run.certificate(1e-6)
    assert found.gap >= found.plug_in_gap
    assert found.gap >= float(run.trace["excess"][-1])
    assert found.lower_bound <= run.best.divergence
    assert found.gap == found.divergence - found.lower_bound
    # The estimate is of the same objective: with smoothed rows it is near the truth.
    assert found.divergence == pytest.approx(run.divergence, rel=1e-12)
    assert found.plug_in_gap == pytest.approx(float(run.trace["excess"][-1]), abs=0.1)


@pytest.mark.parametrize("model", tiered(["learned", "posterior"]))
def test_a_surer_certificate_is_wider_and_more_steps_make_it_narrower(model):
    short, long = (
        rc.explore(RIVER, 2, steps, model=model, seed=0, trace_points=1) for steps in (1000, 30_000)
    )
    gaps = [long.certificate(delta).gap for delta in (0.5, 0.05, 1e-9)]
    assert gaps[0] < gaps[1] < gaps[2]
    assert long.certificate().gap < 0.5 * short.certificate().gap


@pytest.mark.parametrize("model", ["known", *LEARNED])
def test_while_a_pair_is_unvisited_there_is_no_certificate(model):
    run = rc.explore(rc.envs.six_arms(), 2, 5, model=model, seed=0)
    assert not run.is_complete
    found = run.certificate()
    assert found.gap == found.plug_in_gap == found.divergence == INF
    assert "nothing to certify yet" in str(found)


@pytest.mark.parametrize("model", ["learned", "posterior"])
def test_one_unvisited_pair_is_enough_to_have_no_certificate_though_all_that_was_met_was_tried(model):
    # The mutant certifies the states met so far, as who does not know the states must.
    run = rc.explore(rc.envs.six_arms(), 2, 200, model=model, seed=0)
    assert run.evidence().unvisited == ()
    assert run.certificate().gap == INF


def test_a_pair_of_no_weight_may_stay_unvisited():
    mu = np.ones((6, 2))
    mu[5] = 0.0
    for seed in range(20):
        run = rc.explore(RIVER, 2, 45, mu, model="learned", seed=seed, trace_points=1)
        if run.is_complete and run.visits.min() == 0:
            break
    else:
        pytest.fail("no run left a pair of no weight unvisited")
    assert np.isfinite(run.certificate().gap)


def test_weights_of_a_rule_are_those_of_now():
    run = rc.explore(RIVER, 2, 2000, StdRule(), model="learned", seed=0, trace_points=1)
    estimate = Estimate(run.transitions, RIVER.pair_state, RIVER.pair_action, 2, np.array([0]))
    weight = StdRule()(estimate)
    now = rc.Coverage(2, weight).divergence(run.visits / 2000)
    assert run.certificate().divergence == pytest.approx(now, rel=1e-12)
    assert run.certificate().divergence != run.divergence  # of the weights that the true model has


@pytest.mark.parametrize("restarts", tiered([{"discount": 0.9}, {"horizon": 8}]))
def test_runs_that_restart_have_certificates(restarts):
    run = rc.explore(
        RIVER, 2, 6000, model="learned", seed=0, start=0, restrict=True, trace_points=1, **restarts
    )
    assert run.is_complete
    found = run.certificate(1e-6)
    assert float(run.trace["excess"][-1]) <= found.gap < INF
    assert found.plug_in_gap <= found.gap


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, float("nan"), "small"])
@pytest.mark.parametrize("model", ["known", "learned"])
def test_a_probability_that_is_none_is_refused(model, delta):
    run = rc.explore(RIVER, 2, 50, model=model, seed=0)
    for ask in (run.certificate, run.evidence):
        with pytest.raises(InvalidArgumentError, match="`delta`"):
            ask(delta)


def test_the_words_say_what_the_numbers_say():
    known, learned = (rc.explore(RIVER, 2, 3000, model=model, seed=0) for model in ("known", "learned"))
    found = learned.certificate(0.05)
    assert f"at most {found.gap:.3g} nats above the best, with probability 0.95" in str(found)
    assert f"plug-in estimate {found.plug_in_gap:.3g}" in str(found)
    assert str(known.certificate()).endswith("nats above the best, computed with the model itself")


def test_a_learned_run_says_which_numbers_know_the_model_and_which_are_from_data_alone():
    """The gap beside the divergence knows the river, the certificate does not: both are 'gaps'."""
    known, learned = (rc.explore(RIVER, 2, 3000, model=model, seed=0) for model in ("known", "learned"))
    assert JUDGED_BY_TRUTH in str(learned)
    assert JUDGED_BY_TRUTH not in str(known)
    assert "with probability 0.95, from the data alone" in str(learned.certificate())
    assert learned.gap < learned.certificate().gap


def test_conditions_are_a_list_and_only_of_what_is_certified():
    sure = Certificate(1.0, 0.1, 0.2, 0.8, 0.05)
    for condition in ("if a", "for b", "for c"):
        sure = on_condition(sure, condition)
    assert str(sure).endswith("(plug-in estimate 0.1); it holds if a, for b and for c")
    nothing = Certificate(1.0, 0.1, INF, 0.0, 0.05, STATES_UNKNOWN)
    assert on_condition(nothing, OF_CODES) == nothing
    assert (
        str(nothing)
        == "nothing is certified while the set of states is not known (plug-in estimate 0.1 nats)"
    )


def test_weights_of_a_rule_do_not_hide_that_states_are_unknown():
    run = rc.explore(RIVER, 2, 3000, mu="model_error", model="from_scratch", seed=0)
    assert run.certificate().condition == STATES_UNKNOWN


# --- the evidence -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", tiered(range(4)))
@pytest.mark.parametrize("model", tiered(["learned", "posterior"]))
def test_what_was_never_met_is_what_has_no_visits_and_was_never_led_to(model, seed):
    mdp = rc.envs.six_arms()
    run = rc.explore(mdp, 2, 200, model=model, seed=seed, trace_points=1)
    found = run.evidence()
    visited = run.counts.sum(axis=1) > 0
    visited[run.last_states] = True
    assert found.unmet == tuple(np.flatnonzero(~visited))
    assert found.unmet, "everything was met: nothing was shown"
    assert found.unvisited == tuple(np.flatnonzero((run.visits == 0) & visited[mdp.pair_state]))
    assert (found.num_states, found.num_steps) == (7, 200)
    assert f"{len(found.unmet)} of 7 states w" in str(found)
    assert "never met" in str(found)
    assert 1 <= found.least_steps < INF


def test_the_bound_on_the_way_to_what_was_not_met_holds():
    """The rare state is 1/p tries away, three steps each at least; the bound fails with probability 1e-6."""
    p = 1e-5
    P = np.zeros((3, 2, 3))
    P[0, 0, 1] = P[1, 0, 0] = 1.0
    P[0, 1, 0] = 1.0
    P[1, 1, [0, 2]] = 1 - p, p
    P[2, :, 0] = 1.0
    run = rc.explore(rc.MDP(P, start=0), 2, 3000, model="learned", seed=0, trace_points=1)
    found = run.evidence(1e-6)
    assert found.unmet == (2,)
    assert 10 < found.least_steps <= 2 / p  # a try takes two steps at best
    assert "with probability 0.999999 no policy reaches it in fewer than" in str(found)


@pytest.mark.parametrize("model", tiered(["learned", "posterior"]))
def test_where_everything_was_met_the_evidence_says_so(model):
    run = rc.explore(RIVER, 2, 2000, model=model, seed=0, trace_points=1)
    found = run.evidence()
    assert found.unmet == found.unvisited == ()
    assert found.least_steps == INF
    assert str(found) == "All 6 states were met in 2,000 steps."


@pytest.mark.parametrize("num_steps", tiered([5, 200, 3000]))
def test_who_does_not_know_the_states_is_told_of_those_met_and_nothing_of_others(num_steps):
    # The mutant names states that nobody can know of.
    mdp = rc.envs.six_arms()
    run = rc.explore(mdp, 2, num_steps, model="from_scratch", seed=0, trace_points=1)
    met = run.counts.sum(axis=1) > 0
    met[run.last_states] = True
    own, found = met[mdp.pair_state], run.evidence()
    assert found.unmet == ()
    assert found.unvisited == tuple(np.flatnonzero((run.visits == 0) & own))
    assert (found.num_states, found.num_steps) == (met.sum(), num_steps)
    assert found.least_trials == run.visits[own].min()
    assert "It is not known whether there are other states." in str(found)


def test_with_a_known_model_there_is_no_evidence():
    assert rc.explore(RIVER, 2, 50, seed=0).evidence() is None


def test_several_chains_are_one_run():
    run = rc.explore(RIVER, 2, 3000, model="learned", num_chains=3, seed=0, trace_points=1)
    assert str(run.evidence()) == "All 6 states were met in 3,000 steps."
    assert run.certificate().gap < INF
