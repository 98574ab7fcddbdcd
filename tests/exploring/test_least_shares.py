"""A floor for Algorithm 1 that needs no plan: a lower bound on the best occupancy, and what it costs to know no more.

Second sources: the best occupancies themselves, and the convex program whose value the bound is.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from exploring_models import INF, one_state, problem_of, random_model

import rhocover as rc
from many_runs import many_runs, mean_and_error
from rhocover import Coverage
from rhocover.exploring.explorers.algorithm1 import WITHOUT_PLAN, least_shares
from rhocover.exploring.explorers.registry import explorer_document, explorer_from_document
from small_models import random_weights
from tiers import tiered

RHOS = [0, 0.05, 0.5, 1, 1.5, 2, 8, 64, 1e4, INF]
MODELS = {"river": rc.envs.river_swim(), "random": random_model(3), "six arms": rc.envs.make("six_arms")}


def random_occupancy(problem, seed: int) -> np.ndarray:
    policy = np.random.default_rng(seed).exponential(size=problem.mdp.num_pairs)
    return problem.members.from_policy(
        policy / np.bincount(problem.mdp.pair_state, policy)[problem.mdp.pair_state]
    )


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
@pytest.mark.parametrize("model", tiered(MODELS))
def test_the_best_occupancy_is_never_below_the_bound_from_any_occupancy(model, rho):
    """1e-4: at large rho the plan's gap leaves d* uncertain by that much."""
    mdp = MODELS[model]
    for seed in range(4):
        problem = problem_of(mdp, rho, random_weights(mdp, seed))
        for d0 in (problem.members.max_floor()[1], random_occupancy(problem, seed), problem.d_star):
            least = least_shares(problem.coverage, d0)
            assert (least <= problem.d_star * (1 + 1e-4)).all()
            assert (least >= 0).all()


@pytest.mark.parametrize("rho", [0.3, 1, 2, 5, 30])
@pytest.mark.parametrize("seed", range(3))
def test_the_bound_is_the_value_of_the_convex_program_that_it_comes_from(rho, seed):
    """min x_i subject to sum_j d0_j (mu_j/x_j)^rho <= V and shares of the others of at most 1, by its multipliers.

    A point where both hold with equality and the energy has the same slope in all the others is the best one.
    Mutants: V(d0) below rho = 1, Q with the pair itself, rho for 1 + rho, mu for its normalised self.
    """
    rng = np.random.default_rng(seed)
    mu, d0 = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5))
    V = float(np.sum(mu**rho * d0 ** (1 - rho))) if rho > 1 else 1.0
    found, cost = least_shares(Coverage(rho, 7 * mu), d0), d0 * mu**rho
    for i in range(5):
        others = np.arange(5) != i
        x = np.where(others, cost ** (1 / (1 + rho)), 0.0)
        x = np.where(others, x / x.sum(), found[i])
        slopes = (cost * x ** (-rho - 1))[others]
        assert slopes == pytest.approx(slopes[0], rel=1e-9)
        assert float(cost @ x**-rho) == pytest.approx(V, rel=1e-7)


def test_at_infinity_with_equal_weights_the_bound_is_the_largest_floor():
    problem = problem_of(MODELS["river"], INF)
    t_star, d0 = problem.members.max_floor()
    assert least_shares(problem.coverage, d0).min() == pytest.approx(t_star, rel=1e-9)


def test_a_pair_without_weight_and_a_single_pair_have_bounds_too():
    assert least_shares(Coverage(2, np.array([1.0, 0.0])), np.array([0.5, 0.5])).tolist()[1] == 0
    for rho in RHOS:
        least = least_shares(Coverage(rho, np.ones(1)), np.ones(1))
        assert 0 < least[0] <= 1 + 1e-12


@pytest.mark.parametrize("oracle", tiered(["lp", "fixed_point"]))
@pytest.mark.parametrize("rho", tiered([0, 0.5, 1, 2, INF], short=[2]))
def test_without_the_plan_algorithm_1_never_asks_for_it_and_keeps_the_optimum_inside(rho, oracle):
    # Mutants: the fixed-point oracle's alpha from d*; a default that is evaluated before it is known to be needed.
    explorer = rc.Algorithm1(eta=WITHOUT_PLAN, oracle=oracle)
    problem = problem_of(MODELS["random"], rho)
    runs = many_runs(problem, explorer, [500], range(2))
    assert runs.visits.sum() == 1000
    assert not problem.is_planned
    floor = 0.9 * least_shares(problem.coverage, problem.members.max_floor()[1]).min()
    assert problem.d_star.min() >= floor > 0
    assert problem.is_planned


def test_with_the_default_floor_algorithm_1_asks_for_the_plan():
    problem = problem_of(MODELS["random"], 2)
    many_runs(problem, "algorithm1", [100], [0])
    assert problem.is_planned


@pytest.mark.thorough
@pytest.mark.parametrize(("rho", "price", "error"), [(1, 5.4, 0.2), (2, 7.1, 0.2)])
def test_not_knowing_the_plan_costs_algorithm_1_what_the_page_says(rho, price, error):
    """The ratio of mean regrets at 100,000 steps, 40 runs each, within 5 standard errors of docs/paper.md's."""
    problem = problem_of(MODELS["river"], rho)
    numbers = []
    for eta in (WITHOUT_PLAN, None):
        mean, own = mean_and_error(
            many_runs(problem, rc.Algorithm1(eta=eta), [100_000], range(1000, 1040)).regret
        )
        numbers.append((mean[0], own[0] / mean[0]))
    ratio = numbers[0][0] / numbers[1][0]
    spread = np.hypot(ratio * np.hypot(numbers[0][1], numbers[1][1]), error)
    assert abs(ratio - price) <= 5 * spread, f"{ratio:.2f} ± {spread:.2f}"
    text = (Path(__file__).resolve().parents[2] / "docs" / "paper.md").read_text("utf-8")
    assert re.search(rf"{price} ± {error} times (the regret )?at\s+\S+ = {rho}\b", text)


def test_the_setting_is_stored_by_its_name_and_other_words_are_refused():
    explorer = rc.Algorithm1(eta=WITHOUT_PLAN)
    assert explorer_from_document(explorer_document(explorer)) == explorer
    with pytest.raises(rc.errors.InvalidArgumentError) as caught:
        rc.Algorithm1(eta="max_floor")
    assert str(caught.value) == (
        "`eta` must be a number, got 'max_floor'. "
        'None derives it from the plan, "without_plan" from a linear program.'
    )


@pytest.mark.thorough
def test_a_run_without_the_plan_goes_to_the_same_optimum():
    """With episodes of 50 steps the regret falls to less than a half while the steps grow 8 times, on two models."""
    for mdp in (MODELS["river"], one_state()):
        explorer = rc.Algorithm1(eta=WITHOUT_PLAN, schedule=rc.Constant(50))
        early, late = many_runs(problem_of(mdp, 2), explorer, [1000, 8000], range(8)).regret.mean(axis=0)
        assert late < early / 2
