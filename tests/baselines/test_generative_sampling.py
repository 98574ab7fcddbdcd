"""A generative model as a world, and optimistic tracking in it (Shekhar et al. 2020)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import rhocover as rc
from rhocover.baselines.generative_sampling import (
    POWERS,
    GenerativeSampling,
    desk_size,
    generative_world,
    sample_counts,
    upper_spread,
)
from rhocover.errors import InvalidArgumentError
from rhocover.exploring.runs import checkpoint
from small_models import random_model
from tiers import tiered

RIVER = rc.envs.river_swim()
RANDOM = random_model(3, holes=0.3)
INF = float("inf")


def size(mdp: rc.MDP, loss: str) -> np.ndarray:
    """Returns c or V of each pair, from dense rows."""
    P = mdp.transitions.toarray()
    variance = P * (1 - P)
    return variance.sum(axis=1) if loss == "l2" else np.sqrt(variance).sum(axis=1)


def draws(mdp: rc.MDP, explorer: GenerativeSampling, number: int, model: str, seed: int = 0) -> np.ndarray:
    """Returns how often each pair was drawn from."""
    world = generative_world(mdp)
    run = rc.explore(
        world, explorer.rho, 2 * number, explorer.weights(world), explorer=explorer, model=model, seed=seed
    )
    counts = sample_counts(run, mdp)
    assert counts.sum() == number
    return np.asarray(counts.sum(axis=1)).ravel()


# The world.


def test_the_world_draws_from_every_pair_and_comes_back() -> None:
    world, n = generative_world(RANDOM), RANDOM.num_pairs
    P = world.dense()
    np.testing.assert_array_equal(P[0, :, 1:], RANDOM.transitions.toarray())
    assert (P[0, :, 0] == 0).all()
    assert (P[1:, 0, 0] == 1).all()
    assert world.num_pairs == n + RANDOM.num_states
    assert desk_size(world) == n


def test_labels_of_the_world_are_those_of_the_model() -> None:
    world = generative_world(RIVER)
    assert world.state_labels == ("desk", "0", "1", "2", "3", "4", "5")
    assert world.pair_name(1) == "(desk, (0, right))"


def test_states_that_nothing_leads_to_are_no_outcomes_and_have_no_counts() -> None:
    P = np.zeros((3, 2, 3))
    P[:, 0] = [0.0, 0.5, 0.5]
    P[:, 1] = [0.0, 0.9, 0.1]
    mdp = rc.MDP(P)
    world = generative_world(mdp)
    assert world.num_states == 3
    run = rc.explore(world, 2.0, 8000, explorer=GenerativeSampling(), model="learned")
    counts = sample_counts(run, mdp).toarray()
    assert counts.shape == (6, 3)
    assert (counts[:, 0] == 0).all()
    assert counts[0::2].sum() > 1000
    # So many draws from (0, 1/2, 1/2) are within 0.1 of it but for 2 e^-20 = 4e-9 (Hoeffding).
    assert counts[0::2, 1].sum() / counts[0::2].sum() == pytest.approx(0.5, abs=0.1)


def test_counts_are_the_runs_own_transitions() -> None:
    world = generative_world(RIVER)
    run = rc.explore(world, 2.0, 4001, explorer=GenerativeSampling(), model="learned")
    counts = sample_counts(run, RIVER)
    np.testing.assert_array_equal(counts.sum(axis=1), run.counts[0])
    assert counts.sum() == 2001  # the last draw is on its way back
    assert (RIVER.transitions.toarray()[counts.toarray() > 0] > 0).all()


# Bounds.


@pytest.mark.parametrize("loss", tiered(["l2", "l1"]))
@pytest.mark.parametrize("number", tiered([1, 2, 5, 20, 200]))
def test_upper_bounds_hold_with_their_probability(loss: str, number: int) -> None:
    delta, trials = 0.5, 4000
    rng = np.random.default_rng(number)
    for p in ([0.98, 0.02], [0.5, 0.5], [0.25] * 4, [0.9, 0.05, 0.05, 0.0]):
        P = np.asarray(p)
        truth = np.sum(P * (1 - P)) if loss == "l2" else np.sum(np.sqrt(P * (1 - P)))
        # One row at a time, so that the union over rows takes nothing.
        counts = rng.multinomial(number, P, size=trials)
        rows = {tuple(row): 0 for row in counts}
        for row in rows:
            rows[row] = bool(upper_spread(sp.csr_array([row]), P.size, loss, delta)[0] < truth - 1e-12)
        failures = sum(rows[tuple(row)] for row in counts)
        # At most delta/(N(N+1)) of the trials; 6 standard deviations more have probability 1e-9.
        most = delta / (number * (number + 1))
        assert failures <= trials * most + 6 * np.sqrt(trials * most)


@pytest.mark.parametrize("loss", ["l2", "l1"])
def test_upper_bounds_come_to_the_truth(loss: str) -> None:
    P = np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])
    truth = (P * (1 - P)).sum(axis=1) if loss == "l2" else np.sqrt(P * (1 - P)).sum(axis=1)
    for number in (10**6, 10**8):
        upper = upper_spread(sp.csr_array(P * number), 3, loss, 0.1)
        # L < 40 here; the widths are 2 sqrt(2Lc/N) + 8L/N and m sqrt(2L/N), up to rounding and 1/N.
        width = (
            2 * np.sqrt(80 * truth / number) + 321 / number if loss == "l2" else 3.1 * np.sqrt(80 / number)
        )
        assert (upper >= truth).all()
        assert (upper <= truth + width).all()


# Allocation.


@pytest.mark.parametrize(("loss", "aggregate"), tiered(POWERS))
def test_with_a_known_model_draws_are_in_the_best_proportion(loss: str, aggregate: str) -> None:
    number = 5000
    shares = size(RANDOM, loss) ** POWERS[loss, aggregate]
    counts = draws(RANDOM, GenerativeSampling(loss, aggregate), number, "known")
    # The next draw goes to the smallest N/share, so no two N/share differ by more than one draw's worth.
    assert (counts / shares).max() - (counts / shares).min() <= 1 / shares.min() + 1e-9


@pytest.mark.parametrize(("loss", "aggregate"), POWERS)
def test_the_proportions_are_the_best_for_their_loss(loss: str, aggregate: str) -> None:
    shares = GenerativeSampling(loss, aggregate).weights(generative_world(RANDOM))[0]
    error = lambda d: size(RANDOM, loss) / d ** (1.0 if loss == "l2" else 0.5)  # noqa: E731
    total = np.max if aggregate == "max" else np.mean
    best, rng = total(error(shares / shares.sum())), np.random.default_rng(0)
    for _ in range(200):
        other = shares * np.exp(0.1 * rng.standard_normal(shares.size))
        assert total(error(other / other.sum())) > best


def test_a_pair_that_is_known_to_be_certain_is_drawn_once() -> None:
    counts = draws(RIVER, GenerativeSampling(), 1000, "known")
    np.testing.assert_array_equal(counts[RIVER.pair_action == 0], 1)


def most_optimistic(mdp: rc.MDP, loss: str, draws: np.ndarray, delta: float) -> np.ndarray:
    """Returns what no upper bound exceeds after so many draws, but with probability delta."""
    truth, m, N = size(mdp, loss), mdp.num_states, np.maximum(draws, 2)
    unions = mdp.num_pairs * N * (N + 1) / delta
    if loss == "l1":  # each root of a variance is over- as it is underestimated
        return np.minimum(truth + 2 * m * np.sqrt(2 * np.log(m * unions) / (N - 1)), np.sqrt(m - 1))
    # Z = N c_tilde/2 exceeds E Z by x with probability exp(-x^2/(4 E Z + 2x)) at most, solved for x.
    L = np.log(unions)
    b, c_tilde = np.sqrt(2 * L / N), truth + 2 * (L + np.sqrt(L**2 + 2 * N * truth * L)) / N
    return np.minimum((b + np.sqrt(c_tilde + b**2)) ** 2, 1 - 1 / m)


TRACKED = [(RANDOM, *one) for one in POWERS] + [(RIVER, "l2", "max")]


@pytest.mark.thorough
@pytest.mark.parametrize(("mdp", "loss", "aggregate"), TRACKED)
def test_optimistic_tracking_draws_in_the_best_proportion_within_its_confidence(
    mdp: rc.MDP, loss: str, aggregate: str
) -> None:
    """Shares w, at their upper bounds v: when pair i was drawn last, v_i/(N_i - 1) was the largest of all
    v_j/N_j >= w_j/N_j, one of which is at least sum w/T, T = sum N. So N_i - 1 <= T v_i/sum w, with a v_i that
    is at most one block old."""
    number, delta, block = 100_000, 1e-6, 1 / 500  # the bounds hold but with probability 2 delta
    counts = draws(mdp, GenerativeSampling(loss, aggregate, delta, block), number, "learned")
    power = POWERS[loss, aggregate]
    upper = most_optimistic(mdp, loss, counts - 1 - block * number, delta)
    assert (counts - 1 <= number * upper**power / np.sum(size(mdp, loss) ** power)).all()


@pytest.mark.parametrize("aggregate", tiered(["max", "average"]))
def test_draws_tend_to_the_best_proportion(aggregate: str) -> None:
    shares = size(RANDOM, "l2") ** POWERS["l2", aggregate]
    shares /= shares.sum()
    off = [
        np.abs(
            draws(RANDOM, GenerativeSampling(aggregate=aggregate), number, "learned") / number - shares
        ).max()
        for number in (20_000, 2_000_000)
    ]
    # The slowest is a pair of c near 0, at the average: u = 8L/N and sqrt(u)/N = const/T give it (L/T)^(1/3) of
    # the draws, a 4.2th after 100 times as many (L grows from 19 to 25).
    assert off[1] < off[0] / 4


def test_learning_where_to_draw_beats_drawing_alike() -> None:
    number = 20_000
    counts = draws(RIVER, GenerativeSampling(), number, "learned")
    c = size(RIVER, "l2")
    assert (c / counts).max() < 0.75 * (c / (number / RIVER.num_pairs)).max()


@pytest.mark.thorough
def test_blocks_of_many_draws_do_nearly_as_well_as_the_papers_one_by_one() -> None:
    number = 2500
    one_by_one = draws(RANDOM, GenerativeSampling(block_share=0.0), number, "learned")
    blocks = draws(RANDOM, GenerativeSampling(), number, "learned")
    # What the blocks do not know when they choose is at most the last block's draws.
    assert np.abs(blocks - one_by_one).max() <= number / 32


# The contract.


def test_the_objective_that_a_run_is_measured_by_is_the_one_of_the_table() -> None:
    world = generative_world(RIVER)
    average = GenerativeSampling(aggregate="average")
    np.testing.assert_allclose(average.weights(world), rc.weights.transition_std(world))
    l1 = GenerativeSampling(loss="l1", aggregate="average")
    np.testing.assert_allclose(l1.weights(world), rc.weights.model_error(world))
    orders = [GenerativeSampling(*one).rho for one in (("l2", "max"), ("l2", "average"), ("l1", "average"))]
    assert orders == [INF, 2.0, 1.5]
    best = rc.plan(world, 2.0, average.weights(world))
    assert best.divergence == pytest.approx(np.log(2), abs=1e-6)  # half of the visits are ways back


@pytest.mark.parametrize("model", tiered(["known", "learned"]))
def test_runs_resume_to_the_bit(model: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)
    world = generative_world(RIVER)
    arguments: dict[str, Any] = {
        "explorer": GenerativeSampling(aggregate="average"),
        "model": model,
        "seed": 3,
    }
    whole = rc.explore(world, 2.0, 3000, **arguments)

    def stop(steps: int, num_steps: int) -> None:
        if steps >= 1500:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        rc.explore(world, 2.0, 3000, **arguments, out=tmp_path / "run", report=stop)
    again = rc.resume(tmp_path / "run")
    np.testing.assert_array_equal(again.moves, whole.moves)
    assert again.explorer == "generative_sampling"
    assert again.explorer_settings == whole.explorer_settings


@pytest.mark.parametrize("model", ["known", "learned"])
@pytest.mark.parametrize("mdp", [RIVER, rc.envs.wheel(), rc.MDP(np.ones((1, 2, 1)))])
def test_a_world_where_one_has_to_walk_is_refused(mdp: rc.MDP, model: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"any pair at any time.*generative_world\(mdp\)"):
        rc.explore(mdp, 2.0, 100, explorer=GenerativeSampling(), model=model)


def test_restarts_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="without horizon and discount"):
        rc.explore(generative_world(RIVER), 2.0, 100, explorer=GenerativeSampling(), discount=0.9, start=0)


def test_counts_of_another_model_are_refused() -> None:
    run = rc.explore(generative_world(RIVER), 2.0, 100, explorer=GenerativeSampling())
    with pytest.raises(InvalidArgumentError, match=r"`run` must be in generative_world\(mdp\), of 25 pairs"):
        sample_counts(run, rc.envs.wheel())


def test_weights_of_a_world_without_chance_are_refused() -> None:
    P = np.zeros((2, 2, 2))
    P[:, 0, 0] = P[:, 1, 1] = 1.0
    with pytest.raises(InvalidArgumentError, match="every pair is deterministic"):
        GenerativeSampling().weights(generative_world(rc.MDP(P)))
    run = rc.explore(generative_world(rc.MDP(P)), 2.0, 100, explorer=GenerativeSampling(), model="learned")
    assert run.counts[0].sum() == 50


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "l3"}, r"unknown loss 'l3'.*l1, l2"),
        ({"aggregate": "sum"}, r"unknown aggregate 'sum'.*average, max"),
        ({"delta": 0.0}, r"`delta` must be in \(0, 1\), got 0"),
        ({"block_share": 1.5}, r"`block_share` must be in \[0, 1\], got 1.5"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        GenerativeSampling(**settings)
