"""The wrapper keeps what it promises where HiGHS alone does not: each trap is one test.

The named mutants: no check of costs, no scaling of costs or variables, a point read at any status, bounds
or equations not computed again, a basis kept by default, dual signs flipped.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from rhocover import Occupancies, envs, linear_program
from rhocover.errors import InvalidArgumentError, SolverError
from rhocover.linear_program import FEASIBILITY, InfeasibleProgramError, LinearProgram
from tiers import tiered

reproducible = settings(max_examples=40, deadline=None, derandomize=True)


def simplex_program(size: int, lower: float = 0.0) -> LinearProgram:
    """Returns the program over the probability simplex: its optimum is the largest cost."""
    return LinearProgram(sp.csr_array(np.ones((1, size))), np.ones(1), lower)


def occupancy_program(members: Occupancies, **options: bool) -> LinearProgram:
    return LinearProgram(*members.equations(), members.floor, **options)


def spread_costs(members: Occupancies, count: int):
    """Yields costs as Frank-Wolfe makes them, d^-2 spread over eight decades: HiGHS fails on some."""
    program, d = occupancy_program(members), np.full(members.num_pairs, 1 / members.num_pairs)
    for k in range(count):
        costs = (d / d.min()) ** -2.0
        yield costs
        beta = 2 / (k + 2.5)
        d = (1 - beta) * d + beta * (program.solve(costs).x + 1e-4 / members.num_pairs)


@reproducible
@given(st.integers(0, 10**6))
def test_over_the_simplex_the_optimum_is_the_largest_cost(seed):
    costs = np.random.default_rng(seed).normal(size=int(seed % 20) + 1)
    solution = simplex_program(costs.size).solve(costs)
    assert solution.value == pytest.approx(costs.max(), abs=1e-14)  # one product and a sum
    assert solution.x[np.argmax(costs)] == pytest.approx(1, abs=1e-14)


def test_a_lower_bound_leaves_the_rest_to_the_largest_cost():
    solution = simplex_program(4, lower=0.1).solve([1.0, 2.0, 5.0, 3.0])
    assert solution.x == pytest.approx([0.1, 0.1, 0.7, 0.1], abs=1e-14)


def test_each_variable_may_have_its_own_lower_bound():
    program = LinearProgram(sp.csr_array(np.ones((1, 3))), [1.0], [0.2, -0.5, 0.0])
    assert program.solve([1.0, 0.0, 3.0]).x == pytest.approx([0.2, -0.5, 1.3], abs=1e-14)


@reproducible
@given(st.integers(0, 10**6))
def test_the_multipliers_certify_the_optimum(seed):
    rng = np.random.default_rng(seed)
    mdp = envs.garnet(num_states=6, num_actions=3, seed=seed % 50)
    members = Occupancies.average(mdp, eta=float(rng.choice([0.0, 1e-4])))
    costs = rng.normal(size=members.num_pairs) * 10.0 ** rng.integers(-9, 9)
    program = occupancy_program(members)
    solution = program.solve(costs)
    reduced = costs - program.matrix.T @ solution.dual
    size = np.abs(costs).max()
    assert reduced.max() <= 1e-8 * size  # the loosest tolerance that HiGHS is given
    bound = program.right_side @ solution.dual + program.lower @ reduced
    assert solution.value == pytest.approx(bound, abs=1e-8 * size)


def test_the_largest_floor_of_river_swim_is_the_published_one():
    t_star, d = Occupancies.average(envs.river_swim()).max_floor()
    assert t_star == pytest.approx(0.0433737987, abs=1e-10)  # the digits given
    assert d.min() == pytest.approx(t_star, abs=1e-14)


# Traps.


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_cost_that_is_not_finite_is_refused_before_highs_sees_it(bad):
    with pytest.raises(InvalidArgumentError, match=r"`costs` must be finite, got costs\[2\]"):
        simplex_program(4).solve([0.0, 1.0, bad, 2.0])


@pytest.mark.parametrize("factor", [1e-300, 1e-20, 1e13, 1e20, 1e300])
def test_costs_of_any_magnitude_have_the_same_optimum(factor):
    members = Occupancies.average(envs.grid_world(num_rows=4))
    costs = np.random.default_rng(0).normal(size=members.num_pairs)
    program = occupancy_program(members)
    scaled = program.solve(factor * costs)
    assert scaled.value / factor == pytest.approx(program.solve(costs).value, abs=1e-9)  # HiGHS tolerance
    assert np.isfinite(scaled.dual).all()


def test_zero_costs_give_some_feasible_point():
    members = Occupancies.average(envs.river_swim())
    solution = occupancy_program(members).solve(np.zeros(members.num_pairs))
    assert solution.value == 0
    assert members.contains(solution.x, FEASIBILITY)


@pytest.mark.parametrize("part", tiered([0.0, 0.5]))
def test_bounds_hold_exactly_and_equations_to_eleven_digits_at_9216_pairs(part):
    members = Occupancies.average(envs.grid_world(num_rows=48), eta=part / (2 * 4 * 48 * 48))
    program = occupancy_program(members)
    x = program.solve(np.random.default_rng(1).normal(size=members.num_pairs)).x
    assert (x >= members.floor).all()
    assert np.abs(program.matrix @ x - program.right_side).max() <= FEASIBILITY


def test_coefficients_below_a_billionth_are_not_dropped():
    matrix = sp.csr_array([[1e-10, -1.0, 0.0], [1.0, 0.0, 1.0]])
    solution = LinearProgram(matrix, [0.0, 1.0], 0.0).solve([0.0, 1.0, 0.0])
    assert solution.value == pytest.approx(1e-10, rel=1e-6)  # tolerance 1e-9 on x times 2^14


@pytest.mark.parametrize("eta", tiered([0.0, 0.05 / (2 * 4 * 256)]))
def test_costs_over_eight_decades_on_a_grid_are_solved_though_highs_gives_up_on_some(eta):
    members = Occupancies.average(envs.grid_world(num_rows=16), eta=eta)
    solved = list(spread_costs(members, 14))  # at eta = 0 HiGHS 1.15 ends one of these in "Solve error"
    assert len(solved) == 14


def test_where_presolve_ends_at_a_singular_basis_the_optimum_is_found_without_it():
    """Costs that Algorithm 1 met on four rooms: HiGHS 1.15 with presolve ends with no status at all."""
    members = Occupancies.average(envs.four_rooms(), eta=0.0009028250602778096)
    costs = np.load(Path(__file__).with_name("singular_costs.npy")).astype(float)
    assert occupancy_program(members).solve(costs).value == pytest.approx(0.374, abs=1e-3)


def test_a_program_without_a_feasible_point_says_so():
    with pytest.raises(InfeasibleProgramError, match="no feasible point"):
        simplex_program(4, lower=0.3).solve(np.ones(4))


def test_a_program_without_an_optimum_says_what_highs_found():
    program = LinearProgram(sp.csr_array([[1.0, -1.0]]), [0.0], 0.0)
    with pytest.raises(SolverError, match="Unbounded"):
        program.solve([1.0, 1.0])


def test_an_optimal_status_is_not_believed_without_the_equations(monkeypatch):
    monkeypatch.setattr(linear_program, "FEASIBILITY", -1.0)
    with pytest.raises(SolverError, match="off the constraints"):
        simplex_program(3).solve([1.0, 2.0, 3.0])


def test_constraints_are_checked_at_the_door():
    with pytest.raises(InvalidArgumentError, match="`right_side` must have shape"):
        LinearProgram(sp.csr_array(np.ones((1, 3))), np.ones(2), 0.0)
    with pytest.raises(InvalidArgumentError, match="`lower` must have shape"):
        LinearProgram(sp.csr_array(np.ones((1, 3))), np.ones(1), np.zeros(2))
    with pytest.raises(InvalidArgumentError, match=r"`matrix.data` must be finite"):
        LinearProgram(sp.csr_array([[1.0, np.nan]]), np.ones(1), 0.0)
    with pytest.raises(InvalidArgumentError, match="`costs` must have shape"):
        simplex_program(3).solve(np.ones(4))


# Starting warm and cold.


def test_a_solve_does_not_depend_on_what_was_solved_before():
    members = Occupancies.average(envs.garnet(num_states=30, num_actions=3))
    first, *rest = np.random.default_rng(2).normal(size=(4, members.num_pairs))
    fresh, used = occupancy_program(members), occupancy_program(members)
    for costs in rest:
        used.solve(costs)
    assert np.array_equal(used.solve(first).x, fresh.solve(first).x)


@pytest.mark.parametrize("make", tiered([envs.river_swim, envs.garnet, envs.grid_world]))
def test_keeping_the_basis_changes_no_optimum(make):
    members = Occupancies.average(make())
    warm, cold = occupancy_program(members, keep_basis=True), occupancy_program(members)
    rng = np.random.default_rng(3)
    costs = rng.random(members.num_pairs)
    for _ in range(20):
        costs = costs * np.exp(0.1 * rng.normal(size=costs.size))
        assert warm.solve(costs).value == pytest.approx(cold.solve(costs).value, abs=1e-9 * costs.max())


def test_a_basis_that_loses_is_left_alone_for_twice_as_long_each_time():
    backoff = linear_program._Backoff(ready=True)
    tried = []
    for step in range(30):
        if backoff.try_now():
            tried.append(step)
            backoff.report(success=False)
    assert np.diff(tried).tolist() == [2, 4, 8, 16][: len(tried) - 1]
