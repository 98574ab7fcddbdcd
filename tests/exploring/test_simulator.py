"""A simulated world: compiled loops do what their plain source says, and what the model says.

Three witnesses: the same source run as plain Python, bit by bit; a second implementation in the words of
NumPy, bit by bit; and the law of large numbers, by chi-square tests that fail by chance once in a million
runs of this file (seeds are fixed, so they fail always or never).
"""

from __future__ import annotations

import importlib.util
import types
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
from exploring_models import INF, one_state, problem_of, random_model

import rhocover as rc
from rhocover import MDP
from rhocover.errors import InvalidArgumentError
from rhocover.exploring.worlds import (
    FlowCorrectedScore,
    LowestScore,
    Position,
    SamplePolicy,
    Visits,
    choice_cdf,
    cumulative,
    first_pairs,
    simulator,
)
from rhocover.exploring.worlds import simulator as simulator_module
from rhocover.exploring.worlds.simulator import Simulator
from rhocover.theory.limits import FlowProjection
from small_models import random_weights
from tiers import tiered

CHANCE = 1e-6  # of a false alarm, shared by all chi-square tests of this file
KINDS = ["sampled", "balanced", "steered"]
MODELS = {
    "river": rc.envs.river_swim(),
    "actions by state": random_model(3),
    "more states": random_model(4, 9, 4),
    "one state": one_state(),
    "one pair": MDP(np.ones((1, 1, 1))),
    "deterministic": rc.envs.double_chain(num_states=7),
}


def uniform_start(mdp: MDP) -> np.ndarray:
    return np.full(mdp.num_states, 1 / mdp.num_states)


def behaviour_of(kind: str, mdp: MDP, seed: int = 0) -> SamplePolicy | LowestScore | FlowCorrectedScore:
    """Returns some behaviour with no structure at all; some actions are never played when sampled."""
    rng = np.random.default_rng(seed)
    n = mdp.num_pairs
    if kind == "sampled":
        policy = rng.random(n) * (rng.random(n) < 0.8)
        policy[first_pairs(mdp)[:-1]] += 0.1
        return SamplePolicy(policy)
    if kind == "balanced":
        return LowestScore(rng.normal(size=n), rng.random(n) / n, rng.random(n) + 0.5)
    projection = FlowProjection(rc.Occupancies.average(mdp), rng.random(n) + 0.1)
    return FlowCorrectedScore(
        rng.normal(size=n), rng.normal(size=n), rng.random(n) / n, rng.random(n) + 0.5,
        projection.W, projection.inverse(), 7, mdp,
    )  # fmt: skip


def plain_acting() -> types.ModuleType:
    """Returns `acting` with nothing compiled, not even what its loops call."""
    spec = importlib.util.find_spec("rhocover.exploring.worlds.simulator")
    source = Path(spec.origin).read_text()
    assert source.count("@compiled\n") >= 4
    module = types.ModuleType("plain_acting")
    exec(source.replace("@compiled\n", ""), module.__dict__)
    return module


def played(world: Simulator, behaviour, num_steps: int, seed: int = 0, cuts=()) -> tuple[Position, Visits]:
    """Returns where a world is and what it saw after `num_steps`, taken in pieces that end at `cuts`."""
    position, seen = world.begin(seed), Visits.none(world.mdp)
    act = world.follow(behaviour)
    for begin, end in zip((0, *cuts), (*cuts, num_steps), strict=True):
        world.advance(position, act, seen, end - begin)
    return position, seen


def same(one: tuple[Position, Visits], other: tuple[Position, Visits]) -> None:
    (here, seen), (there, also) = one, other
    np.testing.assert_array_equal(here.states, there.states)
    assert here.generator.bit_generator.state == there.generator.bit_generator.state
    np.testing.assert_array_equal(seen.pairs, also.pairs)
    np.testing.assert_array_equal(seen.moves, also.moves)
    assert seen.scores.tobytes() == also.scores.tobytes()
    assert seen.num_steps == also.num_steps


# --- compiled and plain -------------------------------------------------------------------------------


@pytest.mark.parametrize("num_chains", tiered([1, 5]))
@pytest.mark.parametrize("kind", tiered(KINDS))
@pytest.mark.parametrize("model", tiered(MODELS))
def test_compiled_loops_have_the_bits_of_their_source_run_as_plain_python(
    model, kind, num_chains, monkeypatch
):
    # Mutants: fused multiply-adds, a reordered sum, an integer that wraps.
    mdp, plain = MODELS[model], plain_acting()
    world = Simulator(mdp, uniform_start(mdp), num_chains)
    compiled = played(world, behaviour_of(kind, mdp), 600)
    for name in ("act_by_policy", "act_by_score", "act_by_corrected_score"):
        monkeypatch.setattr(simulator_module, name, getattr(plain, name))
    same(compiled, played(world, behaviour_of(kind, mdp), 600))


def test_the_loops_are_compiled():
    for name in ("find", "lowest", "refresh", "act_by_policy", "act_by_score", "act_by_corrected_score"):
        assert callable(getattr(simulator, name).py_func)


def shares_of(values: np.ndarray) -> np.ndarray:
    """Returns cumulative shares, 1 from the last positive value on."""
    total = np.cumsum(values / values.sum())
    total[np.flatnonzero(values)[-1] :] = 1.0
    return total


def twin(mdp: MDP, start: np.ndarray, behaviour, num_chains: int, num_steps: int, seed: int):
    """Returns (states, visits, moves) of a world in the words of NumPy: searchsorted and argmin."""
    generator = np.random.Generator(np.random.PCG64(seed))
    states = np.searchsorted(shares_of(start), generator.random(num_chains), side="right")
    visits, moves = np.zeros(mdp.num_pairs, int), np.zeros((mdp.num_pairs, mdp.num_states), int)
    P, done = mdp.transitions.toarray(), 0
    for _ in range(num_steps // num_chains):
        for chain in range(num_chains):
            to_act, to_move = generator.random(2)
            pairs = np.flatnonzero(mdp.pair_state == states[chain])
            if isinstance(behaviour, SamplePolicy):
                pair = pairs[np.searchsorted(shares_of(behaviour.policy[pairs]), to_act, side="right")]
            else:
                ahead = behaviour.base + visits - done * behaviour.rate
                pair = pairs[np.argmin((ahead * behaviour.scale)[pairs])]
            states[chain] = np.searchsorted(shares_of(P[pair]), to_move, side="right")
            visits[pair] += 1
            moves[pair, states[chain]] += 1
            done += 1
    return states, visits, moves


@pytest.mark.parametrize("num_chains", tiered([1, 3]))
@pytest.mark.parametrize("kind", tiered(["sampled", "balanced"]))
@pytest.mark.parametrize("model", tiered(MODELS))
def test_a_world_has_the_bits_of_a_second_implementation(model, kind, num_chains):
    # Mutants: the two uniform numbers exchanged, <= for <, chains that do not share their counts.
    mdp = MODELS[model]
    start = uniform_start(mdp)
    behaviour = behaviour_of(kind, mdp, seed=1)
    position, seen = played(Simulator(mdp, start, num_chains), behaviour, 900, seed=7)
    states, visits, moves = twin(mdp, start, behaviour, num_chains, 900, seed=7)
    np.testing.assert_array_equal(position.states, states)
    np.testing.assert_array_equal(seen.pairs, visits)
    P = mdp.transitions
    pair = np.repeat(np.arange(mdp.num_pairs), np.diff(P.indptr))
    np.testing.assert_array_equal(seen.moves, moves[pair, P.indices])
    assert seen.moves.sum() == moves.sum() == 900


@pytest.mark.parametrize("model", ["river", "actions by state", "more states", "deterministic"])
def test_a_steered_world_plays_the_lowest_score_with_the_flow_taken_out_every_period(model):
    """Against dense linear algebra: g = W B'(B W B')^-1 B v, at the last multiple of the period."""
    mdp = MODELS[model]
    world, rule = Simulator(mdp, uniform_start(mdp)), behaviour_of("steered", mdp, seed=2)
    members = rc.Occupancies.average(mdp)
    B = np.vstack([members.flow.toarray()[:-1], np.ones(mdp.num_pairs)])
    G = rule.weight[:, None] * B.T @ np.linalg.solve(B * rule.weight @ B.T, B)
    position, seen, act = world.begin(3), Visits.none(mdp), world.follow(rule)
    for done in range(300):
        here, before = int(position.states[0]), seen.pairs.copy()
        ahead = rule.moved + before - done * rule.rate
        if done % rule.period == 0:
            forced = G @ ahead
        score = (rule.offset + ahead - forced) * rule.scale
        world.advance(position, act, seen, 1)
        pair = int(np.flatnonzero(seen.pairs - before)[0])
        assert mdp.pair_state[pair] == here
        # 1e-9: two ways to solve one well-conditioned system, of entries near 10
        assert score[pair] <= score[mdp.pair_state == here].min() + 1e-9


# --- cutting and merging ------------------------------------------------------------------------------


@pytest.mark.parametrize("num_chains", [1, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_where_a_stretch_is_cut_makes_no_difference(kind, num_chains, monkeypatch):
    # Mutants: the scores of a period forgotten at a cut, uniform numbers drawn ahead and thrown away.
    mdp = MODELS["actions by state"]
    world, behaviour = Simulator(mdp, uniform_start(mdp), num_chains), behaviour_of(kind, mdp, seed=4)
    whole = played(world, behaviour, 800)
    rng = np.random.default_rng(0)
    for size in (1, 2, 7, 60):
        cuts = sorted(num_chains * rng.choice(np.arange(1, 800 // num_chains), size, replace=False))
        same(whole, played(world, behaviour, 800, cuts=cuts))
    same(whole, played(world, behaviour, 800, cuts=range(num_chains, 800, num_chains)))
    monkeypatch.setattr(simulator_module, "DRAWS", 2 * 13 * num_chains)
    same(whole, played(world, behaviour, 800))


def test_merged_visits_add_up():
    mdp = MODELS["river"]
    world, behaviour = Simulator(mdp, uniform_start(mdp)), behaviour_of("sampled", mdp)
    parts = [played(world, behaviour, 100 + seed, seed)[1] for seed in range(3)]
    merged = parts[0] + parts[1] + parts[2]
    assert merged.num_steps == merged.pairs.sum() == merged.moves.sum() == 303
    np.testing.assert_array_equal(merged.pairs, sum(part.pairs for part in parts))
    np.testing.assert_array_equal(merged.moves, sum(part.moves for part in parts))
    assert (Visits.none(mdp) + merged).num_steps == 303


def test_the_next_block_keeps_the_moves_and_nothing_else():
    mdp = MODELS["river"]
    _, seen = played(Simulator(mdp, uniform_start(mdp)), behaviour_of("sampled", mdp), 50)
    seen.next_block()
    assert (seen.num_steps, seen.pairs.sum(), seen.moves.sum()) == (0, 0, 50)


@pytest.mark.parametrize("num_chains", [1, 6])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", MODELS)
def test_what_comes_into_a_state_and_what_leaves_it_differ_by_the_two_ends(model, kind, num_chains):
    mdp = MODELS[model]
    world = Simulator(mdp, uniform_start(mdp), num_chains)
    first = world.begin(5).states
    position, seen = played(world, behaviour_of(kind, mdp), 600, seed=5)
    S = mdp.num_states
    arrivals = np.bincount(mdp.transitions.indices, seen.moves, S)
    departures = np.bincount(mdp.pair_state, seen.pairs, S)
    ends = np.bincount(position.states, minlength=S) - np.bincount(first, minlength=S)
    np.testing.assert_array_equal(arrivals - departures, ends)
    pair = np.repeat(np.arange(mdp.num_pairs), np.diff(mdp.transitions.indptr))
    np.testing.assert_array_equal(np.bincount(pair, seen.moves, mdp.num_pairs), seen.pairs)


# --- frequencies --------------------------------------------------------------------------------------


def fits(counts: np.ndarray, shares: np.ndarray, chance: float) -> bool:
    """Returns whether counts could be draws of these shares; what has no share has no count."""
    assert not counts[shares == 0].any()
    counts, shares = counts[shares > 0], shares[shares > 0] / shares.sum()
    if counts.size < 2:
        return True
    assert counts.sum() * shares.min() >= 5, "too few draws for a chi-square test"
    statistic = float(np.sum((counts - counts.sum() * shares) ** 2 / (counts.sum() * shares)))
    return bool(scipy.stats.chi2.sf(statistic, counts.size - 1) > chance)


@pytest.mark.parametrize("model", ["river", "actions by state", "more states"])
def test_moves_are_those_of_the_model_and_actions_those_of_the_policy(model):
    """About 100 tests in all, each of which may fail by chance once in 1e8."""
    mdp = MODELS[model]
    policy = np.random.default_rng(0).random(mdp.num_pairs) + 0.2
    _, seen = played(Simulator(mdp, uniform_start(mdp)), SamplePolicy(policy), 300_000, seed=11)
    P = mdp.transitions
    for pair in range(mdp.num_pairs):
        row = slice(P.indptr[pair], P.indptr[pair + 1])
        common = P.data[row] * seen.pairs[pair] >= 5
        assert fits(seen.moves[row][common], P.data[row][common], CHANCE / 100)
    for s in range(mdp.num_states):
        assert fits(seen.pairs[mdp.pair_state == s], policy[mdp.pair_state == s], CHANCE / 100)


def test_chains_start_as_the_start_distribution_says():
    start = np.array([0.0, 0.3, 0.0, 0.6, 0.1, 0.0])
    states = Simulator(MODELS["river"], start, num_chains=20_000).begin(1).states
    assert fits(np.bincount(states, minlength=6), start, CHANCE / 100)
    only = Simulator(MODELS["river"], np.eye(6)[3], num_chains=100).begin(1).states
    assert (only == 3).all()


@pytest.mark.parametrize("find", [simulator.find, simulator.find.py_func])
def test_a_number_on_the_border_belongs_to_the_next_one(find):
    # Shares are half-open: [0, 1/4), [1/4, 1/4) and [1/4, 1). The mutant <= draws what has no share.
    sums = np.array([0.25, 0.25, 1.0])
    assert [find(sums, 0, 2, u) for u in (0.0, 0.2, 0.25, 0.5)] == [0, 0, 2, 2]
    assert find(np.array([0.0, 1.0]), 0, 1, 0.0) == 1


class LargestDraws:
    """A generator that always draws the largest number below 1."""

    def random(self, shape):
        return np.full(shape, 1 - 2.0**-53)


def test_what_has_no_probability_is_never_drawn_not_even_by_the_largest_number():
    """Sums of shares stop short of 1 by rounding; what comes after the last positive one must not fill in."""
    tenths = np.array([0.1] * 10 + [0.0, 0.0])
    assert np.cumsum(tenths)[-1] < 1
    first = np.array([0, 12])
    assert (cumulative(tenths, first)[9:] == 1).all()
    assert cumulative(tenths, first)[8] < 1
    # A stored zero in a row of the model, which `MDP` itself would take out:
    draw = np.array([1 - 2.0**-53])
    assert simulator.find(cumulative(tenths, first), 0, 11, draw[0]) == 9
    start = Simulator(MDP(np.full((12, 1, 12), 1 / 12)), tenths)
    assert np.searchsorted(start._start_cdf, draw, side="right")[0] == 9


def test_a_policy_that_rules_an_action_out_never_plays_it_however_many_states_come_before():
    # The mutant sums the whole policy and subtracts: at state 5,000 that leaves 1e-12 for the last action.
    rng = np.random.default_rng(0)
    S, A = 5000, 4
    home = sp.csr_array((np.ones(S * A), np.zeros(S * A, int), np.arange(S * A + 1)), shape=(S * A, S))
    mdp = MDP.from_pairs(home, np.repeat(np.arange(S), A), np.tile(np.arange(A), S))
    policy = rng.dirichlet(np.ones(3), size=S)
    policy = np.column_stack([policy, np.zeros(S)]).ravel()
    cdf = choice_cdf(policy, mdp).reshape(S, A)
    assert (cdf[:, 2:] == 1).all()
    np.testing.assert_array_equal(cdf[-1], choice_cdf(np.roll(policy, A), mdp).reshape(S, A)[0])
    world = Simulator(mdp, np.eye(S)[S - 1])
    position, seen = Position(np.array([S - 1]), LargestDraws()), Visits.none(mdp)
    world.advance(position, world.follow(SamplePolicy(policy)), seen, 1)
    assert seen.pairs[-2] == 1


def test_two_behaviours_meet_the_same_luck_as_long_as_they_agree():
    """Where only one action is allowed, what a behaviour says makes no difference, not to a bit."""
    mdp = MDP(random_model(8).dense()[:, :1])
    world = Simulator(mdp, uniform_start(mdp))
    runs = [played(world, behaviour_of(kind, mdp), 500) for kind in ("sampled", "balanced")]
    same(*runs)


# --- refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, INF])
def test_a_policy_is_finite(bad):
    policy = np.full(12, 0.5)
    policy[4] = bad
    with pytest.raises(InvalidArgumentError, match=r"^`policy` must be finite, got policy\[4\] = "):
        Simulator(MODELS["river"], np.eye(6)[0]).follow(SamplePolicy(policy))


@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_a_policy_that_gives_a_state_nothing_to_do_is_refused(bad):
    mdp = MODELS["river"]
    policy = np.full(12, 0.5)
    policy[4:6] = bad
    with pytest.raises(InvalidArgumentError, match=r"`policy` must give every state an action: .* state 2 "):
        Simulator(mdp, uniform_start(mdp)).follow(SamplePolicy(policy))


def test_one_negative_probability_is_refused():
    policy = np.full(12, 0.5)
    policy[7] = -0.1
    with pytest.raises(InvalidArgumentError, match=r"state 3 sum to 0\.4, the smallest of all is -0\.1"):
        choice_cdf(policy, MODELS["river"])


def test_the_score_of_feedback_is_what_its_rule_says():
    """The loop's own dense solve and the sparse projection are two ways to the same deviation f."""
    mdp = random_model(6, 8, 3)
    problem = problem_of(mdp, 2, random_weights(mdp, 6))
    from rhocover.exploring.belief import KnownModel
    from rhocover.exploring.explorers.feedback import Feedback, deviation

    state = Feedback().init(KnownModel(problem))
    rule = Feedback().policy(state).behaviour
    position, seen = Simulator(mdp, mdp.start).begin(0), Visits.none(mdp)
    world = Simulator(mdp, mdp.start)
    world.advance(position, world.follow(rule), seen, 5 * rule.period)
    now = state.after(seen)
    world.advance(position, world.follow(rule), seen, 1)  # brings the scores up to date first
    f = seen.scores + now.counts - now.num_steps * problem.d_star
    assert f == pytest.approx(deviation(now), abs=1e-9 * now.num_steps)
