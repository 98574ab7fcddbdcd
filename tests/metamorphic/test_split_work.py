"""Work that is split, shared out, merged or put in another order gives the same result."""

from __future__ import annotations

import numpy as np
import pytest

import rhocover as rc
from rhocover.datasets import audit_tally, read_tally
from rhocover.exploring.runs import checkpoint
from rhocover.exploring.worlds.simulator import Simulator
from small_models import random_model, random_weights
from tiers import tiered

EXPLORERS = ("feedback", "tracking", "stationary", "algorithm1")


# --- runs ----------------------------------------------------------------------------------------------


class StopHereError(Exception):
    """What a caller's own code may raise at any time."""


def interrupted(after: int, out, **asked) -> None:
    """Begins a run that its caller's report brings down after some calls."""
    calls = 0

    def report(steps: int, num_steps: int) -> None:
        nonlocal calls
        calls += 1
        if calls == after:
            raise StopHereError

    with pytest.raises(StopHereError):
        rc.explore(**asked, out=out, report=report)


@pytest.mark.parametrize("explorer", tiered(EXPLORERS))
@pytest.mark.parametrize("model", tiered(["known", "learned", "from_scratch"]))
def test_a_run_in_two_pieces_has_the_bits_of_one(explorer, model, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)
    monkeypatch.setattr(Simulator, "batch_steps", 50)
    for seed in range(2):
        mdp = random_model(seed, holes=0.4)
        asked = {
            "world": mdp, "rho": 2.0, "num_steps": 600, "mu": random_weights(mdp, seed), "explorer": explorer,
            "model": model, "seed": seed, "num_chains": 1 + seed,
        }  # fmt: skip
        interrupted(2 + seed, tmp_path / str(seed), **asked)
        same_run(rc.resume(tmp_path / str(seed)), rc.explore(**asked))


def same_run(one: rc.Run, other: rc.Run) -> None:
    assert one.num_steps == other.num_steps
    assert one.visits.tobytes() == other.visits.tobytes()
    assert one.moves.tobytes() == other.moves.tobytes()
    assert one.last_states.tobytes() == other.last_states.tobytes()
    assert str(one.episodes) == str(other.episodes)
    assert one.divergence == other.divergence or np.isnan([one.divergence, other.divergence]).all()


@pytest.mark.parametrize("explorer", tiered(EXPLORERS))
def test_how_often_the_loop_looks_up_changes_nothing(explorer, monkeypatch):
    mdp = random_model(3)
    asked = {"world": mdp, "rho": 1.0, "num_steps": 500, "explorer": explorer, "seed": 4}
    whole = rc.explore(**asked)
    monkeypatch.setattr(Simulator, "batch_steps", 7)
    same_run(rc.explore(**asked), whole)


@pytest.mark.parametrize("points", tiered([1, 3, 40]))
@pytest.mark.parametrize("explorer", tiered(EXPLORERS))
def test_how_often_a_run_is_measured_changes_nothing(explorer, points):
    mdp = random_model(5)
    asked = {"world": mdp, "rho": 2.0, "num_steps": 400, "explorer": explorer, "seed": 1}
    same_run(rc.explore(**asked, trace_points=points), rc.explore(**asked))


@pytest.mark.parametrize("explorer", tiered(["feedback", "tracking", "stationary"]))
def test_a_longer_run_begins_with_the_shorter_one(explorer):
    mdp = random_model(6)
    short, long = (rc.explore(mdp, 2.0, num_steps, explorer=explorer, seed=2) for num_steps in (100, 1000))
    _, here, there = np.intersect1d(short.trace["steps"], long.trace["steps"], return_indices=True)
    assert here.size > 5
    for name, column in short.trace.columns.items():
        assert np.array_equal(column[here], long.trace[name][there], equal_nan=True), name


# --- comparisons ---------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_neither_workers_nor_the_order_of_the_question_change_a_comparison(tmp_path):
    asked = {"explorers": ["feedback", "tracking"], "num_steps": 200}
    one = rc.compare(["river_swim", "wheel"], seeds=[4, 1, 7], workers=1, **asked)
    two = rc.compare(["river_swim", "wheel"], seeds=[4, 1, 7], workers=2, out=tmp_path / "two", **asked)
    turned = rc.compare(["wheel", "river_swim"], seeds=[7, 1, 4], workers=1, **asked)
    for name, column in one.columns.items():
        assert column.tobytes() == two.columns[name].tobytes(), name
        assert column.tobytes() == turned.columns[name][::-1, :, :, ::-1].tobytes(), name


def test_a_comparison_is_the_runs_it_is_made_of():
    found = rc.compare("wheel", "feedback", num_steps=200, seeds=[3], workers=1)
    run = rc.explore(rc.envs.wheel(), 2.0, 200, seed=3, trace_points=5)
    for column in ("divergence", "worst_ratio", "least_count"):
        assert np.array_equal(
            found.values("wheel", 2.0, "feedback", column)[0], run.trace[column], equal_nan=True
        )


# --- data ----------------------------------------------------------------------------------------------


def random_data(seed: int, num_rows: int = 300) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    s, s_next = rng.integers(0, 5, (2, num_rows))
    done = rng.random(num_rows) < 0.1
    done[-1] = True
    s[1:] = np.where(done[:-1], s[1:], s_next[:-1])
    return s, rng.integers(0, 3, num_rows), s_next, done


def same_figures(one: rc.Audit, other: rc.Audit) -> None:
    """All that does not depend on the order of the steps: not the error bars, not the episodes."""
    assert one.counts.tobytes() == other.counts.tobytes()
    for name in ("divergence", "worst_ratio", "visited_divergence", "visited_worst_ratio", "num_missing"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.gap == pytest.approx(other.gap, nan_ok=True, abs=1e-8)
    assert one.verdict == other.verdict
    assert str(one.thin) == str(other.thin)  # as text: nan is not itself


@pytest.mark.parametrize("seed", tiered(range(10)))
def test_the_audit_of_two_data_sets_is_the_audit_of_their_counts(seed):
    one, two = random_data(seed), random_data(seed + 100)
    joined = tuple(np.concatenate(parts) for parts in zip(one, two, strict=True))
    together = read_tally(one) + read_tally(two)
    whole = read_tally(joined)
    assert together.num_steps == whole.num_steps
    added = audit_tally(together.over(whole.keys), rho=2.0)
    same_figures(added, rc.audit(joined))


@pytest.mark.parametrize("seed", tiered(range(10)))
def test_the_order_of_the_rows_changes_no_count(seed):
    data = random_data(seed)
    order = np.random.default_rng(seed).permutation(data[0].size)
    mixed = tuple(column[order] for column in data)
    same_figures(rc.audit(data, rho=1.0, best=False), rc.audit(mixed, rho=1.0, best=False))
    assert (read_tally(data).moves != read_tally(mixed).moves).nnz == 0


@pytest.mark.parametrize("seed", tiered(range(10)))
def test_twice_the_same_data_is_the_same_occupancy(seed):
    data = random_data(seed)
    twice = tuple(np.concatenate([column, column]) for column in data)
    once, double = rc.audit(data, best=False), rc.audit(twice, best=False)
    assert double.occupancy.tobytes() == once.occupancy.tobytes()
    assert (double.counts == 2 * once.counts).all()
    assert double.divergence == once.divergence


@pytest.mark.parametrize("rename", tiered([lambda s: 1000 + 7 * s, lambda s: 10**12 - s]))
def test_what_states_are_called_changes_no_count(rename):
    for seed in range(5):
        s, a, s_next, done = random_data(seed)
        one, two = rc.audit((s, a, s_next, done)), rc.audit((rename(s), a, rename(s_next), done))
        names = rename(np.array(one.tally.keys)).tolist()
        place = [two.tally.keys.index(name) for name in names]
        assert (two.counts[place] == one.counts).all()
        assert two.divergence == pytest.approx(one.divergence, rel=1e-13)
        assert two.best_worst_ratio == pytest.approx(one.best_worst_ratio, rel=1e-3)


@pytest.mark.parametrize("seed", tiered(range(3)))
def test_the_order_of_the_rows_does_not_change_what_a_top_up_promises(seed):
    mdp = random_model(seed, num_states=4)
    run = rc.explore(mdp, 2.0, 200, explorer="uniform_random", seed=seed)
    counts = run.transitions.tocoo()
    pair = np.repeat(counts.coords[0], counts.data.astype(int))
    data = (
        mdp.pair_state[pair], mdp.pair_action[pair], np.repeat(counts.coords[1], counts.data.astype(int)),
        np.zeros(pair.size, bool),
    )  # fmt: skip
    order = np.random.default_rng(seed).permutation(pair.size)
    one = rc.top_up(data, mdp, num_steps=100)
    two = rc.top_up(tuple(column[order] for column in data), mdp, num_steps=100)
    assert one.policy == pytest.approx(two.policy, abs=1e-6)
    assert one.predicted.worst_ratio == pytest.approx(two.predicted.worst_ratio, rel=1e-9)
