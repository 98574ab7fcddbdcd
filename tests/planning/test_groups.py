"""Covering groups of pairs under side conditions: the programs, their optima, bounds and prices."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import rhocover as rc
from rhocover.coverage import Coverage
from rhocover.linalg.normal_equations import one_blas_thread
from rhocover.occupancy import Occupancies
from rhocover.oracles import best_response
from rhocover.planning.groups import GroupProgram, SideCondition, group_program
from rhocover.planning.interior_point import Progress, interior_point
from tests.tiers import tiered

inf = float("inf")
RHOS = (0.0, 1e-3, 0.1, 0.3, 0.5, 1.0, 1.5, 2.0, 8.0, 64.0, inf)


def solved(asked: GroupProgram, tol: float = 1e-9) -> Progress:
    """Returns the optimum; below rho = 1 the divergence is of order rho, and so is the tolerance."""
    with one_blas_thread():
        return interior_point(asked.program, tol=tol * (min(1.0, asked.program.rho) or 1.0), max_steps=200)


def by_state(mdp: rc.MDP) -> sp.csr_array:
    """Returns C for states: the sum over their actions."""
    n = mdp.num_pairs
    return sp.csr_array((np.ones(n), (mdp.pair_state, np.arange(n))), shape=(mdp.num_states, n))


def river() -> tuple[rc.MDP, Occupancies]:
    mdp = rc.envs.river_swim(num_states=6)
    return mdp, Occupancies.average(mdp)


@pytest.mark.parametrize(
    ("rho", "expected"), [(1.0, 0.004096198), (2.0, 0.008101347), (8.0, 0.027229319), (inf, 0.054867561)]
)
def test_states_of_river_swim_have_the_known_divergence(rho: float, expected: float) -> None:
    mdp, members = river()
    found = solved(group_program(members, rho, np.ones(6), by_state(mdp)))
    assert found.divergence == pytest.approx(expected, abs=2e-9)  # the known digits, and the tolerance
    assert 0 <= found.gap + 1e-12 <= 1e-9 + 1e-12


@pytest.mark.parametrize(
    ("limit", "rho", "expected"),
    [
        (0.5, 1.0, 0.341036375), (0.5, 2.0, 0.586659695), (0.5, inf, 1.044707024),
        (0.4, 1.0, 0.518404987), (0.4, 2.0, 0.805155821), (0.4, inf, 1.267850575),
    ],
)  # fmt: skip
def test_pairs_with_a_bound_on_right_have_the_known_divergence(
    limit: float, rho: float, expected: float
) -> None:
    mdp, members = river()
    right = SideCondition((mdp.pair_action == 1).astype(float), limit)
    asked = group_program(members, rho, np.ones(12), sp.eye_array(12, format="csr"), [right])
    found = solved(asked)
    assert found.divergence == pytest.approx(expected, abs=2e-9)
    assert asked.occupancy(found.d)[mdp.pair_action == 1].sum() == pytest.approx(limit, abs=1e-7)


@pytest.mark.parametrize(
    ("share", "rho", "expected"),
    [(0.5, 1.0, 0.405868833), (0.5, 2.0, 0.726788320), (0.5, inf, 1.238889687),
     (0.9, 1.0, 1.503559043), (0.9, 2.0, 2.269313572), (0.9, inf, 2.848327619)],
)  # fmt: skip
def test_pairs_that_keep_a_return_have_the_known_divergence(
    share: float, rho: float, expected: float
) -> None:
    """The digits known are those of a return that is 1e-9 too high, all six of them: prices up to 23 make 2e-8."""
    _, members = river()
    reward = np.zeros(12)
    reward[0], reward[11] = 0.005, 1.0  # left in the first state, right in the last
    kept = SideCondition(-reward, -share * best_response(members, reward).value)
    found = solved(group_program(members, rho, np.ones(12), sp.eye_array(12, format="csr"), [kept]))
    assert found.divergence == pytest.approx(expected, abs=3e-8)


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2.0]))
def test_groups_of_one_pair_each_are_pairs(rho: float) -> None:
    mdp, members = river()
    mu = np.random.default_rng(3).uniform(0.5, 2.0, 12)
    found = solved(group_program(members, rho, mu, sp.eye_array(12, format="csr")))
    assert found.divergence == pytest.approx(rc.plan(mdp, rho, mu).divergence, abs=3e-9)


@pytest.mark.parametrize("rho", tiered(RHOS, short=[0.0, 1.0, inf]))
@pytest.mark.parametrize("num_conditions", [0, 1, 3])
def test_the_bound_holds_for_occupancies_that_meet_the_conditions(rho: float, num_conditions: int) -> None:
    """Policies that mix the optimum with others, as far as the conditions allow, are never below the bound."""
    mdp = rc.envs.four_rooms()
    members, rng, n = Occupancies.average(mdp), np.random.default_rng(0), mdp.num_pairs
    mu, C = rng.uniform(0.1, 1.0, mdp.num_states), by_state(mdp)
    uniform = members.from_policy(mdp.table(1 / np.bincount(mdp.pair_state)[mdp.pair_state]))
    values = [rng.uniform(size=n) for _ in range(num_conditions)]
    conditions = [SideCondition(v, 0.98 * float(v @ uniform)) for v in values]
    asked = group_program(members, rho, mu, C, conditions)
    found = solved(asked, tol=1e-8)
    assert abs(found.gap) <= 1e-8
    assert found.taken <= 80
    best, coverage = asked.occupancy(found.d), Coverage(rho, mu)
    for _ in range(50):
        other = members.from_policy(mdp.table(_random_policy(mdp, rng)))
        shares = [0.3, *(_room(c, best, other) for c in conditions)]
        mixed = best + min(shares) * (other - best)
        assert coverage.divergence(C @ mixed) >= found.lower_bound - 1e-12


def _random_policy(mdp: rc.MDP, rng: np.random.Generator) -> np.ndarray:
    odds = rng.exponential(size=mdp.num_pairs)
    return odds / np.bincount(mdp.pair_state, odds)[mdp.pair_state]


def _room(condition: SideCondition, d: np.ndarray, other: np.ndarray) -> float:
    """Returns the largest share of the way to `other` that the condition allows."""
    slack, rise = condition.limit - condition.values @ d, condition.values @ (other - d)
    return 1.0 if rise <= 0 else float(max(0.0, min(1.0, slack / rise)))


@pytest.mark.parametrize("rho", [1.0, 2.0, inf])
def test_the_price_of_a_condition_is_the_slope_of_the_optimum(rho: float) -> None:
    mdp, members = river()
    right, eye, step = (mdp.pair_action == 1).astype(float), sp.eye_array(12, format="csr"), 1e-4

    def at(limit: float) -> tuple[float, float]:
        asked = group_program(members, rho, np.ones(12), eye, [SideCondition(right, limit)])
        found = solved(asked, tol=1e-10)
        return found.divergence, float(asked.prices(found.multipliers)[0])

    slope = (at(0.45 - step)[0] - at(0.45 + step)[0]) / (2 * step)
    assert at(0.45)[1] == pytest.approx(slope, rel=1e-4)


def test_a_condition_that_does_not_bind_costs_nothing() -> None:
    mdp, members = river()
    right, eye = (mdp.pair_action == 1).astype(float), sp.eye_array(12, format="csr")
    asked = group_program(members, 2.0, np.ones(12), eye, [SideCondition(right, 0.99)])
    found = solved(asked)
    assert found.divergence == pytest.approx(rc.plan(mdp, 2.0).divergence, abs=2e-9)
    assert asked.prices(found.multipliers)[0] <= 1e-8


@pytest.mark.parametrize("rho", tiered([0.3, 1.0, 2.0, inf], short=[2.0]))
@pytest.mark.parametrize("criterion", ["discounted", "horizon"])
def test_states_are_covered_with_restarts_too(rho: float, criterion: str) -> None:
    """Against the same divergence, minimised over a fine grid of mixtures of its own optimum: none is lower."""
    mdp, _ = river()
    members = (
        Occupancies.discounted(mdp, 0.95, start=0)
        if criterion == "discounted"
        else Occupancies.horizon(mdp, 12, start=0)
    )
    state = members.mdp.pair_state[members.pair]
    n = members.num_pairs
    C = sp.csr_array((np.ones(n), (state, np.arange(n))), shape=(6, n))
    asked = group_program(members, rho, np.ones(6), C)
    found = solved(asked)
    assert abs(found.gap) <= 1e-9
    d = asked.occupancy(found.d)
    assert members.contains(d, 1e-9)
    assert Coverage(rho, np.ones(6)).divergence(C @ d) == pytest.approx(found.divergence, abs=1e-9)


def test_a_large_sparse_program_is_certified() -> None:
    """2,500 states: the sparse factorisation, with rows of groups first and the condition last."""
    mdp = rc.envs.grid_world(num_rows=50)
    members, rng = Occupancies.average(mdp), np.random.default_rng(1)
    condition = SideCondition(rng.uniform(size=mdp.num_pairs), 0.45)
    asked = group_program(members, 2.0, rng.uniform(0.1, 1.0, mdp.num_states), by_state(mdp), [condition])
    found = solved(asked, tol=1e-8)
    assert abs(found.gap) <= 1e-8
    assert found.taken <= 80
    assert members.contains(asked.occupancy(found.d), 1e-9)
    assert float(condition.values @ asked.occupancy(found.d)) <= condition.limit + 1e-9
