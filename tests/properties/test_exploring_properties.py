"""Runs, explorers, schedules, stopping rules and comparisons: counts add up, files give runs back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_tools import about, few, many, models, positive_orders, seeds, weighted_models

import rhocover as rc
from rhocover.files import load_tensors

pytestmark = pytest.mark.thorough  # every test makes many runs

EXPLORERS = {
    "Feedback": rc.Feedback(),
    "Tracking": rc.Tracking(),
    "Stationary": rc.Stationary(),
    "Algorithm1": rc.Algorithm1(),
    "Algorithm1 with Constant": rc.Algorithm1(schedule=rc.Constant(20)),
    "Algorithm1 with Doubling": rc.Algorithm1(schedule=rc.Doubling(5)),
    "Algorithm1 with LineSearch": rc.Algorithm1(schedule=rc.LineSearch(5)),
    "Algorithm1 with Power": rc.Algorithm1(schedule=rc.Power(5, 0.5)),
}
explorers = st.sampled_from(sorted(EXPLORERS))


@about("explore", "Run", "Feedback", "Tracking", "Stationary", "Algorithm1")
@many
@given(weighted_models(), explorers, positive_orders, st.integers(1, 4), seeds)
def test_counts_of_a_run_add_up(drawn, explorer, rho, num_chains, seed):
    mdp, mu = drawn
    num_steps = 60 * num_chains
    run = rc.explore(mdp, rho, num_steps, mu, explorer=EXPLORERS[explorer], seed=seed, num_chains=num_chains)
    assert isinstance(run, rc.Run)
    assert run.num_steps == run.visits.sum() == run.moves.sum() == run.transitions.sum() == num_steps
    assert (np.asarray(run.transitions.sum(axis=1)).ravel() == run.visits).all()
    assert (mdp.per_pair(run.counts, "counts") == run.visits).all()
    # what enters a state leaves it, but for the chains' first and last states
    entered = np.asarray(run.transitions.sum(axis=0)).ravel() + np.bincount(
        run.first_states, minlength=mdp.num_states
    )
    left = run.counts.sum(axis=1) + np.bincount(run.last_states, minlength=mdp.num_states)
    assert (entered == left).all()
    if run.is_complete:
        d_hat = run.visits / num_steps
        weights = mdp.per_pair(mu, "mu")
        assert run.divergence == pytest.approx(
            rc.Coverage(rho, weights).divergence(d_hat), rel=1e-9, abs=1e-12
        )
        assert run.worst_ratio == pytest.approx(rc.Coverage(rho, weights).worst_ratio(d_hat))
    json.dumps(run.summary())


@about("explore")
@few
@given(models(), explorers, seeds)
def test_a_seed_decides_everything(mdp, explorer, seed):
    one, two = (rc.explore(mdp, 2.0, 100, explorer=EXPLORERS[explorer], seed=seed) for _ in range(2))
    assert one.moves.tobytes() == two.moves.tobytes()
    assert one.last_states.tobytes() == two.last_states.tobytes()


@pytest.mark.thorough
@about("explore", "Learned")
@few
@given(
    models(), st.floats(1.05, 3.0), st.floats(0.01, 2.0), st.booleans(), st.booleans(), st.booleans(), seeds
)
def test_a_learner_of_any_kind_takes_its_steps(mdp, growth, smoothing, know_states, sample, discovery, seed):
    how = rc.Learned(growth, smoothing, know_states, sample, discovery or not know_states)
    run = rc.explore(mdp, 2.0, 80, model=how, seed=seed)
    assert run.visits.sum() == 80
    certificate = run.certificate(delta=0.1)
    assert certificate.gap >= certificate.plug_in_gap - 1e-9


@about("resume", "Run")
@few
@given(weighted_models(), explorers, seeds)
def test_a_finished_run_comes_back_from_its_folder(tmp_path_factory, drawn, explorer, seed):
    mdp, mu = drawn
    out = tmp_path_factory.mktemp("runs") / "run"
    run = rc.explore(mdp, 2.0, 100, mu, explorer=EXPLORERS[explorer], seed=seed, out=out)
    again = rc.resume(out, mdp, rho=2.0, seed=seed)
    assert again.moves.tobytes() == run.moves.tobytes()
    run.save(out.parent / "run.rhocover")
    tensors, document = load_tensors(out.parent / "run.rhocover", "run")
    assert tensors["counts"].sum() == 100
    assert document["seed"] == seed
    with pytest.raises(rc.errors.RhocoverError, match="seed"):
        rc.resume(out, seed=seed + 1)


# --- schedules and stopping rules ----------------------------------------------------------------------


@about("Constant", "Doubling", "Quadratic", "Power", "LineSearch")
@many
@given(st.integers(1, 50), st.integers(1, 200), st.integers(0, 24), st.floats(0, 1, exclude_max=True))
def test_schedules_have_the_lengths_they_say(tau, k, eighths, share):
    p = eighths / 8
    steps, t = [], 0
    for number in range(1, min(k, 30) + 1):
        steps.append(rc.Doubling(tau).length(number, t))
        t += steps[-1]
    assert steps == [tau] + [tau * 2**j for j in range(len(steps) - 1)]
    assert rc.Constant(tau).length(k, 0) == tau
    assert rc.Quadratic(tau).length(k, 0) == tau * k**2
    assert rc.Quadratic(tau).begins(k) == tau * sum(j**2 for j in range(1, k))
    length = rc.Power(tau, p).length(k, 0)
    assert length >= tau * float(k) ** p * (1 - 1e-9)
    assert length <= tau * float(k) ** p * (1 + 1e-9) + 1
    stretch = rc.LineSearch(tau).stretch(10 * tau, share)
    assert tau <= stretch <= 10 * tau


@about("EveryPair")
@few
@given(models(), st.integers(1, 5), seeds)
def test_a_run_stops_when_every_pair_has_its_visits(mdp, visits, seed):
    run = rc.explore(mdp, 2.0, 20_000, until=rc.EveryPair(visits), seed=seed)
    assert run.is_enough == (run.visits.min() >= visits)
    assert run.is_enough or run.num_steps == 20_000


@about("CertifiedGap", "SmallModelError")
@few
@given(models(), st.sampled_from([rc.CertifiedGap(0.5), rc.SmallModelError(0.5, 0.1)]), seeds)
def test_a_run_that_stopped_early_keeps_what_its_rule_promised(mdp, rule, seed):
    run = rc.explore(mdp, 2.0, 1000, until=rule, model="learned", seed=seed)
    assert run.num_steps <= 1000
    if run.is_enough and isinstance(rule, rc.SmallModelError):
        assert run.model_error().l1_mean <= 0.5  # with probability 0.9 a run; these seeds are fixed
    if run.is_enough and isinstance(rule, rc.CertifiedGap):
        assert run.gap <= 0.5


# --- comparisons ---------------------------------------------------------------------------------------


@about("compare", "Comparison")
@few
@given(
    models(),
    st.lists(st.sampled_from(["feedback", "tracking", "stationary"]), min_size=1, unique=True),
    seeds,
)
def test_a_comparison_comes_back_from_its_file(tmp_path_factory, mdp, chosen, seed):
    found = rc.compare({"mine": mdp}, chosen, num_steps=60, seeds=[seed], workers=1)
    path = tmp_path_factory.mktemp("comparisons") / "all.rhocover"
    found.save(path)
    again = rc.Comparison.load(path)
    assert isinstance(found, rc.Comparison)
    assert (again.envs, again.explorers, again.seeds) == (("mine",), tuple(chosen), (seed,))
    for name, column in found.columns.items():
        assert again.columns[name].tobytes() == column.tobytes()
    assert len(found.table()) == len(chosen)
    for explorer in chosen:
        assert found.curve("mine", 2.0, explorer, "divergence") is not None


@about("reproduce")
def test_what_is_recorded_is_reproduced():
    found = rc.reproduce("reference-values")
    assert found.rows
    assert all(row.holds for row in found.rows)
