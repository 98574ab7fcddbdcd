"""A certificate is never wrong: the true optimum, known to 25 digits, lies where the plan says it does.

The truth comes from `exact_optimum`, which shares no code with the planner and proves its own answers.
Comparisons with it are exact, in mpmath numbers, without any tolerance: a certificate has to include its
own rounding. Mutants that fail here: a bound without its rounding terms, a clipped multiplier that
is not paid for, a floor whose multiplier is forgotten, a transposed flow matrix.
"""

from __future__ import annotations

from functools import cache

import mpmath as mp
import numpy as np
import pytest
from exact_optimum import Optimum, exact_divergence, exact_occupancy, exact_optimum, exact_weights
from hypothesis import given, settings
from hypothesis import strategies as st

from rhocover import MDP, Coverage, Occupancies, envs, plan
from rhocover.planning.program import Multipliers, Program, dual_bound, make_program
from rhocover.planning.result import PlanStatus
from tiers import tiered

INF = float("inf")
RHOS = [0, 0.5, 1, 2, 5, 32, 100, INF]
STOPS = [1, 2, 3, 4, 6]
TOLERANCES = [1e-3, 1e-6, 1e-8, 1e-11]

reproducible = settings(max_examples=100, deadline=None, derandomize=True)


# --- problems whose optimum is known -------------------------------------------------------------------


def random_weights(mdp: MDP, seed: int) -> np.ndarray:
    """Returns weights spread over about two orders of magnitude, on the pairs of the model."""
    return mdp.table(np.exp(np.random.default_rng(seed).normal(size=mdp.num_pairs)))


def almost_decoupled() -> MDP:
    """Returns two rings of three states that meet with probability 1e-6: potentials are near 1e5."""
    P = np.zeros((6, 2, 6))
    for s in range(6):
        around = s - s % 3 + (s + 1) % 3
        P[s, 0, around] = 1.0
        P[s, 1, s] = 0.5
        P[s, 1, around] = 0.5
    for s in (0, 3):
        P[s, 0] *= 1 - 1e-6
        P[s, 0, 3 - s] = 1e-6
    return MDP(P, start=0)


def some_zeros(mdp: MDP, seed: int) -> np.ndarray:
    weights = random_weights(mdp, seed)
    weights.flat[::4] = 0.0
    return weights


def problems() -> dict[str, tuple[MDP, np.ndarray, dict]]:
    """Returns (model, weights, options of `plan`) by name."""
    river, wheel = envs.river_swim(), envs.wheel(num_states=5)
    first = envs.garnet(num_states=7, num_actions=3, num_successors=3, seed=1)
    second = envs.garnet(num_states=8, num_actions=2, num_successors=4, seed=5)
    small = envs.garnet(num_states=4, num_actions=2, num_successors=2, seed=3, self_loop=0.1)
    split = almost_decoupled()
    even = np.full((7, 3), 1.0)
    return {
        "river_swim": (river, np.ones((6, 2)), {}),
        "river_swim, floor": (river, random_weights(river, 1), {"eta": 0.9 * 0.0433737987 / 2}),
        "river_swim, discounted": (river, random_weights(river, 2), {"discount": 0.95}),
        "wheel": (wheel, random_weights(wheel, 3), {}),
        "wheel, some zeros": (wheel, some_zeros(wheel, 4), {}),
        "garnet 7": (first, even, {}),
        "garnet 8": (second, random_weights(second, 5), {}),
        "garnet, discounted, floor": (
            small, random_weights(small, 6), {"discount": 0.9, "start": [0.1, 0.2, 0.3, 0.4], "eta": 0.01}
        ),
        "garnet, horizon": (small, random_weights(small, 7), {"horizon": 3, "start": 0}),
        "garnet, horizon, floor": (
            small, random_weights(small, 8), {"horizon": 2, "start": [0.4, 0.3, 0.2, 0.1], "eta": 0.005}
        ),
        "almost decoupled": (split, random_weights(split, 9), {}),
    }  # fmt: skip


PROBLEMS = problems()
# At rho = 0 every pair needs weight; time expansion takes the reference 10 s at rho = 100.
CASES = [
    (name, rho)
    for name in PROBLEMS
    for rho in RHOS
    if not ((rho == 0 and "zeros" in name) or (rho == 100 and "horizon" in name))
]


def members_of(name: str) -> Occupancies:
    mdp, _, options = PROBLEMS[name]
    return Occupancies.of(mdp, **options)


def coverage_of(name: str, rho: float) -> Coverage:
    return Coverage(rho, members_of(name).flatten(PROBLEMS[name][1], "mu"))


def program_of(name: str, rho: float) -> Program:
    return make_program(members_of(name), coverage_of(name, rho))


@cache
def proof(name: str, rho: float) -> Optimum:
    return exact_optimum(members_of(name), coverage_of(name, rho))


def optimum(name: str, rho: float):
    return proof(name, rho).divergence


def planned(name: str, rho: float, **settings):
    mdp, weights, options = PROBLEMS[name]
    return plan(mdp, rho, weights, **options, throw=False, **settings)


# --- the reference itself ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rho", "value"),
    [(1, 0.148958613), (2, 0.293000580), (5, 0.504778357), (100, 0.646744883), (INF, 0.65299309)],
)
def test_the_reference_has_the_published_values_of_river_swim(rho, value):
    assert abs(optimum("river_swim", rho) - value) <= (5e-9 if rho == INF else 5e-10)  # the last digit


# --- plans ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tol", tiered(TOLERANCES))
@pytest.mark.parametrize(("name", "rho"), tiered(CASES))
def test_the_optimum_lies_within_the_gap_of_a_solved_plan(name, rho, tol):
    found, best = planned(name, rho, tol=tol), optimum(name, rho)
    assert mp.mpf(found.lower_bound) <= best
    assert abs(mp.mpf(found.divergence) - best) <= found.gap
    assert found.status is PlanStatus.SOLVED or tol < 1e-8


@pytest.mark.parametrize("max_steps", tiered(STOPS))
@pytest.mark.parametrize(("name", "rho"), tiered(CASES))
def test_a_plan_that_was_stopped_claims_nothing_that_is_not_so(name, rho, max_steps):
    """It need not be an occupancy yet, so its divergence may be below the best; its bound may not."""
    found, best = planned(name, rho, max_steps=max_steps, tol=1e-14), optimum(name, rho)
    assert mp.mpf(found.lower_bound) <= best
    assert mp.mpf(found.divergence) - best <= found.gap
    assert found.steps <= max_steps


@pytest.mark.parametrize(("name", "rho"), tiered([case for case in CASES if "floor" not in case[0]]))
def test_the_policy_of_a_plan_is_as_good_as_the_plan(name, rho):
    """The policy's own occupancy, computed to 60 digits, is a member: it cannot beat the optimum."""
    found, best, members = planned(name, rho), optimum(name, rho), members_of(name)
    with mp.workdps(60):
        d = exact_occupancy(members, found.policy)
        reached = exact_divergence(rho, exact_weights(coverage_of(name, rho)), d)
        assert best - mp.mpf(10) ** -25 <= reached
        # The plan's flow holds to 1e-16 or so, times potentials of up to 1e6 where the model hardly mixes.
        assert reached - best <= found.gap + (1e-8 if name == "almost decoupled" else 1e-12)


@pytest.mark.parametrize("variant", tiered(["frank_wolfe", "frank_wolfe_line_search", "frank_wolfe_plain"]))
@pytest.mark.parametrize("rho", tiered([0, 0.5, 1, 2, 5], short=[2]))
def test_the_certificate_of_frank_wolfe_is_never_wrong(variant, rho):
    for max_steps in (1, 5, 50):
        found = planned("garnet 8", rho, method=variant, max_steps=max_steps, tol=1e-10)
        best = optimum("garnet 8", rho)
        assert mp.mpf(found.lower_bound) <= best <= mp.mpf(found.divergence) + mp.mpf(found.gap)
        assert mp.mpf(found.divergence) - best <= found.gap


# --- bounds from any multipliers -----------------------------------------------------------------------


@pytest.mark.thorough
@given(data=st.data())
@reproducible
def test_no_multipliers_prove_more_than_is_true(data):
    name, rho = data.draw(st.sampled_from(CASES))
    program, rng = program_of(name, rho), np.random.default_rng(data.draw(st.integers(0, 2**32)))
    scale = data.draw(st.sampled_from([1e-8, 1e-3, 1.0, 1e3, 1e8]))
    nu = scale * rng.normal(size=program.K.shape[0])
    alpha = (
        scale * float(rng.exponential()) * data.draw(st.sampled_from([1, 10]))
        if program.has_mass_row
        else 0.0
    )
    z = scale * rng.exponential(size=program.num_pairs) if program.floor > 0 else 0.0
    assert mp.mpf(dual_bound(program, Multipliers(nu, alpha, z))) <= optimum(name, rho)


@pytest.mark.parametrize(("name", "rho"), tiered([case for case in CASES if case[1] != INF]))
def test_the_true_multipliers_do_not_prove_too_much(name, rho):
    """There the bound is the optimum itself, and flat: rounding errors are all that could lift it above.

    Each scaling and each last-bit change of a multiplier rounds differently; a bound that did not pay
    for its rounding would be too high for about half of them.
    """
    program, best, rng = program_of(name, rho), optimum(name, rho), np.random.default_rng(1)
    exact, z = proof(name, rho).rows, proof(name, rho).floor
    for scale in (1.0,) * 8 if rho == 0 else (1.0, 3.0, 0.7, 1.1e-8, 1.3e8, 3.7e100):  # rho = 0 has one scale
        for shake in (0.0, 1e-16, 1e-16, 1e-12, 1e-8):
            nu = scale * exact * (1 + shake * rng.normal(size=exact.size))
            alpha = float(nu[-1]) if program.has_mass_row else 0.0
            near = Multipliers(nu[: program.K.shape[0]], alpha, scale * z)
            assert mp.mpf(dual_bound(program, near)) <= best


@cache
def multipliers_of(name: str, rho: float) -> Multipliers:
    from rhocover.planning.interior_point import interior_point

    return interior_point(program_of(name, rho), tol=1e-11, max_steps=60).multipliers


@pytest.mark.parametrize(("name", "rho"), tiered(CASES))
def test_the_best_multipliers_prove_nearly_everything(name, rho):
    bound = dual_bound(program_of(name, rho), multipliers_of(name, rho))
    # 1e-8 of a potential near 1e6: its rounding alone is paid for with 1e-9
    assert optimum(name, rho) - mp.mpf(bound) <= (1e-8 if name == "almost decoupled" else 1e-10)


@pytest.mark.parametrize("rho", [0.5, 1, 2, INF])
def test_a_bound_does_not_depend_on_the_scale_of_its_multipliers(rho):
    program, last = program_of("garnet 7", rho), multipliers_of("garnet 7", rho)
    bounds = [
        dual_bound(program, Multipliers(s * last.nu, s * last.alpha)) for s in (1.0, 2.0**200, 2.0**-200)
    ]
    assert bounds == pytest.approx([bounds[0]] * 3, abs=1e-13)  # logarithms near 139, to half an ulp


@pytest.mark.parametrize("rho", [0.5, 1, 2, INF])
def test_multipliers_that_prove_nothing_give_minus_infinity(rho):
    program = program_of("garnet 7", rho)
    nothing = np.zeros(program.K.shape[0])
    assert dual_bound(program, Multipliers(nothing, -1.0)) == -INF
    assert dual_bound(program, Multipliers(np.full_like(nothing, np.nan), 1.0)) == -INF
    assert dual_bound(program, Multipliers(np.full_like(nothing, INF), 1.0)) == -INF


@pytest.mark.parametrize("rho", [0, 0.5, 1, 2, INF])
def test_trivial_multipliers_prove_that_divergences_are_not_negative(rho):
    """y = 1 says only that d sums to 1: the bound is 0, up to the rounding it pays for."""
    program = program_of("garnet 8", rho)
    bound = dual_bound(program, Multipliers(np.zeros(program.K.shape[0]), 1.0))
    assert -5e-14 <= bound <= 0
