"""Interior point, Frank-Wolfe, CVXPY with Clarabel, dense and sparse back ends: one optimum.

Every plan proves an interval [lower bound, divergence] that holds the smallest divergence of the set. All
intervals of one problem must meet, whoever found them; so a wrong certificate of any method shows, and a
method that stopped early is compared as well. The models are those of `differing_cases`, 2,100 of them.
"""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import pytest
from differing_cases import BLOCK_SIZE, BLOCKS, INF, NUM_CASES, Case, random_case
from second_opinions import cvxpy_divergence, dense_solver, foreign_order, sparse_solver

from rhocover import MDP, Plan, plan
from rhocover.linalg.dissection import nested_dissection
from rhocover.planning import PlanStatus
from tiers import tiered

TOL = 1e-8  # of `plan`
ROUNDING = 1e-12  # of a divergence near 10 at rho = 30: some hundred units in the last place
# With a floor, plans and linear programs may miss it by 1e-9 (the tolerance of membership and of HiGHS), and
# a divergence there is below the optimum by the floor's multiplier times that, which is near 10 at most.
FLOORED = 1e-8
FRANK_WOLFE = (("frank_wolfe", 6), ("frank_wolfe_line_search", 15), ("frank_wolfe_plain", 15))  # and steps
# Clarabel stops at 1e-8 of an objective that is a sum of powers: this much of a divergence, or better.
CVXPY_ACCURACY = 1e-6
# Of 50 models: how often CVXPY may fail by its own account, and how often it may be less accurate than that.
CVXPY_FAILS, CVXPY_INACCURATE = 10, 5


@pytest.mark.parametrize("block", tiered(range(BLOCKS)))
def test_all_methods_prove_intervals_that_meet(block, record_property):
    count: Counter[str] = Counter()
    for seed in range(block * BLOCK_SIZE, (block + 1) * BLOCK_SIZE):
        compare(random_case(seed), count)
    for name, value in sorted(count.items()):
        record_property(name, value)
        print(f"{name}: {value}")
    assert count["models"] == count["solved"] == BLOCK_SIZE
    assert count["back ends"] == 3 * BLOCK_SIZE
    assert count["CVXPY fails"] <= CVXPY_FAILS
    assert count["CVXPY inaccurate"] <= CVXPY_INACCURATE


def compare(case: Case, count: Counter[str]) -> None:
    best = planned(case)
    count["models"] += 1
    count["solved"] += best.status is PlanStatus.SOLVED and best.gap <= TOL * min(1.0, case.rho or 1.0)
    for solver in (dense_solver(), sparse_solver(nested_dissection), sparse_solver(foreign_order)):
        with solver:
            meet(case, best, planned(case))
        count["back ends"] += 1
    if case.rho < INF:
        method, most = FRANK_WOLFE[case.seed % 3]
        meet(case, best, planned(case, method=method, tol=1e-6, max_steps=most, throw=False))
        count[method] += 1
    compare_with_cvxpy(case, best, count)


def planned(case: Case, **how) -> Plan:
    return plan(case.mdp, case.rho, case.mu, **case.options, **how)


def meet(case: Case, one: Plan, other: Plan) -> None:
    """The two intervals meet, to rounding."""
    slack = FLOORED if case.options.get("eta") else ROUNDING
    assert one.lower_bound <= other.divergence + slack, case
    assert other.lower_bound <= one.divergence + slack, case
    if one.status is other.status is PlanStatus.SOLVED:
        assert abs(one.divergence - other.divergence) <= max(one.gap, other.gap) + slack, case


def compare_with_cvxpy(case: Case, best: Plan, count: Counter[str]) -> None:
    """CVXPY's policy is never better than the bound, and hardly ever worse than the plan."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where it is inaccurate; that is counted here
        value = cvxpy_divergence(case)
    if value is None:
        count["CVXPY fails"] += 1
        return
    count["CVXPY"] += 1
    assert value >= best.lower_bound - (FLOORED if case.options.get("eta") else ROUNDING), case
    count["CVXPY inaccurate"] += value > best.divergence + CVXPY_ACCURACY


@pytest.mark.thorough
def test_more_than_two_thousand_different_problems_are_compared():
    cases = [random_case(seed) for seed in range(NUM_CASES)]
    assert NUM_CASES >= 2000
    assert (
        len({(case.mdp.fingerprint, case.rho, case.mu.tobytes(), str(case.options)) for case in cases})
        >= 2000
    )
    kinds = Counter(kind for case in cases for kind in kinds_of(case))
    assert len(kinds) == 14
    assert min(kinds.values()) >= 100, kinds


def kinds_of(case: Case) -> list[str]:
    """Returns what is special about a problem."""
    mdp, mu = case.mdp, case.mdp.per_pair(case.mu, "mu")
    positive, actions = mu[mu > 0], np.bincount(mdp.pair_state)
    is_deterministic = mdp.transitions.nnz == mdp.num_pairs
    criterion = next((key for key in ("discount", "horizon") if key in case.options), "average")
    return [
        criterion,
        "deterministic" if is_deterministic else "stochastic",
        "all successors" if mdp.transitions.nnz == mdp.num_pairs * mdp.num_states else "few successors",
        "one action set" if np.ptp(actions) == 0 else "different action sets",
        "floor" if "eta" in case.options else "no floor",
        "zero weights" if (mu == 0).any() else "all weighted",
        *(["spread of 1e4 and more"] if positive.max() / positive.min() > 1e4 else []),
    ]


# --- how a model is given ------------------------------------------------------------------------------


@pytest.mark.parametrize("block", tiered(range(10)))
def test_dense_and_sparse_transitions_are_the_same_model(block):
    """The plan has the same bits: what is stored is sparse, however it came."""
    for seed in range(20 * block, 20 * (block + 1)):
        case = random_case(seed)
        mdp = case.mdp
        P = mdp.dense()
        available = mdp.table(np.ones(mdp.num_pairs)) > 0
        P[~available] = np.eye(mdp.num_states)[0]  # what an absent action would do is of no interest
        dense = MDP(P, available=available, start=mdp.start)
        listed = MDP.from_pairs(
            mdp.transitions.tocoo(),
            mdp.pair_state,
            mdp.pair_action,
            num_actions=mdp.num_actions,
            start=mdp.start,
        )
        best = planned(case)
        for twin in (dense, listed):
            assert twin.fingerprint == mdp.fingerprint, case
            again = plan(twin, case.rho, case.mu, **case.options)
            assert again.occupancy.tobytes() == best.occupancy.tobytes(), case
