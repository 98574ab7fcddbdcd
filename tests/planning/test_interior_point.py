"""The interior point keeps its books: which point is the better one, when it is done, when it gives up."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import rhocover as rc
from rhocover import Coverage, Occupancies, envs
from rhocover.errors import InvalidArgumentError, SolverError
from rhocover.planning import interior_point as module
from rhocover.planning.interior_point import interior_point
from rhocover.planning.newton import starting_point, warm_point
from rhocover.planning.program import dual_bound, make_program
from rhocover.planning.result import step_limit
from small_models import random_model, random_weights
from tiers import tiered

INF = float("inf")


def program_of(rho: float, **options):
    mdp = random_model(4)
    members = Occupancies.of(mdp, **options)
    return make_program(members, Coverage(rho, members.flatten(random_weights(mdp, 4), "mu")))


def state(distance: float = 1.0, gap: float = 0.0, flow: float = 0.0) -> SimpleNamespace:
    return SimpleNamespace(distance=distance, gap=gap, flow=flow)


# --- which point is better ------------------------------------------------------------------------------


def test_a_point_nearer_by_a_tenth_is_better_whatever_it_proves():
    best = state(1.0, gap=0.0)
    nearer = state(0.89, gap=5.0)
    assert module._better(best, nearer) is nearer


def test_of_two_points_about_as_near_the_one_that_proves_more_is_better():
    best = state(1.0, gap=-0.5, flow=0.1)
    for other, is_better in (
        (state(0.95, 0.4, 0.1), True),
        (state(9.9, 0.5, 0.0), True),
        (state(0.95, 0.5, 0.2), False),
    ):
        assert (module._better(best, other) is other) == is_better
    assert module._better(best, state(10.1, 0.0, 0.0)) is best  # too far away
    assert module._better(best, state(10.0, 0.0, 0.0)) is best
    assert module._better(best, state(0.9, gap=np.nan)) is best  # proves nothing
    hopeless = state(1.0, gap=np.inf)
    assert module._better(hopeless, state(1.0, gap=1e9)) is not hopeless


def test_done_is_a_small_gap_of_either_sign_and_a_flow_within_the_last_projections_reach():
    assert module._is_done(state(gap=-1e-6, flow=1e-10), 1e-6)
    assert not module._is_done(state(gap=1.1e-6, flow=0.0), 1e-6)
    assert not module._is_done(state(gap=0.0, flow=1.1e-10), 1e-6)
    assert module._is_done(state(gap=0.0, flow=1e-12), 1e-12)
    assert not module._is_done(state(gap=0.0, flow=1e-11), 1e-12)


# --- what a point is measured by ------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"eta": 0.01}, {"discount": 0.8, "eta": 0.002}], ids=str)
def test_a_measurement_is_about_the_point_divided_by_its_mass(options):
    program = program_of(2.0, **options)
    newton, point = module._prepared(program, None)
    point = newton.step(point)
    found = module._measure(program, point, 3, 0.25)
    d = program.mu_bar / np.sqrt(point.c) + point.x
    np.testing.assert_allclose(found.d, d / d.sum(), rtol=1e-15)
    assert (found.steps, found.seconds) == (3, 0.25)
    products = point.x @ point.c + np.sum(point.y * point.z)
    assert found.tau == pytest.approx(products / d.sum(), rel=1e-14)
    short = np.maximum(program.floor - found.d, 0.0).sum() if program.has_floor else 0.0
    assert found.flow == pytest.approx(program.missed(found.d) + short, rel=1e-14)
    assert found.distance == found.flow + found.tau
    assert found.lower_bound == dual_bound(program, found.multipliers)
    assert found.gap == found.divergence - found.lower_bound
    raised = np.maximum(found.d, program.floor)
    assert found.divergence == program.coverage.divergence(raised)
    assert replace(found, d=found.d * np.nan).divergence == INF


def test_what_is_missed_of_the_floor_counts():
    program = program_of(2.0, eta=0.01)
    d = np.full(program.num_pairs, 1 / program.num_pairs)
    d[0], d[1] = 0.005, d[1] + d[0] - 0.005
    assert module._missed(program, d) == pytest.approx(program.missed(d) + 0.015, rel=1e-13)


# --- projections ----------------------------------------------------------------------------------------


def prepared(tol: float = 1e-3):
    """Returns (program, newton, a state near the optimum)."""
    program = program_of(2.0)
    newton, point = module._prepared(program, None)
    for _ in range(6):
        point = newton.step(point)
    return program, newton, module._measure(program, point, 6, 0.0)


def test_a_projection_is_taken_only_if_it_makes_the_flow_hold_better():
    program, newton, near = prepared()
    off = replace(near, d=near.d * (1 + 1e-7 * np.arange(near.d.size)), flow=1e-6)
    projected = module._projected(program, newton, off)
    assert projected.flow < 1e-13
    assert projected.flow == program.missed(projected.d)
    assert projected.multipliers is near.multipliers
    settled = replace(off, flow=1e-15)
    assert module._projected(program, newton, settled) is settled  # rounding: nothing to gain
    lucky = replace(off, flow=1e-18 + 1.0000001e-15)
    newton_worse = SimpleNamespace(project=lambda d: off.d)
    assert module._projected(program, newton_worse, lucky) is lucky
    for bad in (off.d * np.nan, off.d - 2 * off.d.max() * (np.arange(off.d.size) == 0)):
        assert module._projected(program, SimpleNamespace(project=lambda d, bad=bad: bad), off) is off


def test_a_point_is_finished_by_a_projection_only_when_that_is_all_it_lacks():
    program, newton, near = prepared()
    near = replace(near, d=near.d * (1 + 1e-9 * np.arange(near.d.size)))
    near = replace(near, flow=program.missed(near.d))
    tol = 2 * abs(near.gap) + 1e-12
    done = module._finished(program, newton, near, tol)
    assert module._is_done(done, tol)
    assert done is not near
    for flow in (1.1e-5, 1e-15, 1e-16):  # too far, or there already
        other = replace(near, flow=flow)
        assert module._finished(program, newton, other, tol) is other
    assert module._finished(program, newton, near, 1e-30) is near  # the gap is far above the tolerance


# --- the loop -------------------------------------------------------------------------------------------


def test_the_solver_fits_the_program():
    nu = np.zeros(program_of(2.0).K.shape[0]) + 0.01
    kinds = {
        "Newton": program_of(2.0),
        "FlooredNewton": program_of(2.0, eta=0.01),
        "ShiftedNewton": replace(program_of(2.0), k0=1e-3 * nu * (np.arange(nu.size) > 0)),
    }
    for name, program in kinds.items():
        newton, point = module._prepared(program, nu)
        assert type(newton).__name__ == name
        is_warm = name == "Newton"
        expected = warm_point(program, nu) if is_warm else starting_point(program)
        np.testing.assert_array_equal(point.c, expected.c)
        np.testing.assert_array_equal(point.nu, expected.nu)
    for cold in (program_of(0.0), program_of(2.0, discount=0.8)):
        assert not module._prepared(cold, np.zeros(cold.K.shape[0]) + 0.01)[1].nu.any()
    assert module._prepared(program_of(0.5), nu)[1].nu is nu
    assert not module._prepared(program_of(0.5), None)[1].nu.any()


@pytest.mark.parametrize("rho", [0.0, 0.5, 2.0, INF])
def test_every_step_is_reported_once_and_the_best_is_returned(rho):
    seen = []
    end = interior_point(program_of(rho), tol=1e-9, max_steps=100, report=seen.append)
    assert [one.steps for one in seen] == [*range(1, end.taken + 1)]
    assert 0 < end.steps <= end.taken
    assert abs(end.gap) <= 1e-9
    assert end.flow <= 1e-10
    assert end.seconds >= seen[-1].seconds > 0
    assert sorted(end.stages) == ["analyse", "factorise", "solve"]
    assert all(later.distance < seen[0].distance for later in seen[3:])


def test_a_program_that_is_solved_at_the_start_takes_no_step():
    mdp = rc.MDP(np.ones((1, 3, 1)))
    members = Occupancies.average(mdp)
    end = interior_point(make_program(members, Coverage(2.0, np.ones(3))), tol=1e-9, max_steps=9)
    assert (end.taken, end.steps) == (0, 0)


@pytest.mark.parametrize("rho", [2.0, INF])
def test_a_tolerance_that_float64_cannot_meet_ends_within_the_patience(rho):
    seen = []
    end = interior_point(program_of(rho), tol=1e-30, max_steps=200, report=seen.append)
    assert end.taken < 100
    assert end.taken - end.steps <= 25
    assert abs(end.gap) < 1e-11
    assert end.flow < 1e-14


def steps_of(monkeypatch, distances) -> int:
    """Returns how many steps are taken when these are the distances after each, the gap never small."""
    program = program_of(2.0)
    first = interior_point(program, tol=1e-9, max_steps=1)
    states = [replace(first, steps=k, flow=distance, tau=0.0) for k, distance in enumerate(distances)]
    newton = SimpleNamespace(step=lambda k: k + 1, stages={}, project=lambda d: d)
    with monkeypatch.context() as patched:
        patched.setattr(module, "_prepared", lambda program, warm: (newton, 0))
        patched.setattr(module, "_measure", lambda program, k, steps, seconds: states[k])
        patched.setattr(module, "_is_done", lambda state, tol: False)
        return interior_point(program, tol=1e-9, max_steps=len(distances) - 1).taken


def test_patience_is_counted_from_the_last_step_that_came_nearer_by_a_tenth(monkeypatch):
    still = [1.0] * 150
    assert steps_of(monkeypatch, still) == 25
    nearer = [0.8**k for k in range(41)]
    assert steps_of(monkeypatch, nearer + nearer[-1:] * 100) == 65
    assert steps_of(monkeypatch, [0.5**k for k in range(151)]) < 80  # below rounding nothing counts


@pytest.mark.parametrize("error", [SolverError, np.linalg.LinAlgError])
def test_a_step_that_fails_is_the_last(monkeypatch, error):
    def step(point):
        raise error("no pivot")

    program = program_of(2.0)
    newton, point = module._prepared(program, None)
    monkeypatch.setattr(newton, "step", step)
    monkeypatch.setattr(module, "_prepared", lambda program, warm: (newton, point))
    seen = []
    end = interior_point(program, tol=1e-9, max_steps=50, report=seen.append)
    assert (end.taken, end.steps, seen) == (0, 0, [])


def test_a_step_limit_is_the_number_of_steps_taken():
    for limit in (1, 3):
        end = interior_point(program_of(2.0), tol=1e-12, max_steps=limit)
        assert end.taken == limit


# What was measured, and one more for another library's rounding. Correctors, centring, lengths and starts that are
# not what they should be cost more.
STEPS = {
    0.0: (4, 2, 6, 5, 7), 0.2: (3, 2, 6, 4, 5), 0.5: (3, 2, 6, 4, 8), 1.0: (3, 3, 4, 4, 7), 2.0: (5, 3, 5, 6, 9),
    8.0: (7, 4, 7, 8, 16), 100.0: (6, 9, 7, 6, 9), INF: (6, 11, 7, 6, 11),
}  # fmt: skip


@pytest.mark.parametrize("rho", tiered(STEPS))
def test_plans_take_no_more_steps_than_they_did(rho):
    river = envs.river_swim()
    rooms, options = (
        rc.plan(envs.four_rooms(), rho).steps,
        ({}, {"eta": 0.01}, {"discount": 0.9}, {"horizon": 8}),
    )
    plain, *others = [rc.plan(river, rho, **option).steps for option in options]
    found = np.array([plain, rooms, *others])
    assert (found <= np.array(STEPS[rho]) + 1).all(), found


def test_each_method_has_its_ownstep_limit_and_a_given_one_counts():
    assert step_limit("interior_point", None) == 200
    assert step_limit("frank_wolfe", None) == 20_000
    assert step_limit("leximin", None) == 0
    assert step_limit("frank_wolfe", 7) == 7
    assert step_limit("interior_point", 1) == 1
    with pytest.raises(InvalidArgumentError, match="max_steps"):
        step_limit("interior_point", 0)
