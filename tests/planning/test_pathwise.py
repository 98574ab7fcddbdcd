"""The best point with a given flow residual, against CVXPY and linear programming, and the projection.

Residuals are those of visits that no trajectory need have made: any d_hat > 0 is allowed.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog

import rhocover as rc
from rhocover import MDP, Coverage, Occupancies
from rhocover.theory import limits as projection_module
from rhocover.theory.limits import FlowProjection, PathwiseProblem
from small_models import random_model
from tiers import tiered

INF = float("inf")
RHOS = [0, 0.5, 1, 2, 4, 16, INF]


MODELS = {"random": random_model(1), "larger": random_model(2, 12), "river": rc.envs.river_swim(),
          "deterministic": rc.envs.double_chain(num_states=7), "one state": MDP(np.ones((1, 3, 1)))}  # fmt: skip


def case(model: str, seed: int, spread: float = 0.3) -> tuple[Occupancies, np.ndarray, np.ndarray]:
    """Returns a set, weights that sum to 1, and visits a little off an occupancy."""
    mdp, rng = MODELS[model], np.random.default_rng(seed)
    members = Occupancies.average(mdp)
    policy = rng.random(mdp.num_pairs) + 0.2
    policy /= np.bincount(mdp.pair_state, policy)[mdp.pair_state]
    d = members.from_policy(policy) * np.exp(spread * rng.normal(size=mdp.num_pairs))
    mu = rng.random(mdp.num_pairs) + 0.1
    return members, mu / mu.sum(), d / d.sum()


def rows(members: Occupancies) -> np.ndarray:
    return np.vstack([members.flow.toarray(), np.ones(members.num_pairs)])


# --- pathwise optima ----------------------------------------------------------------------------------


def cvxpy_best(members: Occupancies, mu: np.ndarray, d_hat: np.ndarray, rho: float) -> float:
    """Returns the smallest divergence with the residual of d_hat, by Clarabel at 1e-9."""
    n, B = mu.size, rows(members)
    x = cp.Variable(n)  # n d, so that numbers are near 1
    if rho == 1:
        objective = cp.Maximize(mu @ cp.log(x))
    elif rho == 0:
        objective = cp.Minimize(cp.sum(cp.kl_div(x, n * mu)))
    else:
        power = (n * mu) ** rho @ cp.power(x, 1 - rho, approx=False) / n
        objective = cp.Minimize(power) if rho > 1 else cp.Maximize(power)
    problem = cp.Problem(objective, [B @ x == n * (B @ d_hat), x >= 0])
    problem.solve(cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return Coverage(rho, mu).divergence(np.maximum(x.value, 0.0) / n)


@pytest.mark.parametrize("seed", tiered(range(3)))
@pytest.mark.parametrize("rho", tiered([0, 0.5, 1, 2, 4], short=[2]))
@pytest.mark.parametrize("model", tiered(["random", "larger", "river"]))
def test_the_best_with_a_residual_is_that_of_cvxpy(model, rho, seed):
    # Mutants: the mass row without its inflow, k0 of another point, the sign of the residual.
    members, mu, d_hat = case(model, seed)
    found = PathwiseProblem(members, Coverage(rho, mu)).best(d_hat, tol=1e-10)
    assert found.gap <= 1e-9
    assert found.divergence == pytest.approx(
        cvxpy_best(members, mu, d_hat, rho), abs=1e-6
    )  # Clarabel's 1e-9, times potentials


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("model", ["random", "larger", "river", "deterministic"])
def test_the_best_worst_case_with_a_residual_is_a_linear_program(model, seed):
    """max level with d >= level mu, by SciPy."""
    members, mu, d_hat = case(model, seed)
    found = PathwiseProblem(members, Coverage(INF, mu)).best(d_hat, tol=1e-10)
    B, n = rows(members), mu.size
    answer = linprog(
        np.append(np.zeros(n), -1.0), A_eq=np.column_stack([B, np.zeros(len(B))]), b_eq=B @ d_hat,
        A_ub=np.column_stack([-np.eye(n), mu]), b_ub=np.zeros(n), bounds=(0, None),
    )  # fmt: skip
    assert found.divergence == pytest.approx(-np.log(-answer.fun), abs=1e-8)


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
@pytest.mark.parametrize("model", tiered(MODELS))
def test_the_best_has_the_residual_and_the_mass_of_the_visits_and_is_no_worse(model, rho):
    for seed in range(3):
        members, mu, d_hat = case(model, seed)
        coverage = Coverage(rho, mu)
        found = PathwiseProblem(members, coverage).best(d_hat, tol=1e-9)
        assert found.occupancy.min() >= 0
        assert rows(members) @ found.occupancy == pytest.approx(rows(members) @ d_hat, abs=1e-9)
        assert found.divergence == coverage.divergence(found.occupancy)
        assert 0 <= found.gap <= 1e-8
        assert found.divergence <= coverage.divergence(d_hat) + found.gap


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
@pytest.mark.parametrize("model", tiered(["random", "river", "larger"]))
def test_an_optimum_has_no_regret(model, rho):
    """Where d_hat itself is the best with its residual: the plan's occupancy, and any pathwise optimum."""
    members, mu, d_hat = case(model, 5)
    coverage = Coverage(rho, mu)
    problem = PathwiseProblem(members, coverage)
    best = rc.plan(members.mdp, rho, mu, tol=1e-10)
    d_star = members.mdp.per_pair(best.occupancy, "d")
    found = problem.best(d_star, tol=1e-10)
    assert best.divergence == pytest.approx(found.divergence, abs=1e-9)
    if rho < INF:
        again = problem.best(problem.best(d_hat, tol=1e-11).occupancy, tol=1e-11)
        assert again.divergence == pytest.approx(problem.best(d_hat, tol=1e-11).divergence, abs=1e-9)


@pytest.mark.parametrize("rho", [0.5, 1, 2, 16, INF])
def test_no_point_with_the_residual_is_better_than_the_certificate(rho):
    """d_hat plus any direction that leaves flow and mass alone, as far as it stays positive."""
    members, mu, d_hat = case("larger", 7)
    coverage = Coverage(rho, mu)
    found = PathwiseProblem(members, coverage).best(d_hat, tol=1e-9)
    B, rng = rows(members), np.random.default_rng(0)
    free = np.eye(mu.size) - np.linalg.pinv(B) @ B
    for base in (d_hat, found.occupancy):
        for _ in range(100):
            way = free @ rng.normal(size=mu.size)
            room = np.min(np.where(way < 0, base / np.maximum(-way, 1e-300), np.inf))
            other = np.maximum(base + rng.random() * room * way, 0.0)
            assert coverage.divergence(other) >= found.divergence - found.gap - 1e-12


@pytest.mark.parametrize("rho", [0.5, 1, 2, INF])
def test_pairs_without_weight_take_up_the_residual(rho):
    members, mu, d_hat = case("larger", 8)
    mu = mu.copy()
    mu[::4] = 0.0
    mu /= mu.sum()
    found = PathwiseProblem(members, Coverage(rho, mu)).best(d_hat, tol=1e-9)
    assert found.gap <= 1e-7
    assert rows(members) @ found.occupancy == pytest.approx(rows(members) @ d_hat, abs=1e-9)
    if 0 < rho < INF and rho != 1:
        B = rows(members)
        d, k = cp.Variable(mu.size), np.flatnonzero(mu)
        power = mu[k] ** rho @ cp.power(d[k], 1 - rho, approx=False)
        objective = cp.Minimize(power) if rho > 1 else cp.Maximize(power)
        reference = cp.Problem(objective, [B @ d == B @ d_hat, d >= 0])
        reference.solve(cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        expected = Coverage(rho, mu).divergence(np.maximum(d.value, 0.0))
        assert found.divergence == pytest.approx(expected, abs=1e-6)


def test_one_problem_answers_many_visits_and_forgets_them():
    members, mu, first = case("river", 1)
    other = case("river", 2)[2]
    problem = PathwiseProblem(members, Coverage(2, mu))
    before = problem.best(first).occupancy
    problem.best(other)
    np.testing.assert_array_equal(problem.best(first).occupancy, before)


# --- the projection -----------------------------------------------------------------------------------


@pytest.mark.parametrize("refine", [True, False])
@pytest.mark.parametrize("model", MODELS)
def test_the_explained_part_has_the_flow_and_the_mass_and_is_the_shortest(model, refine):
    """B g = B v, and v - g is orthogonal to g in H = 1/W: Pythagoras."""
    members, W, _ = case(model, 3)
    B, projection = rows(members), FlowProjection(members, 5 * W)
    for seed in range(5):
        v = 100 * np.random.default_rng(seed).normal(size=W.size)
        g = projection.explained(v, refine=refine)
        assert B @ g == pytest.approx(B @ v, abs=1e-9)
        assert abs(g @ ((v - g) / W)) <= 1e-9 * (v @ (v / W))
        expected = W * (B.T @ (np.linalg.pinv(B * W @ B.T) @ (B @ v)))
        assert g == pytest.approx(expected, abs=1e-8)
        assert projection.explained(g, refine=refine) == pytest.approx(g, abs=1e-9)  # a projection


@pytest.mark.parametrize("model", MODELS)
def test_the_inverse_is_that_of_the_flow_equations_with_the_mass_in_the_last_row(model):
    members, W, _ = case(model, 4)
    projection = FlowProjection(members, 7 * W)
    B = np.vstack([members.flow.toarray()[:-1], np.ones(W.size)])
    assert pytest.approx(W / W.max(), rel=1e-14) == projection.W
    product = projection.inverse() @ (B * projection.W @ B.T)
    assert product == pytest.approx(np.eye(len(B)), abs=1e-9)


@pytest.mark.parametrize("model", ["random", "larger", "river", "deterministic"])
def test_the_energy_is_that_of_the_shortest_vector_with_this_flow_and_no_mass(model):
    """In the units of W as it was given, not as it was scaled."""
    members, W, _ = case(model, 5)
    W = 3 * W
    B = np.vstack([members.flow.toarray()[:-1], np.ones(W.size)])
    flow = np.random.default_rng(0).normal(size=len(B) - 1)
    right = np.append(flow, 0.0)
    expected = right @ np.linalg.solve(B * W @ B.T, right)
    assert FlowProjection(members, W).energy(flow) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("spread", tiered([0, 2, 4]))
def test_dense_and_sparse_factorisations_agree(spread, monkeypatch):
    """Weights W spread over up to 10^±4 (a normal exponent), on a grid of 400 states."""
    mdp = rc.envs.grid_world(num_rows=20)
    members, rng = Occupancies.average(mdp), np.random.default_rng(0)
    W = np.exp(spread * rng.normal(size=mdp.num_pairs))
    v = rng.normal(size=mdp.num_pairs)
    answers = []
    for dense_rows in (10_000, 10):
        monkeypatch.setattr("rhocover.linalg.normal_equations.DENSE_ROWS", dense_rows)
        projection = FlowProjection(members, W)
        answers.append((projection.explained(v), projection.energy((members.flow @ v)[:-1])))
    assert answers[0][0] == pytest.approx(answers[1][0], abs=1e-8)
    assert answers[0][1] == pytest.approx(answers[1][1], rel=1e-8)
    assert projection_module.DENSE_STATES >= 1
