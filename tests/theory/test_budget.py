"""Budgets against closed forms, brute force and simulation.

Closed forms: where P(s'|s,a) = q(s') visits are binomial; on a cycle everything is certain. Second methods: the
distribution iterated step by step, exact probabilities by dynamic programming over counts, simulation. Mutants: n + 1
in place of n steps, E T(n) summed to t <= n, a union over one pair, pi(a|s) forgotten, 1/N forgotten in the model error.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from rhocover import MDP, Occupancies, chains, envs, weights
from rhocover.errors import InvalidArgumentError, NotCommunicatingError
from rhocover.theory import Budget, budget, certainty
from tiers import tiered

INF = math.inf


def independent_model(q: np.ndarray, num_actions: int) -> MDP:
    """Returns the model whose next state is drawn from q whatever is done."""
    return MDP(np.tile(q, (q.size, num_actions, 1)))


def cycle(num_states: int) -> MDP:
    return MDP(np.roll(np.eye(num_states), 1, axis=1)[:, None, :])


def random_model(seed: int, num_states: int = 5, num_actions: int = 3) -> MDP:
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(num_states, 0.4), size=(num_states, num_actions))
    return MDP(0.9 * P + 0.1 / num_states)


def random_policy(mdp: MDP, seed: int) -> np.ndarray:
    """Returns a policy that takes every one of three actions at least one time in twelve."""
    random = np.random.default_rng(seed).dirichlet(np.ones(mdp.num_actions), size=mdp.num_states)
    return 0.75 * random + 0.25 / mdp.num_actions


def first_time_by_hand(mdp: MDP, policy: np.ndarray, start: np.ndarray, m: np.ndarray) -> int:
    """Returns the first n with E T_i(n) >= m_i, one step at a time."""
    x, seen, n = start, np.zeros_like(policy), 0
    P = mdp.dense()
    while not (seen >= m * (1 - 1e-9)).all():
        here = x[:, None] * policy
        seen, x, n = seen + here, np.einsum("sa,sat->t", here, P), n + 1
    return n


def chance_of_too_few(mdp: MDP, policy: np.ndarray, start: np.ndarray, pair: tuple, m: int, n: int) -> float:
    """Returns P(T_pair(n) < m) exactly: the joint law of state and count, counts beyond m dropped."""
    P, (s, a) = mdp.dense(), pair
    law = np.zeros((m, mdp.num_states))
    law[0] = start
    other = policy.copy()
    other[s, a] = 0
    without, through = np.einsum("sa,sat->st", other, P), policy[s, a] * P[s, a]
    for _ in range(n):
        moved = law @ without
        moved[1:] += np.outer(law[:-1, s], through)
        law = moved
    return float(law.sum())


def simulate(
    mdp: MDP, policy: np.ndarray, start: int, num_steps: int, num_runs: int, seed: int
) -> np.ndarray:
    """Returns how often each run went from each pair to each state, `[runs, S, A, S]`."""
    rng = np.random.default_rng(seed)
    P, S, A = mdp.dense(), mdp.num_states, mdp.num_actions
    act, move = policy.cumsum(axis=1), P.cumsum(axis=2)
    act[:, -1] = move[:, :, -1] = 1.0
    counts = np.zeros((num_runs, S, A, S), dtype=np.int32)
    s, run = np.full(num_runs, start), np.arange(num_runs)
    for _ in range(num_steps):
        a = (rng.random(num_runs)[:, None] >= act[s]).sum(axis=1)
        after = (rng.random(num_runs)[:, None] >= move[s, a]).sum(axis=1)
        counts[run, s, a, after] += 1
        s = after
    return counts


# --- closed forms --------------------------------------------------------------------------------------


def test_visits_of_independent_states_cost_their_closed_form() -> None:
    """d*(s,a) = q(s) m(s,a)/m(s), so n q(s) >= m(s) in the long run; from state 0 one visit is for free."""
    q, m = np.array([0.5, 0.3, 0.2]), np.array([[10, 20], [30, 40], [25, 25]])
    found = budget(independent_model(q, 2), visits=m)
    per_state = m.sum(axis=1)
    assert found.steps in (250, 251)  # 50 / 0.2, and the plan's tolerance may show
    assert found.lower_bound_steps == 250
    exact = 1 + max((per_state - [1, 0, 0]) / q)
    assert exact <= found.expected_steps <= exact + 1 + 1e-3
    assert found.best.bottleneck == "(2, 0), (2, 1)"


@pytest.mark.parametrize("m", tiered([1, 10, 1000]))
def test_sure_steps_of_independent_states_are_those_of_binomial_tails_and_little_more(m: int) -> None:
    q = np.array([0.5, 0.3, 0.2])
    mdp, policy = independent_model(q, 2), np.array([[0.3, 0.7], [0.5, 0.5], [0.9, 0.1]])
    given = budget(mdp, visits=m, policy=policy, start=q, delta=0.01).given
    assert given is not None
    share = (q[:, None] * policy).ravel()

    def failure(n: float) -> float:
        return float(stats.binom.cdf(m - 1, n, share).sum())

    assert failure(given.sure_steps) <= 0.01
    least = next(n for n in range(int(m / share.min()), 10**6) if failure(n) <= 0.01)
    assert given.sure_steps <= 1.15 * least  # Chernoff loses a factor in front of the exponential


@pytest.mark.parametrize("m", [1, 7, 2000])
def test_on_a_cycle_everything_is_certain(m: int) -> None:
    found = budget(cycle(9), visits=m)
    assert (found.steps, found.lower_bound_steps, found.expected_steps) == (9 * m, 9 * m, 9 * m)
    assert 9 * m <= found.sure_steps <= 9 * m + 1
    assert found.lower_bound_expected_steps == 9 * m
    assert budget(cycle(9), visits=m, start=4).expected_steps == 9 * m


# --- second methods ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", tiered(range(6)))
def test_expected_steps_are_those_of_the_distribution_iterated_step_by_step(seed: int) -> None:
    mdp, rng = random_model(seed), np.random.default_rng(seed)
    m = rng.integers(0, 40, size=(5, 3))
    policy, start = random_policy(mdp, seed), rng.dirichlet(np.ones(5))
    found = budget(mdp, visits=m, policy=policy, start=start)
    assert found.given is not None
    assert found.given.expected_steps == first_time_by_hand(mdp, policy, start, m)
    assert found.best.expected_steps == first_time_by_hand(mdp, found.policy, start, m)


@pytest.mark.parametrize("need", [1, 30, 5000, 10**9])
def test_doubling_and_sweeps_find_the_same_time(need: int) -> None:
    mdp = envs.river_swim(num_states=12)
    chain = chains.policy_chain(mdp, np.full((12, 2), 0.5) + np.array([-0.3, 0.3]))
    start = np.eye(12)[5]
    frequency = certainty.long_run_frequencies(chain, start)
    needs = np.full(12, float(need))
    doubled = certainty.by_doubling(chain, start, needs, frequency)
    swept = certainty.by_sweeps(chain, start, needs, frequency)
    assert doubled == pytest.approx(swept, rel=1e-9)  # a need may fall short by that
    assert need > 10**6 or doubled == swept


def test_a_periodic_chain_is_swept_to_the_end() -> None:
    chain = sp.csr_array(np.roll(np.eye(6), 1, axis=1))
    needs, start, frequency = np.full(6, 50.0), np.eye(6)[2], np.full(6, 1 / 6)
    assert certainty.by_sweeps(chain, start, needs, frequency) == 300
    assert certainty.by_doubling(chain, start, needs, frequency) == 300


@pytest.mark.parametrize("y", [0.005, 0.02, 0.05])
def test_each_bound_holds_for_the_exact_probability_of_too_few_visits(y: float) -> None:
    mdp = envs.river_swim(num_states=4)
    policy, start = np.tile([0.35, 0.65], (4, 1)), np.eye(4)[0]
    chain, m, n = chains.policy_chain(mdp, policy), 4, 250
    returns = certainty._read(
        mdp, chain, policy.ravel(), start, np.full(8, float(m)), np.arange(4), np.arange(8)
    )
    level, rate = certainty.bounds_at(returns, y)
    valid = np.isfinite(level)
    assert valid.sum() >= 4
    assert (rate[valid] <= y).all()
    for i in np.flatnonzero(valid):
        exact = chance_of_too_few(mdp, policy, start, (i // 2, i % 2), m, n)
        assert exact <= math.exp(level[i] - rate[i] * n)


def test_sure_steps_are_about_as_few_as_the_exact_union_allows() -> None:
    mdp, m = envs.river_swim(num_states=4), 6
    policy, start = np.tile([0.35, 0.65], (4, 1)), np.eye(4)[0]
    given = budget(mdp, visits=m, policy=policy).given
    assert given is not None

    def failure(n: int) -> float:
        return sum(chance_of_too_few(mdp, policy, start, (s, a), m, n) for s in range(4) for a in range(2))

    n = int(given.sure_steps or 0)
    assert failure(n) <= 0.05
    assert failure(int(0.7 * n)) > 0.05  # the bound is at most 1 / 0.7 too large


@pytest.mark.parametrize("mdp", [envs.river_swim(), random_model(8)], ids=["river_swim", "random"])
def test_simulated_runs_have_their_visits_after_sure_steps(mdp: MDP) -> None:
    found = budget(mdp, visits=3, delta=0.2)
    counts = simulate(mdp, found.policy, 0, int(found.sure_steps or 0), num_runs=2000, seed=1).sum(axis=3)
    failures = int((counts < 3).any(axis=(1, 2)).sum())
    assert failures <= stats.binom.isf(1e-6, 2000, 0.2)  # fails by chance once in 1e6


def test_simulated_visits_have_the_expected_mean_at_expected_steps() -> None:
    mdp = envs.river_swim()
    found = budget(mdp, visits=5)
    counts = simulate(mdp, found.policy, 0, int(found.expected_steps or 0), num_runs=4000, seed=2).sum(axis=3)
    mean, error = counts.mean(axis=0), counts.std(axis=0, ddof=1) / math.sqrt(4000)
    quantile = stats.norm.isf(1e-6 / 24)  # 12 pairs, two sides
    assert (mean + quantile * error >= 5).all()
    assert (mean - quantile * error <= 5 + 0.5).any()  # one step less would not be enough for some pair


# --- what no policy can beat ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", tiered(range(5)))
def test_no_policy_beats_the_lower_bounds(seed: int) -> None:
    mdp = random_model(seed)
    m = np.random.default_rng(seed).integers(1, 50, size=(5, 3))
    found = budget(mdp, visits=m)
    assert found.lower_bound_steps <= found.steps <= found.lower_bound_steps * (1 + 1e-5) + 1
    for k in range(5):
        policy = random_policy(mdp, 100 + k)
        d = Occupancies.average(mdp).from_policy(policy)
        given = budget(mdp, visits=m, policy=policy, start=k).given
        assert given is not None
        assert given.steps == math.ceil((m.ravel() / d).max())
        assert given.steps >= found.lower_bound_steps
        assert given.expected_steps >= budget(mdp, visits=m, start=k).lower_bound_expected_steps


def test_the_bound_on_expected_visits_holds_for_every_behaviour_and_is_close() -> None:
    """The best that any behaviour can expect, by an exact search: E T_i(n) >= m is infeasible below the bound."""
    mdp = envs.river_swim(num_states=3)
    found = budget(mdp, visits=2, start=2)
    from scipy.optimize import linprog

    def reachable(n: int) -> bool:
        members = Occupancies.horizon(mdp, n, start=2)
        total = sp.csr_array((np.full(members.num_pairs, -n), (members.pair, np.arange(members.num_pairs))))
        end = linprog(
            np.zeros(members.num_pairs), total, np.full(mdp.num_pairs, -2.0), members.flow, members.inflow
        )
        return end.status == 0

    bound = found.lower_bound_expected_steps
    assert bound is not None
    assert not reachable(bound - 1)
    assert bound > 0.8 * next(n for n in range(bound, 10 * bound) if reachable(n))


@pytest.mark.thorough
def test_more_visits_and_less_risk_take_more_steps() -> None:
    mdp = envs.four_rooms()
    few, many = budget(mdp, visits=2), budget(mdp, visits=3)
    safe = budget(mdp, visits=2, delta=1e-6)
    for name in ("steps", "expected_steps", "sure_steps", "lower_bound_steps"):
        assert getattr(few, name) < getattr(many, name)
    assert safe.sure_steps > few.sure_steps >= few.expected_steps
    assert safe.expected_steps == few.expected_steps


# --- pairs that are not needed, not reached, or left to chance -----------------------------------------


def test_ways_between_needed_pairs_stay_open() -> None:
    """The long-run optimum may never go from one needed pair to the other; the policy given must."""
    m = np.zeros((6, 2))
    m[0, 0] = m[5, 1] = 50
    found = budget(envs.river_swim(), visits=m)
    assert found.expected_steps < 3 * found.lower_bound_steps
    assert found.sure_steps < 20 * found.lower_bound_steps
    assert "for moving between the needed pairs" in found.best.note
    assert found.wish == "2 of 12 pairs visited 50 times"


def test_a_pair_that_a_policy_never_reaches_is_named() -> None:
    policy = np.full((6, 2), 0.5)
    policy[3] = [1, 0]
    found = budget(envs.river_swim(), visits=10, policy=policy)
    assert found.given is not None
    assert (found.given.steps, found.given.expected_steps, found.given.sure_steps) == (INF, INF, INF)
    assert "Never reached from the start: (3, right) and 4 more" in found.given.note
    assert found.steps < INF


def transient_start() -> MDP:
    """Returns 0 -> 1 <-> 2 with a second action in 0 that stays there."""
    P = np.zeros((3, 2, 3))
    P[0, 0, 0], P[0, 1, 1] = 1, 1
    P[1, :, 2] = P[2, :, 1] = 1
    return MDP(P)


def test_visits_on_the_way_count_in_expectation_but_not_in_the_long_run() -> None:
    """State 0 is left after 4 steps on average, three of them with the action that stays."""
    mdp, m = transient_start(), np.array([[3, 0], [1, 0], [0, 0]])
    policy = np.array([[0.75, 0.25], [0.5, 0.5], [0.5, 0.5]])
    found = budget(mdp, visits=[[1, 0], [0, 0], [0, 0]], policy=policy)
    assert found.given is not None
    assert found.given.steps == INF
    assert "Not visited again and again: (0, 0)" in found.given.note
    assert found.given.expected_steps == 2  # 0.75, then 0.75 + 0.75^2
    assert found.given.sure_steps == INF  # with probability 1/4 the first move leads away
    assert "only with probability 0.75" in found.given.note
    never = budget(mdp, visits=[[4, 0], [0, 0], [0, 0]], policy=policy).given
    assert never is not None
    assert never.expected_steps == INF  # 3 visits are expected in all
    with pytest.raises(NotCommunicatingError, match="restrict=True"):
        budget(mdp, visits=m)


def test_a_start_outside_the_recurrent_part_only_adds_the_way_there() -> None:
    mdp, m = transient_start(), np.array([[0, 0], [5, 5], [5, 5]])
    policy = np.array([[0.75, 0.25], [0.5, 0.5], [0.5, 0.5]])
    given = budget(mdp, visits=m, policy=policy, start=0).given
    inside = budget(mdp, visits=m, policy=policy, start=1).given
    assert given is not None
    assert inside is not None
    assert given.steps == inside.steps == 20
    assert given.expected_steps == first_time_by_hand(mdp, policy, np.eye(3)[0], m) > inside.expected_steps
    assert INF > given.sure_steps > inside.sure_steps


def test_where_the_start_decides_between_two_traps_nothing_is_sure() -> None:
    P = np.zeros((3, 1, 3))
    P[0, 0] = [0, 0.7, 0.3]
    P[1, 0, 1] = P[2, 0, 2] = 1
    mdp, m = MDP(P), np.array([[0], [7], [0]])
    found = budget(mdp, visits=m, policy=np.ones((3, 1)))
    assert found.given is not None
    assert found.given.steps == 10  # 7 visits at 0.7 of the time, on average over runs
    assert found.given.expected_steps == 11
    assert found.given.sure_steps == INF
    assert "only with probability 0.7," in found.given.note


def test_restrict_drops_what_cannot_be_visited_for_ever() -> None:
    found = budget(transient_start(), visits=4, restrict=True, start=1)
    assert found.visits is not None
    assert (found.visits == [[0, 0], [4, 4], [4, 4]]).all()
    assert (found.steps, found.expected_steps) == (16, 16)
    assert "Dropped" in str(found)


def test_the_model_s_own_start_counts_unless_another_is_passed() -> None:
    base = envs.river_swim()
    mdp = MDP(base.dense(), start=5)
    assert budget(mdp, visits=1).expected_steps == budget(base, visits=1, start=5).expected_steps
    assert budget(mdp, visits=1, start=0).expected_steps == budget(base, visits=1).expected_steps
    assert budget(base, visits=1).expected_steps != budget(base, visits=1, start=2).expected_steps


def test_large_models_say_what_is_left_out_and_why() -> None:
    found = budget(envs.grid_world(num_rows=34), visits=2)
    assert found.sure_steps is None
    assert "not computed above 1000 states" in found.best.note
    assert found.lower_bound_steps <= found.expected_steps < INF
    assert "None" not in str(found)


# --- model error ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mdp", [random_model(3), envs.river_swim()], ids=["random", "river_swim"])
def test_the_simulated_model_error_is_the_one_asked_for(mdp: MDP) -> None:
    """First order in 1/n: at some 100 visits a pair the next order is a few per cent."""
    eps = 0.04
    found = budget(mdp, model_error=eps)
    counts = simulate(mdp, found.policy, 0, int(found.steps), num_runs=300, seed=3)
    times = counts.sum(axis=3, keepdims=True)
    error = ((counts / np.maximum(times, 1) - mdp.dense()) ** 2).sum(axis=3)
    error = np.where(weights.transition_std(mdp) > 0, error, 0.0).mean(axis=(1, 2))
    margin = stats.norm.isf(1e-6 / 2) * error.std(ddof=1) / math.sqrt(error.size)
    assert error.mean() == pytest.approx(eps**2, abs=margin + 0.1 * eps**2)
    assert margin < 0.2 * eps**2


def test_the_model_error_of_independent_states_has_its_closed_form() -> None:
    """c is the same for all, so d* = q(s)/A and steps = c A^2 sum 1/q / (N eps^2)."""
    q = np.array([0.6, 0.4])
    found = budget(independent_model(q, 3), model_error=0.1)
    c = float((q * (1 - q)).sum())
    exact = c * 9 * (1 / q).sum() / (6 * 0.01)
    assert exact == pytest.approx(300)
    assert found.lower_bound_steps == 300
    assert found.steps in (300, 301)
    half = budget(independent_model(q, 3), model_error=0.05)
    assert half.steps == pytest.approx(4 * found.steps, abs=4)


def test_a_policy_is_no_better_than_the_best_for_the_model_and_may_never_learn_it() -> None:
    mdp = random_model(4)
    for seed in range(5):
        found = budget(mdp, model_error=0.1, policy=random_policy(mdp, seed))
        assert found.given is not None
        assert found.given.steps > found.lower_bound_steps
    policy = np.tile([1.0, 0.0, 0.0], (5, 1))
    given = budget(mdp, model_error=0.1, policy=policy).given
    assert given is not None
    assert given.steps == INF
    assert "Not visited again and again: (0, 1)" in given.note


# --- the answer, and what is refused -------------------------------------------------------------------


def test_a_summary_is_ready_for_json_and_the_text_can_be_read_without_the_paper() -> None:
    policy = np.full((6, 2), 0.5)
    policy[3] = [1, 0]
    found = budget(envs.river_swim(), visits=10, policy=policy)
    read = json.loads(json.dumps(found.summary()))
    assert read["given"]["steps"] == "inf"
    assert read["steps"] == found.steps
    assert isinstance(found, Budget)
    for text in ("12 of 12 pairs visited 10 times", "at the best policy", "at the given policy", "0.95"):
        assert text in str(found)
    assert json.dumps(budget(envs.river_swim(), model_error=0.1).summary())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "a goal is missing: `visits` or `model_error`. Pass visits=100 or model_error=0.05."),
        ({"visits": 3, "model_error": 0.1}, "`model_error` cannot be combined with `visits`. Leave it out."),
        ({"visits": 0}, "`visits` must be at least 1, got 0"),
        ({"visits": -2}, "`visits` must be at least 1, got -2"),
        ({"visits": 2.5}, "`visits` must be a whole number, got 2.5"),
        ({"visits": True}, "`visits` must be a whole number, got True"),
        ({"visits": np.zeros((6, 2))}, "`visits` must ask for at least one pair"),
        ({"visits": np.full((6, 2), 1.5)}, r"whole numbers up to 2\^53, got visits\[0, 0\] = 1.5"),
        ({"visits": np.full((6, 2), -1)}, r"`visits` must be non-negative, got visits\[0, 0\] = -1"),
        ({"visits": np.full((6, 2), np.nan)}, "`visits` must be finite"),
        ({"visits": np.ones((2, 6))}, r"`visits` must have shape \(6, 2\)"),
        ({"visits": "many"}, "`visits` must be a whole number, got 'many'"),
        ({"model_error": 0}, r"`model_error` must be in \(0, inf\), got 0"),
        ({"model_error": -0.1}, r"`model_error` must be in \(0, inf\), got -0.1"),
        ({"visits": 3, "delta": 0}, r"`delta` must be in \(0, 1\), got 0"),
        ({"visits": 3, "delta": 1.5}, r"`delta` must be in \(0, 1\), got 1.5"),
        ({"visits": 3, "start": 6}, "`start` must be a state in 0..5, got 6"),
        ({"visits": 3, "start": np.ones(6)}, "`start` must sum to 1"),
        ({"visits": 3, "policy": np.ones((6, 2))}, "`policy` must sum to 1 in every state"),
        ({"visits": 3, "policy": np.ones((2, 6))}, r"`policy` must have shape \(6, 2\)"),
    ],
)
def test_bad_arguments_are_named(options: dict, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        budget(envs.river_swim(), **options)


def test_what_is_not_a_model_and_a_model_without_randomness_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="`mdp` must be an MDP, got ndarray"):
        budget(np.eye(3), visits=1)  # pyright: ignore
    with pytest.raises(InvalidArgumentError, match="pass visits=1 instead of `model_error`"):
        budget(cycle(4), model_error=0.1)
