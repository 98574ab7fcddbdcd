"""What was never reached is reported with a bound that really is one."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

import rhocover as rc
from rhocover.errors import InvalidArgumentError
from rhocover.learning.confidence import make_confidence
from rhocover.learning.evidence import Evidence, find_evidence, least_steps
from small_models import random_model


def _hitting_steps(P, pair_state, goal, sweeps=100_000):
    """Returns the fewest expected steps to the goal under the true rows, from below."""
    values = np.zeros(goal.size)
    for _ in range(sweeps):
        best = np.full(goal.size, np.inf)
        np.minimum.at(best, pair_state, 1 + P @ values)
        best[goal] = 0.0
        if np.allclose(best, values, rtol=1e-12):
            break
        values = best
    return values


def _draw(mdp, visits: int, rng):
    return sp.csr_array(rng.multinomial(visits, mdp.transitions.toarray()))


@pytest.mark.parametrize("seed", range(10))
def test_the_bound_is_below_the_truth_and_grows_to_it(seed):
    # The rows are all inside the set with probability 1 - 1e-6, and then the bound cannot fail.
    rng = np.random.default_rng(seed)
    mdp = random_model(seed, num_states=6, holes=0.5)
    goal = np.arange(6) == 5
    truth = _hitting_steps(mdp.transitions, mdp.pair_state, goal)
    shares = []
    for visits in (10, 1_000, 100_000, 10_000_000):
        confidence = make_confidence(_draw(mdp, visits, rng), 1e-6)
        bound = least_steps(confidence, mdp.pair_state, ~goal)
        assert (bound <= truth * (1 + 1e-9)).all()  # value iteration's own tolerance
        shares.append(float((bound[~goal] / truth[~goal]).min()))
    assert shares[0] < shares[2] < shares[3]
    assert shares[3] > 0.9


def _two_states_apart(visits: int):
    """Returns counts of a model whose last state is never reached from the other two."""
    return np.array([[visits, 0, 0], [0, visits, 0], [visits, 0, 0], [0, 0, 0]]), [0, 0, 1, 2]


def test_a_state_out_of_reach_gets_a_growing_bound():
    bounds = []
    for visits in (0, 1, 10, 100, 1_000, 10_000, 100_000):
        counts, pair_state = _two_states_apart(visits)
        evidence = find_evidence(make_confidence(counts, 0.05), pair_state, 0)
        bounds.append(evidence.least_steps)
    assert bounds[0] == 1.0
    assert all(a < b for a, b in pairwise(bounds[1:]))
    # after N visits a chance of log(1/delta')/N is not refuted, delta' a share of delta: ten times the visits
    # are nearly ten times the steps
    assert 7 < bounds[-1] / bounds[-2] < 10


def test_the_bound_is_a_fixed_point_of_extended_value_iteration():
    rng = np.random.default_rng(4)
    counts = np.zeros((8, 6), np.int64)
    counts[:, :4] = rng.integers(1, 4, (8, 4))
    confidence, pair_state = make_confidence(counts, 0.1), np.repeat(np.arange(4), 2)
    met = np.arange(6) < 4
    values = np.zeros(6)
    for _ in range(3_000):
        best = np.zeros(6)
        best[:4] = (1 + confidence.lowest(values)).reshape(4, 2).min(axis=1)
        assert (best >= values - 1e-12).all()  # from 0 upwards
        values = best
    bound = least_steps(confidence, pair_state, met)
    assert (bound <= values * (1 + 1e-9)).all()
    np.testing.assert_allclose(bound, values, rtol=0.011)  # it stops within 1%


def test_an_unvisited_pair_may_lead_anywhere():
    counts = np.array([[1000, 0, 0], [0, 1000, 0], [0, 0, 0]])
    evidence = find_evidence(make_confidence(counts, 0.05), [0, 1, 1], 1)
    assert evidence.least_steps == pytest.approx(1.0)
    assert evidence.unmet == (2,)
    assert evidence.unvisited == (2,)


def test_pairs_of_unmet_states_are_not_called_unvisited():
    counts, pair_state = _two_states_apart(50)
    evidence = find_evidence(make_confidence(counts, 0.05), pair_state, 1)
    assert evidence.unmet == (2,)
    assert evidence.unvisited == ()
    assert evidence.num_steps == 150


def test_all_met_leaves_nothing_to_bound():
    counts = np.array([[1, 1], [2, 0]])
    evidence = find_evidence(make_confidence(counts, 0.05), [0, 1], 0)
    assert evidence.unmet == ()
    assert evidence.least_steps == math.inf
    assert str(evidence) == "All 2 states were met in 4 steps."


def test_the_start_alone_is_met_before_the_first_step():
    evidence = find_evidence(make_confidence(np.zeros((1, 3), np.int64), 0.05), [1], 1)
    assert evidence.unmet == (0, 2)
    assert evidence.least_steps == 1.0


def test_the_words():
    evidence = Evidence((17, 18, 19), (4,), 1240.7, 0.05, 20, 50_000)
    assert str(evidence) == (
        "3 of 20 states were never met (17, 18, 19) in 50,000 steps: with probability 0.95 no policy reaches one "
        "of them in fewer than 1,240 steps on average. 1 pair of a met state was never visited (4)."
    )


def test_a_walk_in_the_river_is_told_honestly():
    # swimming left only: the bound is 1, because `right` was never tried, and the words say so
    mdp = rc.envs.river_swim(num_states=6)
    counts = np.zeros((12, 6), np.int64)
    counts[0, 0] = 500
    evidence = find_evidence(make_confidence(counts, 0.05), mdp.pair_state, 0)
    assert evidence.least_steps == pytest.approx(1.0)
    assert (
        "which proves nothing: one of them may be one step away. 1 pair of a met state was never visited (1)"
        in str(evidence)
    )


@pytest.mark.parametrize(
    ("pair_state", "state", "named"),
    [([0, 0], 2, "state"), ([0, 0], 1, "pair_state"), ([0], 0, "pair_state")],
)
def test_bad_input_is_refused_by_name(pair_state, state, named):
    confidence = make_confidence(np.array([[1, 0], [1, 0]]), 0.05)
    with pytest.raises(InvalidArgumentError, match=f"`{named}`"):
        find_evidence(confidence, pair_state, state)
