"""plan(cover=...): groups of pairs are covered as well as possible, and every number that is reported holds."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import rhocover as rc
from rhocover.errors import InvalidArgumentError, NotCommunicatingError, UnknownNameError
from rhocover.linear_program import LinearProgram
from rhocover.planning import covering
from rhocover.planning.merging import Merged, merged
from tiers import tiered

inf = float("inf")
RHOS = (0.0, 0.5, 1.0, 2.0, 8.0, 64.0, inf)
RIVER = rc.envs.river_swim()
MODELS = {
    "river": lambda: RIVER,
    "rooms": rc.envs.four_rooms,
    "grid": lambda: rc.envs.grid_world(num_rows=20),
    "garnet": lambda: rc.envs.garnet(num_states=200),
}
COVERS = ("states", "labels", "transitions", "pairs")


def labels_of(mdp: rc.MDP) -> np.ndarray:
    """Returns six groups of neighbouring states."""
    return np.arange(mdp.num_states) * 6 // mdp.num_states


def conditions_of(mdp: rc.MDP, number: int, rng: np.random.Generator) -> list[rc.Condition]:
    """Returns conditions that bind, and that nearly uniform policies meet."""
    share = 1 / np.bincount(mdp.pair_state)[mdp.pair_state]
    uniform = rc.Occupancies.average(mdp).from_policy(mdp.table(share))
    values = [rng.uniform(size=mdp.num_pairs) for _ in range(number)]
    usual = [float(v @ uniform) for v in values]
    made = (
        lambda v, u: rc.at_most(v, 0.98 * u),
        lambda v, u: rc.at_least(v, 1.02 * u),
        lambda v, u: rc.within(v, 0.99 * u, 1.01 * u),
    )
    return [make(v, u) for make, v, u in zip(itertools.cycle(made), values, usual, strict=False)]


# --- known values and second opinions ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("rho", "expected"), [(1.0, 0.004096198), (2.0, 0.008101347), (8.0, 0.027229319), (inf, 0.054867561)]
)
def test_states_of_river_swim_have_the_known_divergence(rho: float, expected: float) -> None:
    found = rc.plan(RIVER, rho, cover="states")
    assert found.divergence == pytest.approx(expected, abs=1e-8)
    assert found.gap <= 1e-8
    np.testing.assert_allclose(found.shares, found.occupancy.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found.ratio, 1 / 6 / found.shares, rtol=1e-12)
    assert found.worst_ratio == pytest.approx(found.ratio.max(), rel=1e-12)


def test_at_order_zero_states_have_the_largest_entropy() -> None:
    """Hazan et al. (2019): KL(y || uniform) = log S - H(y), and no mixture with a random policy has more."""
    mdp = rc.envs.four_rooms()
    found, members, rng = (
        rc.plan(mdp, 0.0, cover="states"),
        rc.Occupancies.average(mdp),
        np.random.default_rng(0),
    )

    def entropy(d: np.ndarray) -> float:
        return -float(np.sum(d * np.log(d)))

    assert found.divergence == pytest.approx(np.log(mdp.num_states) - entropy(found.shares), abs=1e-12)
    assert found.gap <= 1e-8
    for _ in range(20):
        other = mdp.table(members.from_policy(mdp.table(_random_policy(mdp, rng)))).sum(axis=1)
        for share in (0.01, 0.3, 1.0):
            assert entropy((1 - share) * found.shares + share * other) <= entropy(found.shares) + 1e-8


def _random_policy(mdp: rc.MDP, rng: np.random.Generator) -> np.ndarray:
    odds = rng.exponential(size=mdp.num_pairs)
    return odds / np.bincount(mdp.pair_state, odds)[mdp.pair_state]


@pytest.mark.parametrize("name", tiered(list(MODELS), short=["river"]))
@pytest.mark.parametrize("number", [0, 3])
def test_at_infinity_a_linear_program_finds_the_same_optimum(name: str, number: int) -> None:
    """max t with y >= t mubar, by HiGHS: D = -log t."""
    mdp, rng = MODELS[name](), np.random.default_rng(3)
    mu, asked = rng.uniform(0.1, 1.0, mdp.num_states), conditions_of(mdp, number, rng)
    rows = [(one.values, one.high) for one in asked if one.high < inf]
    rows += [(-one.values, -one.low) for one in asked if one.low > -inf]
    matrix, right = rc.Occupancies.average(mdp).equations()
    n = mdp.num_pairs
    C = sp.csr_array((np.ones(n), (mdp.pair_state, np.arange(n))), shape=(mdp.num_states, n))
    A = sp.csr_array(np.array([v - b for v, b in rows]).reshape(len(rows), n))
    blocks = [
        [matrix, sp.csr_array((matrix.shape[0], mdp.num_states + len(rows) + 1))],
        [C, sp.hstack([-sp.eye_array(mdp.num_states), sp.csr_array((mdp.num_states, len(rows))),
                       sp.csr_array(-(mu / mu.sum())[:, None])])],
        [A, sp.hstack([sp.csr_array((len(rows), mdp.num_states)), sp.eye_array(len(rows)),
                       sp.csr_array((len(rows), 1))])],
    ]  # fmt: skip
    blocks = blocks if rows else blocks[:2]
    K = sp.csr_array(sp.vstack([sp.hstack(block) for block in blocks]))
    program = LinearProgram(K, np.append(right, np.zeros(K.shape[0] - right.size)), 0.0)
    t = program.solve(np.append(np.zeros(K.shape[1] - 1), 1.0)).x[-1]
    found = rc.plan(mdp, inf, mu, cover="states", subject_to=asked)
    assert found.divergence == pytest.approx(-np.log(t), abs=1e-8)


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2.0]))
@pytest.mark.parametrize("number", [0, 3])
def test_frank_wolfe_under_conditions_agrees_within_its_own_gap(rho: float, number: int) -> None:
    """A second method: linear programs for the direction, line search on a grid, its own dual gap."""
    if rho == inf:
        pytest.skip("the worst ratio has no gradient")
    rng = np.random.default_rng(1)
    mu, asked = rng.uniform(0.5, 1.0, 6), conditions_of(RIVER, number, rng)
    found = rc.plan(RIVER, rho, mu, cover="states", subject_to=asked)
    best, lower = _frank_wolfe(rho, mu, asked)
    assert best - lower <= (0.02 if rho <= 2 else 0.25)  # steps towards corners are slow at large rho
    assert lower - 1e-9 <= found.divergence <= best + 1e-9
    assert found.lower_bound <= best + 1e-12


def _frank_wolfe(rho: float, mu: np.ndarray, asked: list[rc.Condition]) -> tuple[float, float]:
    """Returns the divergence and the lower bound after 150 steps, over the states of RiverSwim."""
    ends = [(one.values, one.high) for one in asked if one.high < inf]
    ends += [(-one.values, -one.low) for one in asked if one.low > -inf]
    matrix, right = rc.Occupancies.average(RIVER).equations()
    A = np.array([v - b for v, b in ends]).reshape(len(ends), 12)
    K = sp.csr_array(
        np.block([[matrix.toarray(), np.zeros((matrix.shape[0], len(ends)))], [A, np.eye(len(ends))]])
    )
    program = LinearProgram(K, np.append(right, np.zeros(len(ends))), 0.0)
    C = np.repeat(np.eye(6), 2, axis=1)
    coverage = rc.Coverage(rho, mu)
    corners = [program.solve(np.append(np.eye(6)[k] @ C, np.zeros(len(ends)))).x[:12] for k in range(6)]
    d, lower = np.mean(corners, axis=0), -inf
    for _ in range(150):
        y = C @ d
        reward = coverage.reward(y)
        reward = reward if rho == 0 else reward / float(reward @ y)
        target = program.solve(np.append(reward @ C, np.zeros(len(ends)))).x[:12]
        most = float(reward @ C @ target)
        gain = most - float(reward @ y) if rho == 0 else np.log(most)
        lower = max(lower, coverage.divergence(y) - gain)
        lengths = np.append(0.0, np.logspace(-5, -0.01, 60))
        d = min((d + t * (target - d) for t in lengths), key=lambda one: coverage.divergence(C @ one))
    return coverage.divergence(C @ d), lower


# --- every order, model, cover and number of conditions ---------------------------------------------


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2.0]))
@pytest.mark.parametrize("name", tiered(list(MODELS), short=["river"]))
@pytest.mark.parametrize("cover", tiered(COVERS, short=["states", "transitions"]))
def test_plans_are_certified_within_80_steps(cover: str, name: str, rho: float) -> None:
    mdp, rng = MODELS[name](), np.random.default_rng(5)
    number = {
        "states": mdp.num_states, "pairs": mdp.num_pairs, "labels": 6, "transitions": mdp.transitions.nnz
    }[cover]  # fmt: skip
    groups = labels_of(mdp) if cover == "labels" else cover
    for mu in (rng.uniform(0.1, 1.0, number), rng.integers(1, 6, number).astype(float)):
        for count in (0, 1, 3):
            asked = conditions_of(mdp, count, rng)
            found = rc.plan(mdp, rho, mu, cover=groups, subject_to=asked)
            assert found.gap <= 1e-8 * (min(1.0, rho) or 1.0)
            assert found.steps <= 80
            assert all(one.slack >= -1e-9 for one in found.conditions)
            assert rc.Occupancies.average(mdp).contains(found.occupancy, 1e-9)


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2.0]))
@pytest.mark.parametrize("name", tiered(["river", "rooms"], short=["river"]))
def test_no_policy_that_meets_the_conditions_is_below_the_bound(name: str, rho: float) -> None:
    mdp, rng = MODELS[name](), np.random.default_rng(2)
    asked = conditions_of(mdp, 3, rng)
    found = rc.plan(mdp, rho, cover="states", subject_to=asked)
    members, coverage = rc.Occupancies.average(mdp), rc.Coverage(rho, np.ones(mdp.num_states))
    d = mdp.per_pair(found.occupancy, "d")
    for _ in range(30):
        other = members.from_policy(mdp.table(_random_policy(mdp, rng)))
        mixed = d + min(_room(one, d, other) for one in asked) * (other - d)
        assert coverage.divergence(np.bincount(mdp.pair_state, mixed)) >= found.lower_bound - 1e-12


def _room(one: rc.Condition, d: np.ndarray, other: np.ndarray) -> float:
    """Returns the largest share of the way to `other` that the condition allows."""
    now, then = float(one.values @ d), float(one.values @ other)
    shares = [1.0]
    if then > one.high:
        shares.append(max(0.0, (one.high - now) / (then - now)))
    if then < one.low:
        shares.append(max(0.0, (one.low - now) / (then - now)))
    return min(shares)


# --- kinds of groups --------------------------------------------------------------------------------


def test_labels_of_states_of_pairs_and_a_matrix_say_the_same() -> None:
    state = np.array([0, 0, 1, 1, 2, 2])
    matrix = np.array([np.repeat(state == g, 2) for g in range(3)], float)
    ways = [state, np.repeat(state, 2), np.repeat(state[:, None], 2, axis=1), matrix, sp.csr_array(matrix)]
    plans = [rc.plan(RIVER, 2.0, [1, 2, 3], cover=way) for way in ways]
    for found in plans:
        assert found.divergence == plans[0].divergence
        np.testing.assert_array_equal(found.weights, [1, 2, 3])
        assert found.shares.sum() == pytest.approx(1)
    assert {found.cover for found in plans} == {"labels", "matrix"}


def test_pairs_with_a_negative_label_are_only_on_the_way() -> None:
    """The two ends of the river, alternately: what is between has no target."""
    found = rc.plan(RIVER, 2.0, cover=[0, -1, -1, -1, -1, 1])
    assert found.shares.sum() < 1
    np.testing.assert_allclose(found.shares, found.occupancy.sum(axis=1)[[0, 5]], rtol=1e-12)
    with pytest.raises(InvalidArgumentError, match=r"rho=0 measures .*every pair a group"):
        rc.plan(RIVER, 0.0, cover=[0, -1, -1, -1, -1, 1])


def test_transitions_are_shares_of_their_pairs() -> None:
    found = rc.plan(RIVER, 2.0, cover="transitions")
    pair = np.repeat(np.arange(12), np.diff(RIVER.transitions.indptr))
    d = RIVER.per_pair(found.occupancy, "d")
    np.testing.assert_allclose(found.shares, RIVER.transitions.data * d[pair], rtol=1e-12)
    table = np.where(RIVER.dense() > 0, 1.0, 0.0)
    assert rc.plan(RIVER, 2.0, table, cover="transitions").divergence == found.divergence
    assert found.group_name(0) == "(0, left) to 0"


@pytest.mark.parametrize("rho", [0.0, 0.1, 0.5, 1.0, 1.0005, 1.01, 2.0, 8.0, inf])
def test_merged_groups_have_the_divergence_of_the_groups(rho: float, monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = rc.envs.garnet(num_states=10)
    mu = np.random.default_rng(1).uniform(0.1, 1.0, mdp.transitions.nnz)
    found = rc.plan(mdp, rho, mu, cover="transitions")
    assert found.gap <= 1e-8 * (min(1.0, rho) or 1.0)
    monkeypatch.setattr(covering, "merged", lambda rho, mu, C: Merged(mu, C))
    assert rc.plan(mdp, rho, mu, cover="transitions").divergence == pytest.approx(found.divergence, abs=2e-8)


def test_groups_that_share_pairs_are_not_merged() -> None:
    C = sp.csr_array(np.array([[1.0, 0.5], [0.0, 0.5]]))
    assert merged(2.0, np.ones(2), C).C is C


def test_the_steps_of_an_episode_are_summed() -> None:
    found = rc.plan(RIVER, 2.0, cover="visits", horizon=12, start=0)
    assert found.weights.shape == found.shares.shape == (6, 2)
    np.testing.assert_allclose(found.shares, found.occupancy.sum(axis=0), rtol=1e-12)
    states = rc.plan(RIVER, 2.0, cover="states", horizon=12, start=0)
    np.testing.assert_allclose(states.shares, states.occupancy.sum(axis=(0, 2)), rtol=1e-12)
    assert states.divergence < found.divergence  # fewer demands
    by_name = rc.plan(RIVER, 2.0, "transition_std", cover="visits", horizon=12, start=0, restrict=True)
    assert by_name.gap <= 1e-8


def test_discounted_visits_of_states_are_covered() -> None:
    found = rc.plan(RIVER, 2.0, cover="states", discount=0.95, start=0)
    members = rc.Occupancies.discounted(RIVER, 0.95, start=0)
    assert members.contains(found.occupancy, 1e-9)
    np.testing.assert_allclose(members.table(members.from_policy(found.policy)), found.occupancy, atol=1e-12)


# --- groups that cannot be visited ------------------------------------------------------------------


def two_rooms() -> rc.MDP:
    """Returns states 0 and 1, from which a door leads to 2 and 3, and never back; both pairs of rooms stay."""
    P = np.zeros((4, 2, 4))
    for s, others in ((0, (0, 1)), (1, (0, 2)), (2, (2, 3)), (3, (2, 3))):
        for a, target in enumerate(others):
            P[s, a, target] = 1
    return rc.MDP(P, name="two rooms")


def test_the_component_whose_groups_weigh_most_is_planned_on() -> None:
    mdp = two_rooms()
    with pytest.raises(
        NotCommunicatingError, match=r"2 states cannot be visited again and again.*state 0, state 1"
    ):
        rc.plan(mdp, 2.0, cover="states")
    found = rc.plan(mdp, 2.0, [2, 3, 1, 1], cover="states", restrict=True)
    np.testing.assert_array_equal(found.weights, [2, 3, 0, 0])
    assert "Left out 2 states with 0.286 of the weight" in found.restriction
    # state 1 has at most half of the visits: sum mubar^2 / y = (0.16 + 0.36) / 0.5
    assert found.divergence == pytest.approx(np.log(1.04), abs=1e-8)
    np.testing.assert_array_equal(found.shares[2:], 0)


def test_groups_of_passing_states_alone_cannot_be_covered() -> None:
    mdp = rc.MDP([[[0.0, 1.0]], [[0.0, 1.0]]])
    with pytest.raises(
        NotCommunicatingError, match=r"1 group cannot be visited again.*Give weight to groups"
    ):
        rc.plan(mdp, 2.0, cover=[0, -1], restrict=True)


def test_a_group_in_both_rooms_is_covered_by_either() -> None:
    found = rc.plan(two_rooms(), 2.0, cover=[0, 1, 0, 1])
    assert found.divergence == pytest.approx(0, abs=1e-8)


def test_what_the_start_does_not_reach_is_refused_or_left_out() -> None:
    with pytest.raises(
        NotCommunicatingError, match=r"states cannot be visited from the start: state 4, state 5"
    ):
        rc.plan(RIVER, 2.0, cover="states", horizon=4, start=0)
    found = rc.plan(RIVER, 2.0, cover="states", horizon=4, start=0, restrict=True)
    np.testing.assert_array_equal(found.weights, [1, 1, 1, 1, 0, 0])
    mdp = two_rooms()
    found = rc.plan(mdp, 2.0, cover="states", discount=0.9, start=2, restrict=True)
    np.testing.assert_array_equal(found.weights, [0, 0, 1, 1])
    assert found.potential[:2].tolist() != found.potential[2:].tolist()


# --- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cover": "rooms"}, "Known: pairs, states, transitions, visits"),
        ({"cover": "visits"}, "needs a horizon"),
        ({"cover": np.ones(5)}, "a label for each of 6 states"),
        ({"cover": [0.5] * 6}, r"cover\[0\]` must be a whole number"),
        ({"cover": [-1] * 6}, "all labels are negative"),
        ({"cover": [0, 1, 2, 3, 4, 2**40]}, "labels below"),
        ({"cover": 2 * np.eye(12)}, r"sum to at most 1.*got 2 for pair \(0, left\).*Divide"),
        ({"cover": -np.eye(12)}, "must be non-negative"),
        ({"cover": sp.eye_array(11)}, "a column for each of 12 pairs"),
        ({"cover": "states", "mu": np.ones((6, 2))}, "one weight for each of 6 states of `cover`"),
        ({"cover": "states", "mu": "model_error"}, "which has one per pair"),
        ({"cover": "states", "mu": "even"}, "unknown weights"),
        ({"cover": "states", "eta": 0.01}, "eta` cannot be combined"),
        ({"cover": "states", "method": "frank_wolfe"}, "method` cannot be combined"),
        ({"cover": "states", "mu": [1, 1, 1, 1, 1, 0], "rho": 0}, "infinite once a visit is in no group"),
    ],
)
def test_what_cannot_be_covered_is_refused_with_the_way_out(arguments: dict, message: str) -> None:
    with pytest.raises((InvalidArgumentError, UnknownNameError), match=message):
        rc.plan(RIVER, **({"rho": 2.0} | arguments))


def test_weights_of_groups_may_be_a_function_of_the_model() -> None:
    found = rc.plan(RIVER, 2.0, lambda mdp: np.arange(1.0, mdp.num_states + 1), cover="states")
    np.testing.assert_array_equal(found.weights, np.arange(1, 7))
    assert rc.plan(RIVER, 2.0, "uniform", cover="states").weights.tolist() == [1.0] * 6


# --- what a plan says -------------------------------------------------------------------------------


def test_a_plan_says_what_it_covers() -> None:
    found = rc.plan(RIVER, 2.0, cover="states", subject_to=rc.at_most([[0, 1]] * 6, 0.7, name="right"))
    text = str(found)
    assert "covers 6 states; the least covered is" in text
    assert "right: 0.7, at most 0.7; one more unit lowers the divergence by" in text
    summary = found.summary()
    assert summary["cover"] == "states"
    assert summary["conditions"][0]["low"] is None
    assert "cover" not in rc.plan(RIVER, 2.0).summary()


@pytest.mark.parametrize("cover", ["states", "transitions", "pairs"])
def test_a_plan_of_groups_is_stored_and_read(cover: str, tmp_path) -> None:
    found = rc.plan(
        RIVER, 2.0, cover=cover, subject_to=[rc.at_most([[0, 1]] * 6, 0.7), rc.at_least([1] * 6, 0.5)]
    )
    found.save(tmp_path / "plan.safetensors")
    again = rc.Plan.load(tmp_path / "plan.safetensors")
    assert str(again) == str(found)
    assert again.conditions == found.conditions
    for name in ("weights", "shares", "ratio", "occupancy", "policy", "potential"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))


def test_a_file_whose_groups_do_not_fit_together_is_refused(tmp_path) -> None:
    found = rc.plan(RIVER, 2.0, cover="states")
    found = replace(found, weights=np.ones(5), group_shares=np.ones(5))
    found.save(tmp_path / "plan.safetensors")
    with pytest.raises(rc.errors.FileFormatError, match="weights"):
        rc.Plan.load(tmp_path / "plan.safetensors")
