"""Audits: figures against closed forms, the best against the model, promises kept, wrong data refused."""

from __future__ import annotations

import json
import math

import gymnasium as gym
import numpy as np
import pytest
from data_streams import Stream, random_stream, walk

from rhocover import envs
from rhocover.coverage import Coverage
from rhocover.datasets import Audit, Tallier, Tally, audit, audit_tally
from rhocover.datasets.best import _lift, lower_bound
from rhocover.datasets.result import Extent, ThinPair, first_to_collect, sentence
from rhocover.errors import InvalidArgumentError, InvalidDataError
from rhocover.exploring.belief.certificates import Certificate
from rhocover.files import load_tensors
from rhocover.mdp import MDP
from rhocover.planning import plan
from rhocover.report.pages.audit import page_of_audit, visits_of_audit
from rhocover.report.pages.rendering import page_html
from small_models import random_model
from tiers import tiered


def tally_of(stream: Stream, num_actions: int | None = None) -> Tally:
    tallier = Tallier(num_actions)
    tallier.add(*stream[:])
    return tallier.tally()


def uniform_policy(mdp: MDP) -> np.ndarray:
    return mdp.table(np.ones(mdp.num_pairs))


RIVER = envs.river_swim()
RANDOM_RUN = walk(RIVER, uniform_policy(RIVER), 20_000, seed=1)


@pytest.fixture(scope="module")
def seen() -> Audit:
    return audit(RANDOM_RUN[:], model=RIVER)


@pytest.mark.parametrize("rho", [0.0, 0.5, 1.0, 2.0, math.inf])
def test_figures_are_those_of_the_counts(rho: float) -> None:
    mu = np.random.default_rng(0).random((RIVER.num_states, 2)) + 0.1
    found = audit(RANDOM_RUN[:], rho, mu, best=False)
    counts = np.zeros((RIVER.num_states, 2))
    np.add.at(counts, (RANDOM_RUN.s, RANDOM_RUN.a), 1)
    d_hat, coverage = counts / counts.sum(), Coverage(rho, mu)
    assert np.array_equal(found.counts, counts)
    assert found.occupancy == pytest.approx(d_hat)
    assert found.divergence == pytest.approx(coverage.divergence(d_hat), rel=1e-12)
    assert found.worst_ratio == pytest.approx(coverage.worst_ratio(d_hat), rel=1e-12)
    assert (found.visited_divergence, found.visited_worst_ratio) == (found.divergence, found.worst_ratio)
    assert found.best is None
    assert found.certificate is None
    assert math.isnan(found.gap)


@pytest.mark.parametrize("rho", [1.0, 2.0, math.inf])
def test_with_the_model_the_best_is_the_models(rho: float) -> None:
    found, best = audit(RANDOM_RUN[:], rho, model=RIVER), plan(RIVER, rho)
    assert found.is_exact
    assert found.best is not None
    assert found.best.divergence == pytest.approx(best.divergence, abs=1e-8)
    assert found.best_worst_ratio == pytest.approx(best.worst_ratio, rel=1e-4)
    assert found.gap == pytest.approx(found.divergence - best.divergence, abs=1e-8)
    assert found.certificate is not None
    assert found.certificate.gap >= found.gap
    assert found.certificate.delta == 0
    assert found.best_occupancy == pytest.approx(best.occupancy, abs=1e-4)


@pytest.mark.parametrize("options", [{"model": RIVER}, {}])
def test_the_best_is_the_best_for_the_weights(options: dict) -> None:
    """Weights on the left bank alone: 0.220 instead of 0.293. Its pairs were visited a thousand times and more, so
    their estimate, and with it the best, is off by some per cent."""
    mu = np.zeros((6, 2))
    mu[:3] = [[1, 2], [3, 1], [1, 1]]
    found, best = audit(RANDOM_RUN[:], 2, mu, **options), plan(RIVER, 2, mu)
    assert found.best is not None
    assert found.num_pairs == 6
    assert found.best.divergence == pytest.approx(best.divergence, rel=1e-6 if options else 0.1)
    assert best.divergence < 0.8 * plan(RIVER, 2).divergence


@pytest.mark.parametrize("seed", range(3))
def test_data_of_the_best_policy_is_near_the_best(seed: int) -> None:
    """Shares are within seven of their own standard errors of the best policy's.

    Student's t with 57 degrees of freedom is beyond 7 with probability 3e-9, for all of 80 pairs 3e-7. The gap is
    near rho n / 2T = 1.3e-3 in the mean (the curvature of D_2 times the variance of shares), a sum of 80 squares:
    eight times that is out of reach.
    """
    mdp = envs.garnet(num_states=20)
    best = plan(mdp, 2)
    found = audit(walk(mdp, best.policy, 60_000, seed)[:], 2, num_actions=mdp.num_actions)
    assert found.mixing.num_batches == 58
    assert (np.abs(found.occupancy - best.occupancy) <= 7 * found.error).all()
    assert found.worst_ratio <= np.max(1 / 80 / (best.occupancy - 7 * found.error))
    assert -0.01 < found.gap < 0.01


def test_a_verdict_on_data_of_the_best_policy_says_that_it_is_that() -> None:
    """Seven standard errors of the thinnest share are below a tenth of it, which is what `about` means."""
    mdp = random_model(4, 4, 2)
    best = plan(mdp, 2)
    found = audit(walk(mdp, best.policy, 150_000, seed=0)[:], model=mdp)
    thinnest = np.unravel_index(
        np.argmin(np.where(best.occupancy > 0, best.occupancy, 1)), best.occupancy.shape
    )
    assert 7 * found.error[thinnest] < 0.09 * best.occupancy[thinnest]
    assert "about as much as the best policy would give" in found.verdict
    assert found.meets(worst_ratio=1.1 * best.worst_ratio)
    assert not found.meets(worst_ratio=0.9 * best.worst_ratio)


def test_without_the_model_the_best_is_near_the_models(seen: Audit) -> None:
    found = audit(RANDOM_RUN[:])
    assert not found.is_exact
    assert found.counts.tolist() == seen.counts.tolist()
    assert found.best is not None
    assert seen.best is not None
    assert found.best.divergence == pytest.approx(
        seen.best.divergence, rel=0.25
    )  # the last state was met 40 times


@pytest.mark.parametrize(("end", "several"), tiered([(0.0, False), (0.2, False), (0.2, True)]))
def test_the_certified_bound_is_below_the_truth(end: float, several: bool) -> None:
    """6 data sets, each at delta = 2.5e-8: one of them fails with probability 1.5e-7 at most."""
    for seed in range(6):
        mdp = _full_model(seed)
        tally = tally_of(_restarting(mdp, 20_000, seed, end, several), 2)
        truth = plan(_wired(mdp, end, several), 2).divergence
        bound = lower_bound(tally, Coverage(2, np.ones(mdp.num_pairs)), 2.5e-8)
        assert bound <= truth
        assert bound > 0.3 * truth  # it says something


@pytest.mark.thorough
def test_with_very_many_counts_the_robust_lift_is_the_true_one() -> None:
    """10^10 visits of each pair, as often as they would be: the set is then a point, of width about 1e-4."""
    mdp, end, N = _full_model(3), 0.2, 10**10
    start = np.array([0.5, 0.5, 0, 0])
    moves = np.rint(N * (1 - end) * mdp.transitions.toarray()).astype(np.int64)
    ends = np.full(mdp.num_pairs, round(N * end))
    tally = Tally.from_counts(range(4), 2, moves, ends, np.rint(N * start).astype(np.int64))
    h = np.random.default_rng(0).normal(size=4)
    wired = (1 - end) * mdp.transitions.toarray() + end * start
    true = h[mdp.pair_state] - wired @ h
    found = _lift(tally, h, 0.01)
    assert (found <= true).all()
    assert found == pytest.approx(true, abs=1e-3)


def _full_model(seed: int) -> MDP:
    """Returns a model of four states with two actions each, some states hard to reach."""
    P = np.random.default_rng(seed).dirichlet([6.0, 2.0, 0.6, 0.2], size=(4, 2))
    return MDP(0.99 * P + 0.01 / 4)


def _restarting(mdp: MDP, num_steps: int, seed: int, end: float, several: bool) -> Stream:
    """Returns a uniformly random run whose episodes begin in 0, or in 0 and 1 alike."""
    rng, parts, left = np.random.default_rng([seed, 1]), [], num_steps
    while left > 0:
        length = min(left, int(rng.geometric(end)) if end else left)
        start, chance = int(rng.integers(2)) * several, int(rng.integers(2**31))
        part = walk(mdp, uniform_policy(mdp), length, chance, start=start)
        part.terminated[-1] = bool(end) and length < left
        parts.append(part[:])
        left -= length
    return Stream(*map(np.concatenate, zip(*parts, strict=True)))


def _wired(mdp: MDP, end: float, several: bool) -> MDP:
    start = np.zeros(mdp.num_states)
    start[:2] = (0.5, 0.5) if several else (1, 0)
    rows = (1 - end) * mdp.transitions.toarray() + end * start
    return MDP.from_pairs(rows, mdp.pair_state, mdp.pair_action, num_actions=mdp.num_actions)


def test_a_certificate_that_says_something() -> None:
    """On RiverSwim the bound of long data is most of the best divergence: it is not just 0."""
    found = audit(walk(RIVER, plan(RIVER, 2).policy, 60_000, seed=3)[:])
    assert found.certificate is not None
    assert 0.3 * plan(RIVER, 2).divergence < found.certificate.lower_bound <= plan(RIVER, 2).divergence
    assert "if there are no states but those met" in str(found.certificate)


def test_a_certificate_that_leaves_the_gap_at_the_divergence_is_said_to_prove_nothing() -> None:
    """600 steps of RiverSwim rule out no model whose best divergence is 0; 60,000 do (above)."""
    found = audit(walk(RIVER, plan(RIVER, 2).policy, 600, seed=3)[:])
    sure = found.certificate
    assert sure is not None
    assert sure.lower_bound <= 0.01 * found.divergence
    assert sure.proves_nothing
    assert str(sure).startswith(
        f"proves nothing yet: at most {sure.gap:.3g} nats above the best is about the"
    )
    assert found.summary()["certificate"]["proves_nothing"] is True
    page = page_html(page_of_audit(found))
    assert "nothing proved yet" in page
    assert "The certificate proves nothing yet: " in page


@pytest.mark.parametrize(
    ("divergence", "plug_in", "gap", "delta", "proves_nothing"),
    [
        (0.5, 0.2, 0.5, 0.05, True),
        (0.5, 0.2, 0.496, 0.05, True),
        (0.5, 0.2, 0.49, 0.05, False),  # some of the divergence is shown to be needed
        (0.5, 0.499, 0.5, 0.05, False),  # the best of the estimate is about 0, too: nothing more could be proved
        (0.009, 0.001, 0.009, 0.05, False),  # near the best, whatever the best is
        (0.5, 0.2, 0.5, 0.0, False),  # by the model
        (0.5, 0.2, math.inf, 0.05, False),  # said in other words
        (math.inf, math.inf, math.inf, 0.05, False),
    ],
)  # fmt: skip
def test_what_is_certain_without_any_data_proves_nothing(
    divergence, plug_in, gap, delta, proves_nothing
) -> None:
    sure = Certificate(
        divergence, plug_in, gap, max(divergence - gap, 0.0) if math.isfinite(gap) else 0.0, delta
    )
    assert sure.proves_nothing == proves_nothing
    assert str(sure).startswith("proves nothing") == proves_nothing


def test_a_certificate_can_be_left_out_and_insisted_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = audit(RANDOM_RUN[:]).certificate
    left_out = audit(RANDOM_RUN[:], certificate=False)
    assert left_out.certificate is None
    assert left_out.best is not None
    assert "none, because no certificate was requested" in str(left_out)
    assert left_out.summary()["certificate"] is None
    monkeypatch.setattr("rhocover.datasets.best.LARGEST", 5)
    monkeypatch.setattr("rhocover.datasets.best.LARGEST_PLAN", 5)
    small = audit(RANDOM_RUN[:], best=True).certificate
    assert small is not None
    assert small.gap == math.inf
    assert "certificate=True computes it" in str(small)
    assert "certificate=True computes it" in page_html(page_of_audit(audit(RANDOM_RUN[:], best=True)))
    assert audit(RANDOM_RUN[:], certificate=True).certificate == asked
    with pytest.raises(InvalidArgumentError, match="Leave `best=False` out"):
        audit(RANDOM_RUN[:], certificate=True, best=False)


def test_pairs_that_were_never_tried_make_it_incomplete() -> None:
    found = audit(([0, 1, 0, 1], [1, 0, 1, 1], [1, 0, 1, 1], [False] * 4))
    assert not found.is_complete
    assert (found.num_pairs, found.num_missing) == (4, 1)
    assert found.worst_ratio == found.divergence == math.inf
    assert found.visited_worst_ratio == pytest.approx(4 / 3)
    assert found.verdict == "Covers 3 of 4 pairs; 1 was never tried: collect (0, 0) first."
    assert not found.meets(worst_ratio=1e300)
    assert str(found.certificate).startswith("some pairs with a weight were never visited")


def test_states_of_the_model_that_were_never_met_are_missing() -> None:
    short = audit(RANDOM_RUN[:3], model=RIVER)
    assert short.counts.shape == (RIVER.num_states, 2)
    assert short.num_missing >= RIVER.num_pairs - 3
    assert audit(RANDOM_RUN[:3], mu=np.ones((RIVER.num_states, 2))).num_missing == short.num_missing


def test_what_nobody_can_visit_for_ever_is_not_asked_for() -> None:
    """State 0 of this model is left once and for all; the best and the verdict are about the other two."""
    P = np.zeros((3, 1, 3))
    P[[0, 1, 2], 0, [1, 2, 1]] = 1
    rows = ([0, 1, 2], [0] * 3, [1, 2, 1], [False] * 3)
    found = audit(rows, model=MDP(P))
    assert (found.num_pairs, found.num_missing) == (2, 0)
    assert found.weights.ravel().tolist() == [0, 1, 1]
    assert audit(rows, mu=np.ones((3, 1)), model=MDP(P)).num_pairs == 3


def test_weights_by_key_name_states_that_were_never_met() -> None:
    mu = np.zeros((9, 2))
    mu[0, 0] = mu[8, 1] = 1
    found = audit(RANDOM_RUN[:], mu=mu)
    assert found.counts.shape == (9, 2)
    assert (found.num_pairs, found.num_missing) == (2, 1)
    assert found.thin[0].name == "(8, 1)"


@pytest.mark.parametrize("rule", ["uniform", "transition_std", "model_error", lambda e: 1 + e.visits * 0.0])
def test_weights_may_be_a_rule(rule) -> None:
    found = audit(RANDOM_RUN[:], mu=rule)
    assert found.weights.shape == found.counts.shape
    assert "for the weights as they are estimated now" in found.certificate.condition
    exact = audit(RANDOM_RUN[:], mu=rule, model=RIVER)
    assert exact.weights.shape == (RIVER.num_states, 2)


def test_the_thinnest_comes_first_and_shares_are_of_the_due(seen: Audit) -> None:
    share = seen.occupancy.ravel() * RIVER.num_pairs
    assert [pair.share for pair in seen.thin] == pytest.approx(np.sort(share)[: len(seen.thin)])
    first = seen.thin[0]
    assert first.share == pytest.approx(1 / seen.worst_ratio)
    assert first.name in seen.verdict
    pair = [RIVER.pair_name(i) for i in range(RIVER.num_pairs)].index(first.name)
    assert first.best_share == pytest.approx(
        plan(RIVER, 2).occupancy.ravel()[pair] * RIVER.num_pairs, rel=1e-3
    )


@pytest.mark.parametrize("options", [{}, {"best": False}, {"model": RIVER}])
@pytest.mark.parametrize("rho", [0.5, 2.0, math.inf])
def test_sentence_list_and_page_name_the_same_pairs_in_the_same_order(rho: float, options: dict) -> None:
    found = audit(RANDOM_RUN[:], rho, **options)
    names = [pair.name for pair in found.thin]
    said = found.verdict.partition("collect more at ")[2].removesuffix(" first.")
    assert said == ", ".join(names[:3])
    assert f"the thinnest, {names[0]}, got" in found.verdict
    assert [pair["name"] for pair in found.summary()["thin"]] == names
    shown = visits_of_audit(found)
    assert [shown.name(int(place)) for place in shown.order[: len(names)]] == names


def test_the_verdict_says_what_the_best_would_give(seen: Audit) -> None:
    assert seen.verdict.startswith(f"Covers all {RIVER.num_pairs} pairs; the thinnest, ")
    assert f"the best plan at rho = 2: {seen.best_worst_ratio:.3g}" in seen.verdict


def test_pairs_that_have_what_the_best_gives_end_the_list_of_what_to_collect() -> None:
    """The third has more than the best policy would give it; the fourth has less, but it is not as thin."""
    thin = [ThinPair(name, 1, share, best) for name, share, best in
            (("a", 0.1, 0.5), ("b", 0.2, math.nan), ("c", 0.3, 0.25), ("d", 0.4, 0.9))]  # fmt: skip
    assert first_to_collect(thin) == ["a", "b"]
    said = sentence(Extent(4), thin, 10.0, 4.0)
    assert said.endswith("(worst ratio 10, best achievable 4): collect more at a, b first.")


def test_equals_keep_their_order_however_many_there_are() -> None:
    """60 pairs without a visit: the first 20 of them, as they are numbered."""
    found = audit(([0], [0], [0], [False]), num_states=31, num_actions=2)
    assert [pair.name for pair in found.thin] == [f"({k // 2}, {k % 2})" for k in range(1, 21)]


def test_episodes_and_ends_are_told() -> None:
    found = audit(([0, 0, 0], [0, 0, 0], [0, 9, 0], [False, True, False], [False, False, True]))
    numbers = found.summary()
    assert (numbers["num_episodes"], numbers["num_truncated"], numbers["num_end_states"]) == (2, 1, 1)


def test_a_summary_is_json_and_a_file_holds_it(seen: Audit, tmp_path) -> None:
    for found in (seen, audit(random_stream(0, 3)[:])):
        assert json.loads(json.dumps(found.summary(), allow_nan=False))["verdict"] == found.verdict
    seen.save(tmp_path / "audit.safetensors")
    tensors, document = load_tensors(tmp_path / "audit.safetensors", "audit")
    assert np.array_equal(tensors["counts"], seen.counts)
    assert np.array_equal(tensors["best_occupancy"], seen.best_occupancy)
    assert document["keys"] == list(range(RIVER.num_states))
    with pytest.raises(InvalidArgumentError, match="exists already"):
        seen.save(tmp_path / "audit.safetensors")
    assert seen.verdict in str(seen)


def test_a_very_large_model_is_planned_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rhocover.datasets.best.LARGEST_PLAN", 5)
    found = audit(RANDOM_RUN[:])
    assert found.best is None
    assert "pass best=True" in found.observed_note
    assert "worst ratio" in found.verdict
    assert audit(RANDOM_RUN[:], best=True).best is not None


def test_labels_and_numbers_find_the_states_of_a_model() -> None:
    P = RIVER.dense()
    names = [f"{10 * s}" for s in range(RIVER.num_states)]
    labelled = MDP(P, state_labels=names)
    stream = Stream(RANDOM_RUN.s * 10, RANDOM_RUN.a, RANDOM_RUN.s_next * 10, *RANDOM_RUN[:][3:])
    found = audit(stream[:], model=labelled)
    assert np.array_equal(found.counts, audit(RANDOM_RUN[:], model=RIVER).counts)


def test_an_environment_with_a_table_is_a_model() -> None:
    """FrozenLake by its own numbers: holes are ends, not states."""
    env = gym.make("FrozenLake-v1")
    rows = []
    state, _ = env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(3000):
        action = env.action_space.sample()
        after, _, ended, cut, _ = env.step(action)
        rows.append((state, action, after, ended, cut))
        state = env.reset()[0] if ended or cut else after
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    found = audit(tuple(columns), math.inf, model=env)
    assert found.num_pairs == 44
    assert found.best_worst_ratio == pytest.approx(4.068, abs=1e-3)
    assert len(found.tally.end_keys) == 5
    assert audit(tuple(columns), math.inf).counts.tolist() == found.counts.tolist()
    with pytest.raises(InvalidDataError, match=r"gives probability 0\. Is it data of another environment"):
        audit(tuple(columns), model=gym.make("FrozenLake-v1", map_name="8x8"))


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (([0], [0], [9], [False]), {"model": RIVER}, "has states that `model` does not have: 9"),
        (([0], [2], [0], [False]), {"model": RIVER}, "`a` must be whole numbers from 0 to 1, got 2"),
        (([0], [0], [5], [False]), {"model": RIVER}, "gives probability 0"),
        (tally_of(random_stream(0, 9)), {"model": RIVER}, "`num_actions` is 2, but the data has 3"),
        (RANDOM_RUN[:], {"model": "river"}, "`model` must be an MDP or a Gymnasium environment"),
        (RANDOM_RUN[:], {"mu": np.ones((3, 2))}, "`mu` must have shape (states, 2) with one row per state"),
        (RANDOM_RUN[:], {"mu": np.ones((6, 3))}, "of which the largest is 5; got shape (6, 3)"),
        (RANDOM_RUN[:], {"mu": -np.ones((6, 2))}, "`mu` must be non-negative"),
        (RANDOM_RUN[:], {"mu": "entropy"}, "unknown rule for `mu` 'entropy'"),
        (RANDOM_RUN[:], {"rho": -1}, "`rho` must be in [0, inf], got -1"),
        (RANDOM_RUN[:], {"delta": 0}, "`delta` must be in (0, 1), got 0"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(data, options: dict, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        audit(data, **options)
    assert message in str(refused.value)


def test_a_pair_that_the_model_does_not_allow_is_refused() -> None:
    mdp = MDP(np.ones((2, 2, 2)) / 2, available=[[True, False], [True, True]])
    with pytest.raises(InvalidDataError, match=r"visits \(0, 1\), which `model` does not allow"):
        audit(([0], [1], [1], [False]), model=mdp)
    with pytest.raises(InvalidArgumentError, match="`tally` must be a Tally"):
        audit_tally(([0], [1], [1], [False]))
    with pytest.raises(InvalidArgumentError, match="`worst_ratio` must be positive"):
        audit(([0], [0], [0], [False])).meets(worst_ratio=0)


def test_data_that_is_better_than_any_policy_is_not_trusted() -> None:
    """Rows that moved ahead are mostly lost: the river looks hard to swim in, and the visits too good."""
    rng, river = np.random.default_rng(0), envs.river_swim().dense()
    states = [0]
    actions = (rng.random(20_000) < 0.8).astype(int)
    for action in actions:
        states.append(int(rng.choice(6, p=river[states[-1], action])))
    s, s_next, done = np.array(states[:-1]), np.array(states[1:]), np.zeros(20_000, bool)
    kept = ~((actions == 1) & (s_next > s)) | (rng.random(20_000) < 0.2)
    whole = audit((s, actions, s_next, done), rho=2.0)
    lost = audit((s[kept], actions[kept], s_next[kept], done[kept]), rho=2.0)
    assert "rows were left out" in lost.verdict
    assert lost.gap < -0.1
    assert "rows were left out" not in whole.verdict
