"""The leximin occupancy: no pair can be raised without lowering one that is worse off.

Second method: levels by successive linear programs, in fractions, that ask of each pair in turn, "can you
be raised any further?", where the library reads the answer off one program's multipliers.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from exact_optimum import exact_equations, simplex

from rhocover import MDP, Occupancies, envs, plan
from rhocover.planning.interior_point import SLACKS, leximin
from tiers import tiered

INF = float("inf")
CRITERIA = {"average": {}, "discounted": {"discount": 0.875}, "horizon": {"horizon": 2}}
# A held pair may lose SLACKS[-1] of its level; multipliers pass that on to later levels, here by up to 10.
ROUNDING = 100 * SLACKS[-1]


def random_model(seed: int, num_states: int = 3) -> MDP:
    """Returns a model with probabilities in 64ths, so that rows add up to 1 exactly.

    With rounded rows the exact method would see differences of 1e-17 that are not there.
    """
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(num_states, 0.5), size=2 * num_states)
    P = np.array([rng.multinomial(64 - num_states, row) + 1 for row in rows]) / 64
    start = (rng.multinomial(64 - num_states, np.full(num_states, 1 / num_states)) + 1) / 64
    return MDP(P.reshape(num_states, 2, num_states), start=start)


def random_weights(members: Occupancies, seed: int) -> np.ndarray:
    mu = np.random.default_rng(seed).random(members.num_pairs) + 0.1
    return mu / mu.sum()


def exact_levels(members: Occupancies, mu: np.ndarray) -> np.ndarray:
    """Returns d/mu of the leximin point: raise all free pairs, then hold those that cannot go on alone.

    In fractions, so that "cannot" has no tolerance.
    """
    equations = exact_equations(members, Fraction)
    weight = [Fraction(float(m)) for m in mu]
    level, free = [Fraction(0)] * mu.size, set(np.flatnonzero(mu).tolist())
    while free:
        t = highest(equations, weight, level, free)
        for i in free:
            level[i] = t
        stuck = {i for i in free if highest(equations, weight, level, {i}, more=True) == 0}
        assert stuck, "a level holds at least one pair"
        free -= stuck
    return np.array([float(v) for v in level])


def highest(equations, weight: list, level: list, raised: set[int], *, more: bool = False) -> Fraction:
    """Returns the largest t with a member d >= level mu that has d = t mu on the raised pairs, or `more` by t."""
    n = len(weight)
    lower = [
        v * m if more or i not in raised else Fraction(0)
        for i, (v, m) in enumerate(zip(level, weight, strict=False))
    ]
    rise = [m if i in raised else Fraction(0) for i, m in enumerate(weight)]
    table = [[Fraction(0)] * (n + 1) for _ in equations.right]
    right = list(equations.right)
    for i, column in enumerate(equations.columns):
        for r, v in column:
            table[r][i] += v
            table[r][n] += v * rise[i]
            right[r] -= v * lower[i]
    return simplex(table, right, n)


# --- known answers -------------------------------------------------------------------------------------


def lazy_return(p: float) -> MDP:
    """Returns state 0 with `stay` and `go`, and state 1, which returns with probability p."""
    P = np.zeros((2, 2, 2))
    P[0, 0, 0] = P[0, 1, 1] = 1.0
    P[1, 0] = p, 1 - p
    return MDP(P, available=[[True, True], [True, False]])


@pytest.mark.parametrize("p", [1.0, 0.5, 0.25, 1e-3])
def test_a_slow_return_has_two_levels(p):
    """`go` needs p visits of state 1 for one of its own; what is left goes to `stay`, up to the same level."""
    members = Occupancies.average(lazy_return(p))
    found = leximin(members, np.full(3, 1 / 3))
    expected = np.array([p, p, 1.0]) / (1 + 2 * p)
    assert found.d == pytest.approx(expected, rel=ROUNDING)
    assert found.level == pytest.approx(3 * expected, rel=ROUNDING)
    assert len(set(np.round(found.level, 6))) == (1 if p == 1 else 2)


def test_a_chain_that_forgets_its_action_has_a_level_for_each_state():
    """P(s'|s,a) = q(s') gives state s the level q(s)/mu(s), shared as the weights ask."""
    rng = np.random.default_rng(1)
    q, mu = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(15)).reshape(5, 3)
    mdp = MDP(np.tile(q, (5, 3, 1)))
    found = leximin(Occupancies.average(mdp), mu.ravel())
    level = q / mu.sum(axis=1)
    assert found.num_levels == 5
    assert found.level.reshape(5, 3) == pytest.approx(np.repeat(level[:, None], 3, axis=1), rel=ROUNDING)
    assert found.d.reshape(5, 3) == pytest.approx(level[:, None] * mu, rel=ROUNDING)


def test_weights_that_are_attainable_have_one_level():
    members = Occupancies.average(envs.double_chain(num_states=9))
    found = leximin(members, np.full(18, 1 / 18))
    assert found.level == pytest.approx(1, rel=1e-12)


# --- the exact method ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", tiered(range(4)))
@pytest.mark.parametrize("criterion", tiered(CRITERIA))
def test_leximin_agrees_with_exact_levels(criterion, seed):
    members = Occupancies.of(random_model(seed), **CRITERIA[criterion])
    mu = random_weights(members, seed)
    found = leximin(members, mu)
    assert found.level == pytest.approx(exact_levels(members, mu), rel=ROUNDING)
    assert found.d == pytest.approx(found.level * mu, rel=ROUNDING)
    assert members.contains(found.d, tol=1e-10)


def test_leximin_agrees_with_exact_levels_on_river_swim():
    members = Occupancies.average(envs.river_swim())
    mu = np.full(12, 1 / 12)
    assert leximin(members, mu).level == pytest.approx(exact_levels(members, mu), rel=ROUNDING)


def test_pairs_without_weight_have_no_level():
    members = Occupancies.average(random_model(5))
    mu = random_weights(members, 5)
    mu[[0, 3]] = 0.0
    mu /= mu.sum()
    found = leximin(members, mu)
    assert np.array_equal(np.isnan(found.level), mu == 0)
    assert found.level[mu > 0] == pytest.approx(exact_levels(members, mu)[mu > 0], rel=ROUNDING)


# --- what it is for ------------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", tiered(CRITERIA))
@pytest.mark.parametrize("name", tiered(["river_swim", "wheel", "forked_river_swim", "six_arms"]))
def test_leximin_attains_the_minimax_value_of_the_interior_point(name, criterion):
    mdp = envs.make(name)
    options = CRITERIA[criterion] | {"restrict": criterion == "horizon"}
    found, exact = plan(mdp, INF, **options, method="leximin"), plan(mdp, INF, **options)
    assert found.divergence == pytest.approx(exact.divergence, abs=found.gap + exact.gap)
    assert found.gap <= 1e-8
    # The same worst pairs, and no pair worse off than the interior point's worst.
    assert found.worst_ratio == pytest.approx(exact.worst_ratio, rel=1e-7)


@pytest.mark.parametrize("name", ["river_swim", "wheel", "garnet", "six_arms"])
def test_optima_for_growing_rho_tend_to_leximin(name):
    """At the rate 1/rho: ten times the rho, a tenth of the distance."""
    mdp = (
        envs.garnet(num_states=6, num_actions=2, num_successors=3, seed=1)
        if name == "garnet"
        else envs.make(name)
    )
    limit = plan(mdp, INF, method="leximin").occupancy
    distance = [np.abs(plan(mdp, rho, tol=1e-10).occupancy - limit).max() for rho in (1e3, 1e4, 1e5)]
    assert distance[0] <= 0.01
    for near, nearer in itertools.pairwise(distance):
        assert nearer == pytest.approx(near / 10, rel=0.1)


@pytest.mark.parametrize("rho", [10, 100, 1000])
def test_the_slow_return_tends_to_its_leximin_point_at_the_rate_of_one_over_rho(rho):
    """One unknown, x = d(1, back): (p^(1-rho) + 1) x^-rho = (1+p) d(0, stay)^-rho at the optimum."""
    p = 0.5
    log_share = (np.logaddexp((1 - rho) * np.log(p), 0.0) - np.log1p(p)) / rho
    x = 1 / (np.exp(-log_share) + 1 + p)
    exact = np.array([1 - (1 + p) * x, p * x, x])
    limit = leximin(Occupancies.average(lazy_return(p)), np.full(3, 1 / 3)).d
    assert np.abs(exact - limit).max() <= 1 / rho
    found = plan(lazy_return(p), rho, tol=1e-12).occupancy
    assert found[[0, 0, 1], [0, 1, 0]] == pytest.approx(exact, abs=1e-6)  # sqrt(gap)


def test_leximin_raises_what_the_minimax_plan_may_leave_low():
    """Among all minimax optima it is the one whose sorted levels are highest: compared pair by pair."""
    mdp = envs.river_swim()
    found, other = plan(mdp, INF, method="leximin"), plan(mdp, INF)
    ours, theirs = np.sort(found.occupancy.ravel()), np.sort(other.occupancy.ravel())
    first = int(np.argmax(np.abs(ours - theirs) > 1e-7))
    assert ours[first] >= theirs[first] - 1e-7
