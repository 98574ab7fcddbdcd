"""best_addition(): what to add to visits that are there so that the union covers best, and how sure that is.

Second methods: CVXPY with Clarabel on the convex program in psi itself, a linear program by SciPy at
rho = inf, the plan (what the union tends to as the budget grows), and unions with policies of all kinds (none
may be better than the certified bound).
"""

from __future__ import annotations

import contextlib
import dataclasses
import warnings

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog

from rhocover import MDP, Coverage, Occupancies, envs, plan
from rhocover.errors import InvalidArgumentError
from rhocover.oracles import make_oracle
from rhocover.planning.interior_point import interior_point
from rhocover.planning.program import make_program
from rhocover.planning.union import Addition, best_addition
from small_models import SMALL_ENVS, random_model, random_weights
from tiers import tiered

INF = float("inf")
RHOS = [0, 0.5, 1, 2, 8, INF]
BUDGETS = [30, 3000, 10**8]


def visits_even(rng, n):
    return rng.integers(1, 200, n)


def visits_with_zeros(rng, n):
    visits = rng.integers(1, 200, n)
    visits[rng.random(n) < 0.5] = 0
    visits[rng.integers(n)] += 1
    return visits


def visits_of_all_sizes(rng, n):
    return np.floor(10 ** (5 * rng.random(n))).astype(np.int64)


def visits_of_one_pair(rng, n):
    visits = np.zeros(n, np.int64)
    visits[rng.integers(n)] = 10_000
    return visits


def no_visits(rng, n):
    return np.zeros(n, np.int64)


VISITS = [visits_even, visits_with_zeros, visits_of_all_sizes, visits_of_one_pair, no_visits]


def case(seed: int, visits=visits_even, *, holes: float = 0.0):
    """Returns (members, mu [n], visits [n]) of a random model."""
    mdp = random_model(seed, num_states=4 + seed % 4, holes=holes)
    mu = mdp.per_pair(random_weights(mdp, seed), "mu")
    return Occupancies.average(mdp), mu, visits(np.random.default_rng(seed), mu.size)


def union(visits, num_steps: int, psi) -> np.ndarray:
    """Returns the shares of visits and an addition together."""
    return (visits + num_steps * psi) / (visits.sum() + num_steps)


# --- the second method ---------------------------------------------------------------------------------


def linear_level(members: Occupancies, mu, visits, num_steps: int) -> float:
    """Returns the largest t with (visits + m psi)/(N + m) >= t mubar, psi an occupancy, by SciPy."""
    m, total = mu / mu.sum(), visits.sum() + num_steps
    A, b = members.equations()
    weighted = np.flatnonzero(m)
    above = np.zeros((weighted.size, m.size + 1))  # t mubar - w psi <= before
    above[np.arange(weighted.size), weighted] = -num_steps / total
    above[:, -1] = m[weighted]
    found = linprog(
        np.append(np.zeros(m.size), -1.0), A_ub=above, b_ub=visits[weighted] / total,
        A_eq=np.hstack([A.toarray(), np.zeros((A.shape[0], 1))]), b_eq=b, bounds=(0, None), method="highs",
    )  # fmt: skip
    assert found.status == 0, found.message
    return float(found.x[-1])


def least_divergence(members: Occupancies, mu, visits, num_steps: int, rho: float) -> float:
    """Returns the least D_rho of a union, by Clarabel; ratios are measured by the largest least share.

    Without that unit (mubar/d)^7 runs over so many digits at rho = 8 that Clarabel gives up.
    """
    level = linear_level(members, mu, visits, num_steps)
    if rho == INF:
        return -float(np.log(level))
    m, total, psi = mu / mu.sum(), visits.sum() + num_steps, cp.Variable(mu.size, nonneg=True)
    k, d = np.flatnonzero(m), visits / total + num_steps / total * psi
    A, b = members.equations()
    share = cp.multiply(1 / (level * m[k]), d[k])
    if rho == 0:
        objective = cp.Minimize(cp.sum(cp.kl_div(d, m)))
    elif rho == 1:
        objective = cp.Maximize(m[k] @ cp.log(share))
    else:
        power = m[k] @ cp.power(share, 1 - rho, approx=False)
        objective = cp.Minimize(power) if rho > 1 else cp.Maximize(power)
    solved(cp.Problem(objective, [A @ psi == b]))
    found = np.maximum(psi.value, 0.0)
    return Coverage(rho, mu).divergence(union(visits, num_steps, found / found.sum()))


def solved(problem: cp.Problem) -> None:
    """Solves to 1e-10, or to 1e-8 where Clarabel says that it comes no further."""
    for tol in (1e-10, 1e-9, 1e-8):
        with warnings.catch_warnings(), contextlib.suppress(cp.SolverError):
            warnings.simplefilter("ignore")  # "may be inaccurate": the status says so, too
            problem.solve(cp.CLARABEL, tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol)
        if problem.status == cp.OPTIMAL:
            return
    raise AssertionError(f"the reference itself is {problem.status}")


def check(found: Addition, members: Occupancies, coverage: Coverage, visits, num_steps: int) -> None:
    """psi is an occupancy, d the union with it, and the divergence is that of d."""
    share = num_steps / (visits.sum() + num_steps)
    # The solver's equations are those of the union, where they hold to 1e-10.
    assert members.contains(found.psi, tol=1e-9 + 2e-10 / share)
    assert found.psi.min() >= 0
    assert found.d == pytest.approx(union(visits, num_steps, found.psi), abs=1e-15)
    assert found.divergence == coverage.divergence(found.d)
    assert found.gap >= 0


@pytest.mark.parametrize("num_steps", tiered(BUDGETS))
@pytest.mark.parametrize("visits", tiered(VISITS))
@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
def test_the_best_addition_agrees_with_a_second_solver_and_is_certified(rho, visits, num_steps):
    """1e-6 is the solver's tolerance, and what Clarabel's 1e-10 comes to through the potentials."""
    for seed in (1, 2):
        members, mu, before = case(seed, visits, holes=0.5 * (seed % 2))
        coverage = Coverage(rho, mu)
        found = best_addition(members, coverage, before, num_steps)
        reference = least_divergence(members, mu, before, num_steps, rho)
        check(found, members, coverage, before, num_steps)
        assert found.divergence == pytest.approx(reference, abs=2e-6)
        assert found.divergence - found.gap <= reference + 1e-7


@pytest.mark.parametrize("rho", [0.5, 1, 2, 8, INF])
def test_pairs_without_weight_need_no_visits_but_may_have_them(rho):
    for seed in (3, 4):
        members, mu, before = case(seed, visits_with_zeros)
        mu[::3] = 0.0
        coverage = Coverage(rho, mu)
        found = best_addition(members, coverage, before, 500)
        check(found, members, coverage, before, 500)
        reference = least_divergence(members, mu, before, 500, rho)
        assert found.divergence == pytest.approx(reference, abs=2e-6)
        assert found.divergence - found.gap <= reference + 1e-7


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
@pytest.mark.parametrize("name", tiered(SMALL_ENVS))
def test_every_named_model_has_a_best_addition(name, rho):
    """No second solver here: the certificate says that it is the best, and psi that it can be had."""
    mdp = envs.make(name, **SMALL_ENVS[name])
    members, coverage = Occupancies.average(mdp), Coverage(rho, np.ones(mdp.num_pairs))
    before = np.random.default_rng(0).integers(0, 300, mdp.num_pairs)
    num_steps = int(before.sum())
    found = best_addition(members, coverage, before, num_steps)
    check(found, members, coverage, before, num_steps)
    assert found.gap <= 1e-4  # first order in what the solver leaves; ten times what was seen


# --- the certificate -----------------------------------------------------------------------------------


@pytest.mark.parametrize("visits", tiered(VISITS))
@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
def test_no_policy_makes_a_better_union_than_the_certified_bound(rho, visits):
    members, mu, before = case(5, visits)
    coverage, rng = Coverage(rho, mu), np.random.default_rng(5)
    found = best_addition(members, coverage, before, 700)
    best = members.flatten(members.to_policy(found.psi), "policy")
    for share in (1.0, 0.1, 1e-3, 1e-5):
        for _ in range(20):
            table = members.table((1 - share) * best + share * rng.exponential(size=best.size))
            psi = members.from_policy(table / table.sum(axis=-1, keepdims=True))
            assert coverage.divergence(union(before, 700, psi)) >= found.divergence - found.gap - 1e-9


@pytest.mark.parametrize("visits", tiered([visits_even, visits_with_zeros, visits_of_all_sizes]))
@pytest.mark.parametrize("rho", tiered([0, 0.5, 1, 2, 8], short=[2]))
def test_the_certified_gap_is_small(rho, visits):
    for seed in range(6, 10):
        members, mu, before = case(seed, visits)
        for num_steps in BUDGETS:
            found = best_addition(members, Coverage(rho, mu), before, num_steps)
            assert found.gap <= 1e-4  # see above


@pytest.mark.parametrize("rho", [0, 0.5, 1, 2, 8])
def test_a_smaller_tolerance_gives_a_smaller_gap(rho):
    members, mu, before = case(9)
    coverage = Coverage(rho, mu)
    coarse = best_addition(members, coverage, before, 3000, tol=1e-3)
    fine = best_addition(members, coverage, before, 3000, tol=1e-9)
    assert fine.gap <= 1e-7
    assert fine.divergence <= coarse.divergence <= fine.divergence + coarse.gap + 1e-9


@pytest.mark.parametrize("even", [True, False])
def test_the_gap_at_infinity_is_rounding(even):
    """A linear program with its multipliers proves its own value, whatever the weights are."""
    for seed in range(6, 10):
        members, mu, before = case(seed, visits_with_zeros)
        mu = np.ones(mu.size) if even else mu
        for num_steps in BUDGETS:
            found = best_addition(members, Coverage(INF, mu), before, num_steps)
            assert found.gap <= 1e-8


# --- what must come out --------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", RHOS)
def test_with_ever_more_steps_the_addition_becomes_the_plan(rho):
    members, mu, before = case(11, visits_with_zeros)
    ideal = plan(members.mdp, rho, members.table(mu))
    found = best_addition(members, Coverage(rho, mu), before, 10**14, tol=1e-9)
    assert found.divergence == pytest.approx(ideal.divergence, abs=1e-7)
    if 0 < rho < INF:  # where the optimum is unique; Pinsker: sqrt(2 gap / rho)
        assert found.psi == pytest.approx(members.flatten(ideal.occupancy, "d"), abs=1e-3)


@pytest.mark.parametrize("rho", RHOS)
def test_without_visits_the_addition_is_the_plan(rho):
    members, mu, before = case(12, no_visits)
    ideal = plan(members.mdp, rho, members.table(mu))
    found = best_addition(members, Coverage(rho, mu), before, 1)
    assert found.divergence == pytest.approx(ideal.divergence, abs=2e-6)
    assert found.psi == pytest.approx(found.d, abs=1e-15)


@pytest.mark.parametrize("num_steps", [10**3, 10**6, 10**9])
@pytest.mark.parametrize("rho", RHOS)
def test_visits_in_the_best_shares_stay_the_best(rho, num_steps):
    """Whole numbers cut 1e-9 of the shares; at finite rho the union's share of psi is theirs again."""
    members, mu, _ = case(13)
    ideal = plan(members.mdp, rho, members.table(mu), tol=1e-10)
    d_star = members.flatten(ideal.occupancy, "d")
    found = best_addition(members, Coverage(rho, mu), np.round(1e9 * d_star), num_steps)
    assert found.divergence == pytest.approx(ideal.divergence, abs=2e-6)


@pytest.mark.parametrize("visits", tiered(VISITS[:-1]))
@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
def test_the_best_addition_is_no_worse_than_adding_the_best_plan(rho, visits):
    for seed in (14, 15):
        members, mu, before = case(seed, visits)
        coverage = Coverage(rho, mu)
        d_star = members.flatten(plan(members.mdp, rho, members.table(mu)).occupancy, "d")
        for num_steps in BUDGETS:
            found = best_addition(members, coverage, before, num_steps)
            other = coverage.divergence(union(before, num_steps, d_star))
            assert found.divergence <= other + 2e-6


@pytest.mark.parametrize("rho", RHOS)
def test_more_steps_never_hurt_visits_that_a_policy_made(rho):
    """If visits/N is an occupancy itself, more of the same is allowed: the best unions form a chain."""
    members, mu, _ = case(16)
    coverage = Coverage(rho, mu)
    policy = members.to_policy(np.random.default_rng(16).random(mu.size))
    before = 1e6 * members.from_policy(policy)
    last = coverage.divergence(before / before.sum())
    for num_steps in (10**4, 10**5, 10**6, 10**8):
        found = best_addition(members, coverage, before, num_steps)
        assert found.divergence <= last + 2e-6
        last = found.divergence
    assert last == pytest.approx(plan(members.mdp, rho, members.table(mu)).divergence, abs=0.05)


@pytest.mark.parametrize("rho", RHOS)
def test_only_shares_matter(rho):
    """Ten times the visits and ten times the steps are the same question, and so are ten times the weights."""
    members, mu, before = case(17, visits_with_zeros)
    one = best_addition(members, Coverage(rho, mu), before, 400)
    ten = best_addition(members, Coverage(rho, 10 * mu), 10 * before, 4000)
    assert ten.divergence == pytest.approx(one.divergence, abs=1e-6)


@pytest.mark.parametrize("rho", RHOS)
def test_one_state_is_filled_up_like_water(rho):
    """No dynamics: with (1, 5, 30) visits, even weights and 24 more steps the union is (15, 15, 30)/60."""
    members = Occupancies.average(MDP(np.ones((1, 3, 1))))
    found = best_addition(members, Coverage(rho, np.ones(3)), np.array([1, 5, 30]), 24, tol=1e-10)
    # The bottom is flat: sqrt of the gap, times 60/24.
    assert found.d == pytest.approx([0.25, 0.25, 0.5], abs=1e-4)
    assert found.psi == pytest.approx([14 / 24, 10 / 24, 0], abs=3e-4)


@pytest.mark.parametrize("rho", RHOS)
def test_without_a_choice_there_is_one_addition(rho):
    ring = np.roll(np.eye(5), 1, axis=1)[:, None, :]
    members = Occupancies.average(MDP(ring))
    before = np.array([0, 10, 20, 30, 40])
    found = best_addition(members, Coverage(rho, np.arange(1.0, 6.0)), before, 50)
    assert found.psi == pytest.approx(np.full(5, 0.2), abs=1e-9)
    assert found.gap <= 1e-9


# --- small budgets -------------------------------------------------------------------------------------


def share_of_the_gain(members: Occupancies, coverage: Coverage, before, psi) -> float:
    """Returns which part of the fastest fall of the divergence psi gives; 1 is the best direction."""
    shares = before / before.sum()
    reward = coverage.reward(shares)
    best = make_oracle(members).respond(reward).upper_bound
    return float(reward @ (psi - shares)) / (best - float(reward @ shares))


@pytest.mark.parametrize("rho", tiered([0, 0.5, 1, 2, 8], short=[2]))
def test_a_thousandth_more_is_spent_in_the_best_direction(rho):
    """The divergence is then linear in psi: nothing is better than the best response to its slope."""
    for seed in range(18, 22):
        members, mu, before = case(seed)
        num_steps = int(before.sum())
        found = best_addition(members, Coverage(rho, mu), 1000 * before, num_steps)
        assert share_of_the_gain(members, Coverage(rho, mu), before, found.psi) >= 0.98
        assert members.flow_error(found.psi) <= 1e-6


def test_a_ten_millionth_more_is_spent_in_the_best_direction():
    gains, errors = [], []
    for rho in (0, 0.5, 1, 2, 8):
        for seed in range(18, 22):
            members, mu, before = case(seed)
            found = best_addition(members, Coverage(rho, mu), 10**7 * before, int(before.sum()))
            gains.append(share_of_the_gain(members, Coverage(rho, mu), before, found.psi))
            errors.append(members.flow_error(found.psi))
    assert min(gains) >= 0.98
    assert max(errors) <= 1e-6


@pytest.mark.parametrize("most", [10**6, 10**9])
@pytest.mark.parametrize("rho", [*RHOS, 32, 1000])
def test_few_steps_are_many_for_pairs_that_have_hardly_any(rho, most):
    """A hundredth more or far less, but ten thousand times as much for two of the pairs: they share it."""
    members, coverage = Occupancies.average(MDP(np.ones((1, 3, 1)))), Coverage(rho, np.ones(3))
    found = best_addition(members, coverage, np.array([most, 1, 1]), 10**4)
    even = coverage.divergence(np.array([most, 5001, 5001]) / (most + 10_002))
    assert found.divergence == pytest.approx(even, abs=1e-6)
    assert found.gap <= 1e-6


@pytest.mark.parametrize("rho", [*RHOS, 32, 1000])
def test_a_pair_that_is_full_gets_none_of_the_new_steps(rho):
    """3,000,000 visits of one pair dwarf 300 new steps; at rho = 1 it used to get 97 % of them."""
    members, coverage = Occupancies.average(MDP(np.ones((1, 3, 1)))), Coverage(rho, np.ones(3))
    found = best_addition(members, coverage, np.array([3_000_000, 1, 1]), 300)
    assert found.psi == pytest.approx([0, 0.5, 0.5], abs=1e-6)
    assert found.gap <= 1e-6
    if rho == 1:
        assert found.divergence == pytest.approx(5.4993837, abs=1e-6)


@pytest.mark.thorough
def test_psi_is_an_occupancy_however_uneven_the_visits_are():
    """Visits over nine decades, and a budget of 1e-6 and 1e-4 of them; the gap is about a union one can have."""
    errors = []
    for seed in (7, 25, 26):
        members, mu, _ = case(seed)
        rng = np.random.default_rng(seed)
        for decades in (3, 5, 7, 9):
            before = np.floor(10 ** (decades * rng.random(mu.size)))
            for part in (1e-6, 1e-4):
                for rho in RHOS:
                    num_steps = max(1, int(part * before.sum()))
                    found = best_addition(members, Coverage(rho, mu), before, num_steps)
                    errors.append(members.membership(found.psi).flow)
    assert max(errors) <= 1e-8


@pytest.mark.parametrize("options", [{"discount": 0.9}, {"horizon": 6}])
def test_data_is_of_the_average_criterion_only(options):
    members = Occupancies.of(random_model(1), **options)
    with pytest.raises(InvalidArgumentError, match="average"):
        best_addition(members, Coverage(2, np.ones(members.num_pairs)), np.ones(members.num_pairs), 10)


# --- floors of each pair -------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [0, 0.5, 1, 2, 8, INF])
def test_a_floor_given_for_each_pair_is_the_one_given_for_all(rho):
    """The same numbers in another shape: the same point, up to the rounding of another order of sums."""
    for seed, tol in ((22, 1e-6), (23, 1e-9)):
        mdp = random_model(seed)
        eta = 0.6 * Occupancies.average(mdp).max_floor()[0] / 2
        members = Occupancies.average(mdp, eta=eta)
        program = make_program(members, Coverage(rho, mdp.per_pair(random_weights(mdp, seed), "mu")))
        spread = dataclasses.replace(program, floor=np.full(mdp.num_pairs, members.floor))
        one, all_of_them = (interior_point(p, tol=tol, max_steps=200) for p in (program, spread))
        assert all_of_them.divergence == pytest.approx(one.divergence, abs=2 * tol)
        assert all_of_them.lower_bound == pytest.approx(one.lower_bound, abs=2 * tol)
        assert all_of_them.d.min() >= members.floor - 1e-9


@pytest.mark.parametrize("rho", [0, 0.5, 1, 2, 8])
def test_a_floor_for_some_pairs_binds_only_there(rho):
    """A floor at half of what the free optimum gives changes nothing; one at twice lifts its pair to it."""
    mdp = random_model(24)
    program = make_program(Occupancies.average(mdp), Coverage(rho, np.ones(mdp.num_pairs)))
    free = interior_point(program, tol=1e-9, max_steps=200)
    loose = interior_point(dataclasses.replace(program, floor=free.d / 2), tol=1e-9, max_steps=200)
    assert loose.divergence == pytest.approx(free.divergence, abs=1e-8)
    floor = np.zeros(mdp.num_pairs)
    least = int(np.argmin(free.d))
    floor[least] = 1.2 * free.d[least]
    tight = interior_point(dataclasses.replace(program, floor=floor), tol=1e-9, max_steps=200)
    assert tight.d[least] == pytest.approx(floor[least], rel=1e-4)
    assert tight.divergence > free.divergence
