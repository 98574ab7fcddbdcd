"""A Newton direction solves the linearised equations of the interior point, term by term.

The equations are those of `rhocover.planning.interior_point` and `newton`, written out here once more for a
random interior iterate that satisfies none of them. What is left over is rounding: every term is below 1e3
and the systems are small, so 1e-9 is some thousand units in the last place.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rhocover import Coverage
from rhocover.occupancy import Occupancies
from rhocover.planning import newton as newton_module
from rhocover.planning.newton import (
    Correction,
    FlooredNewton,
    Iterate,
    Newton,
    ShiftedNewton,
    centre_of,
    floored_start,
    point_of,
    products_of,
    starting_point,
    to_zero,
    warm_point,
)
from rhocover.planning.program import make_program
from small_models import random_model

INF = float("inf")
RHOS = [0.0, 0.3, 0.5, 1.0, 2.0, 8.0, INF]
SETS = {
    "average": lambda mdp: Occupancies.average(mdp),
    "discounted": lambda mdp: Occupancies.discounted(mdp, 0.8),
    "horizon": lambda mdp: Occupancies.horizon(mdp, 3),
}
SOLVERS = [
    *[("plain", criterion) for criterion in SETS],
    *[("floored", criterion) for criterion in SETS],
    ("shifted", "average"),
    ("shifted and floored", "average"),
]
TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}


def program_of(kind: str, criterion: str, rho: float, seed: int = 0):
    rng = np.random.default_rng(seed)
    members = SETS[criterion](random_model(seed))
    program = make_program(members, Coverage(rho, rng.random(members.num_pairs) + 0.2))
    if "shifted" in kind:
        program = replace(program, k0=program.K @ rng.dirichlet(np.ones(program.num_pairs)))
    if "floored" in kind:
        floor = 0.002 if criterion != "average" else 0.01 * rng.random(program.num_pairs) + 1e-4
        program = replace(program, floor=floor)
    return program


def solver_of(program, kind: str) -> Newton:
    return (
        FlooredNewton(program)
        if "floored" in kind
        else (ShiftedNewton if kind == "shifted" else Newton)(program)
    )


def iterate_of(program, kind: str, seed: int = 1) -> Iterate:
    """Returns an interior point that misses every equation."""
    rng = np.random.default_rng(seed)
    n = program.num_pairs
    nu = 0.3 * rng.normal(size=program.K.shape[0])
    c = rng.normal(size=n) if program.rho == 0 else rng.random(n) + 0.3
    x = np.zeros(n) if program.rho == 0 else rng.random(n) + 0.1
    theta = 1.0 if program.rho == 0 else 1.7
    floored = "floored" in kind
    y, z = (rng.random(n) + 0.1, rng.random(n) + 0.1) if floored else (0.0, 0.0)
    alpha = 0.8 if floored or "shifted" in kind else 1.0
    if not floored and not program.has_mass_row:
        alpha = 0.0
    return Iterate(nu, alpha, theta, c, x, y, z)


def second_order(program, kind: str) -> Correction:
    if program.rho == 0:
        return Correction()
    rng = np.random.default_rng(2)
    n = program.num_pairs
    bend = 0.0 if program.rho == INF else 0.1 * rng.normal(size=n)
    return Correction(0.1 * rng.normal(size=n), 0.1 * rng.normal(size=n) if "floored" in kind else 0.0, bend)


@pytest.fixture(
    params=[(*solver, rho) for solver in SOLVERS for rho in RHOS], ids=lambda p: f"{p[0]}-{p[1]}-{p[2]:g}"
)
def case(request):
    kind, criterion, rho = request.param
    program = program_of(kind, criterion, rho)
    solver, point = solver_of(program, kind), iterate_of(program, kind)
    solver._linearise(point)
    return kind, program, solver, point


def test_a_direction_solves_every_linearised_equation(case):
    kind, program, solver, point = case
    tau, second = 0.4, second_order(program, kind)
    d, m, rho = point_of(program, point.c, point.x), centre_of(program), program.rho
    for refine in (True, False):
        move = solver._direction(point, tau, second, refine=refine)
        dd, theta = solver._dd, point.theta + move.theta
        close = lambda a, b: np.testing.assert_allclose(a, b, **TOLERANCE)  # noqa: E731
        close(program.K @ (d + dd), program.k0 * theta)
        close(
            program.KT @ (point.nu + move.nu) + point.alpha + move.alpha, point.c + move.c + point.z + move.z
        )
        if rho == 0:
            close(dd, -d * move.c)
            assert not np.any(move.x)
            assert move.theta == 0
        else:
            own = (0.0 if rho == INF else (d - point.x) / (rho * point.c)) * move.c
            close(dd, move.x + second.bend - own)
            close(point.c * move.x + point.x * move.c, tau * m - point.x * point.c - second.x)
            if kind != "plain" or not program.has_mass_row:
                income = program.k0 @ (point.nu + move.nu) + point.alpha + move.alpha
                close(income - np.sum(program.floor * (point.z + move.z)), 1.0)
        if program.has_mass_row and (rho > 0 or kind != "plain"):
            close((d + dd).sum(), theta)
        if "floored" in kind:
            close(point.y + move.y, d + dd - program.floor * theta)
            close(point.y * move.z + point.z * move.y, tau * m - point.y * point.z - second.y)
        elif not program.has_mass_row:
            assert move.alpha == 0


def test_a_correction_holds_the_second_order_terms_along_the_guess(case):
    _, program, solver, point = case
    guess = solver._direction(point, 0.0, Correction())
    found = solver._correction(point, guess, 0.7)
    if program.rho == 0:
        assert not np.any(found.x)
        assert not np.any(found.bend)
        return
    np.testing.assert_allclose(found.x, 0.7 * guess.x * guess.c, rtol=1e-14)
    np.testing.assert_allclose(found.y, 0.7 * guess.y * guess.z, rtol=1e-14)
    t = 1e-3 / np.abs(guess.c / point.c).max()  # the fourth-order term is 1e-6 of the second
    ahead, here, behind = (point_of(program, point.c + s * t * guess.c, 0.0) for s in (1, 0, -1))
    bent = np.zeros_like(here) if program.rho == INF else (ahead + behind - 2 * here) / (2 * t * t)
    np.testing.assert_allclose(
        found.bend, 0.7 * bent, rtol=1e-3, atol=1e-7 * np.abs(here).max() / t**2 * 1e-6
    )


def test_a_step_goes_nearly_to_the_boundary_and_lets_x_keep_the_flow_linear(case):
    kind, program, solver, point = case
    move = solver._direction(point, 0.4, second_order(program, kind))
    move = replace(move, c=4 * move.c, x=4 * move.x, y=4 * move.y, z=4 * move.z)  # so that the ends matter
    primal, dual = solver._lengths(point, move)
    moved = solver._moved(point, move, 0.9)
    primal, dual = (0.9 * length if length < 1 else 1.0 for length in (primal, dual))
    c, x = point.c + dual * move.c, point.x + primal * move.x
    np.testing.assert_allclose(moved.c, c, rtol=1e-14)
    for name, share in {"nu": dual, "alpha": dual, "theta": primal, "y": primal, "z": dual}.items():
        expected = getattr(point, name) + share * np.asarray(getattr(move, name))
        np.testing.assert_allclose(getattr(moved, name), expected, rtol=1e-14, atol=1e-15)
    if 0 < program.rho < INF:
        kept = point_of(program, point.c, point.x) + primal * solver._dd - point_of(program, c, 0.0)
        np.testing.assert_allclose(moved.x, np.clip(kept, 0.1 * x, 10 * x), rtol=1e-12)
        assert (moved.x > 0).all()
    else:
        np.testing.assert_allclose(moved.x, x, rtol=1e-14)
    np.testing.assert_allclose(
        solver._moved(point, move, 1.0).x[:1], (point.x + solver._lengths(point, move)[0] * move.x)[:1]
    )


def test_lengths_are_the_largest_that_keep_every_unknown_from_crossing_zero(case):
    kind, program, solver, point = case
    move = solver._direction(point, 0.4, second_order(program, kind))
    move = replace(move, c=4 * move.c, x=4 * move.x, y=4 * move.y, z=4 * move.z)
    primal, dual = solver._lengths(point, move)
    ends = lambda value, step: min(1.0, *(-value[step < 0] / step[step < 0]), 1.0)  # noqa: E731
    best_primal, best_dual = (
        (1.0, 1.0) if program.rho == 0 else (ends(point.x, move.x), ends(point.c, move.c))
    )
    if program.rho == 0:  # no entry of d = mubar e^-c grows by more than e^2
        best_primal = best_dual = min(1.0, 2.0 / max(-move.c.min(), 1e-300))
    elif program.rho < 0.5:  # nor, to first order, one of mubar c^-kappa
        best_dual = min(best_dual, 2.0 * program.rho / -(move.c / point.c).min())
    if "floored" in kind:
        best_primal = min(best_primal, ends(point.y, move.y))
        best_dual = min(best_dual, ends(point.z, move.z))
        if program.rho == 0:
            best_primal = best_dual = min(best_primal, best_dual)
    assert primal == pytest.approx(best_primal, rel=1e-13)
    assert dual == pytest.approx(best_dual, rel=1e-13)


def test_centring_is_mehrotras_cube_unless_the_flow_lags_behind(case):
    kind, program, solver, point = case
    guess = solver._direction(point, 0.0, Correction())
    if program.rho == 0 and "floored" not in kind:
        assert solver._centring(point, guess, 0.0) == 0.0
        return
    num = (1 if program.rho == 0 or "floored" not in kind else 2) * centre_of(program).sum()
    tau = products_of(point) / num
    left = products_of(solver._moved(point, guess, 1.0)) / num
    d = point_of(program, point.c, point.x)
    cube = min(1.0, max(0.0, left / tau)) ** 3
    lag = min(1.0, program.missed(d) * d.sum() / (tau * num))
    for tau_given, expected in ((tau, max(cube, lag)), (1e-30, 1.0)):
        assert solver._centring(point, guess, tau_given) == pytest.approx(expected, rel=1e-12)
    solver._d = np.zeros_like(d)
    solver._program = replace(program, k0=np.zeros_like(program.k0), K=np.zeros_like(np.asarray(program.K)))
    if "floored" not in kind or program.rho > 0:
        assert solver._centring(point, guess, tau) == pytest.approx(cube, rel=1e-12)


def test_a_step_corrects_by_what_centring_leaves(monkeypatch):
    program = program_of("plain", "average", 2.0)
    solver, point, asked = Newton(program), iterate_of(program, "plain"), []
    direction = solver._direction
    monkeypatch.setattr(solver, "_centring", lambda *given: 0.3)
    monkeypatch.setattr(
        solver, "_correction", lambda point, guess, weight: asked.append(weight) or Correction()
    )
    monkeypatch.setattr(
        solver,
        "_direction",
        lambda point, tau, second, **options: asked.append(tau) or direction(point, tau, second),
    )
    solver.step(point)
    tau = products_of(point) / centre_of(program).sum()
    assert asked == pytest.approx([0.0, 0.7, 0.3 * tau], rel=1e-14)


# --- the closed forms beside the steps ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "move", "expected"),
    [
        ([1.0, 2.0], [-4.0, -2.0], 0.25),
        ([1.0, 2.0], [-1.0, 5.0], 1.0),
        ([1.0], [-0.5], 1.0),
        ([3.0], [-6.0], 0.5),
    ],
)
def test_the_way_to_zero(value, move, expected):
    assert to_zero(np.array(value), np.array(move)) == expected


@pytest.mark.parametrize(
    ("rho", "factor"),
    [(0.0, np.exp(-4.0)), (0.5, 1 / 16), (1.0, 0.25), (2.0, 0.5), (8.0, 4 ** (-1 / 8)), (INF, 1.0)],
)
def test_the_point_of_constant_multipliers(rho, factor):
    program = program_of("plain", "average", rho)
    x = np.arange(program.num_pairs) * (rho > 0)
    np.testing.assert_allclose(
        point_of(program, np.full(program.num_pairs, 4.0), x), program.mu_bar * factor + x, rtol=1e-14
    )


@pytest.mark.parametrize("rho", RHOS)
def test_a_cold_start_is_centred_with_products_of_one(rho):
    program = program_of("floored", "average", rho)
    point, m = starting_point(program), centre_of(program)
    assert not point.nu.any()
    if rho == 0:
        assert (point.alpha, point.theta, point.y, point.z) == (0.0, 1.0, 0.0, 0.0)
        assert not point.c.any()
        assert not point.x.any()
    else:
        np.testing.assert_array_equal(point.x * point.c, m)
        assert (point.alpha, point.y, point.z) == (1.0, 0.0, 0.0)
        assert point.theta == pytest.approx(point_of(program, point.c, point.x).sum(), rel=1e-15)
    floored = floored_start(program)
    np.testing.assert_allclose(floored.y * floored.z, m, rtol=1e-15)
    room = point_of(program, point.c, point.x) - program.floor * point.theta
    np.testing.assert_array_equal(floored.y, np.maximum(room, m))


def test_the_centre_is_the_weights_with_something_for_pairs_of_none():
    members = Occupancies.average(random_model(0))
    mu = np.full(members.num_pairs, 2.0)
    np.testing.assert_allclose(centre_of(make_program(members, Coverage(2.0, mu))), 1 / mu.size, rtol=1e-15)
    mu[0] = 0.0
    m = centre_of(make_program(members, Coverage(2.0, mu)))
    assert 0 < m[0] < m[1]


@pytest.mark.parametrize("rho", RHOS[1:])
def test_a_warm_start_has_the_potential_and_a_tenth_of_the_products(rho):
    program = program_of("plain", "average", rho)
    nu = np.random.default_rng(3).normal(size=program.K.shape[0])
    point = warm_point(program, nu)
    np.testing.assert_array_equal(point.nu, nu)
    np.testing.assert_allclose(point.c, np.maximum(1 + program.KT @ nu, newton_module.WARM), rtol=1e-14)
    assert (point.c == newton_module.WARM).any()
    np.testing.assert_allclose(point.x * point.c, newton_module.WARM * centre_of(program), rtol=1e-14)
    assert (point.alpha, point.y, point.z) == (1.0, 0.0, 0.0)
    assert point.theta == pytest.approx(point_of(program, point.c, point.x).sum(), rel=1e-15)


@pytest.mark.parametrize(("refine", "solves"), [(False, 1), (True, 2)])
def test_borders_are_refined_as_a_whole_only_when_asked(refine, solves, monkeypatch):
    program = program_of("floored", "average", 2.0)
    solver, asked = FlooredNewton(program), []
    solver._linearise(iterate_of(program, "floored"))
    real = solver._equations.solve
    monkeypatch.setattr(solver._equations, "solve", lambda flow: asked.append(flow) or real(flow))
    solver._borders.solve(np.ones(program.K.shape[0]), [1.0, 2.0], refine)
    assert len(asked) == solves


@pytest.mark.parametrize("kind", ["plain", "shifted"])
def test_a_projection_ends_on_the_flow_equations_with_mass_one(kind):
    program = program_of(kind, "average", 2.0)
    solver, d = solver_of(program, kind), np.random.default_rng(5).random(program.num_pairs)
    assert solver.project(d) is d  # nothing is factorised yet
    solver._linearise(iterate_of(program, kind))
    projected = solver.project(d)
    assert projected.sum() == pytest.approx(1, abs=1e-14)
    # Dividing by the mass shifts k0 sum d; each round leaves a tenth of it or less.
    np.testing.assert_allclose(program.K @ projected, program.k0, atol=1e-13 if kind == "plain" else 1e-4)
