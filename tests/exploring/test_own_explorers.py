"""Explorers of one's own are refused where they would hang or read foreign memory; names stay the caller's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rhocover as rc
from rhocover.errors import InvalidArgumentError
from rhocover.exploring import Block, LowestScore, SamplePolicy, initial_state
from tiers import tiered


class Own:
    """Plays what it is given, and answers what it is told to."""

    def __init__(
        self, behaviour: Any = None, *, first: Any = "state", later: Any = "after", **memory: Any
    ) -> None:
        self.behaviour, self.first, self.later, self.memory = behaviour, first, later, memory

    def init(self, belief):
        return initial_state(belief, **self.memory) if self.first == "state" else self.first

    def policy(self, state):
        if isinstance(self.behaviour, Block | int):
            return self.behaviour
        chosen = np.ones(state.counts.size) if self.behaviour is None else self.behaviour
        return Block(SamplePolicy(chosen) if isinstance(chosen, np.ndarray) else chosen, 100)

    def update(self, state, visits):
        return state.after(visits) if self.later == "after" else state


MDP = rc.envs.river_swim()


def run(explorer: Any, **arguments: Any) -> rc.Run:
    return rc.explore(MDP, 2.0, 500, explorer=explorer, seed=0, **arguments)


def test_a_policy_may_be_a_table_or_a_vector_and_need_not_be_normalised() -> None:
    table = run(Own(np.full((6, 2), 3.0)))
    vector = run(Own(np.ones(12)))
    assert (table.counts == vector.counts).all()
    assert table.explorer == "Own"
    assert table.explorer_settings is None


@pytest.mark.parametrize(
    ("explorer", "message"),
    [
        (Own(first=None), r"`init` and `update` must return a State, got NoneType.*initial_state\(belief\)"),
        (Own(later="same"), r"after 100 steps, got one after 0.*state\.after\(visits\)"),
        (Own(behaviour=3), r"`policy` must return a Block, got int"),
        (
            Own(Block(np.ones(12), 10)),
            r"must be SamplePolicy, LowestScore or FlowCorrectedScore, got ndarray.*SamplePolicy\(policy\)",
        ),
        (
            Own(LowestScore(np.zeros(2), np.zeros(2), np.zeros(2))),
            r"`base` must have shape \(6, 2\).*got \(2,\)",
        ),
        (Own(LowestScore(np.full(12, np.nan), np.zeros(12), np.ones(12))), r"`base`"),
        (Own(np.ones((3, 2))), r"`policy` must have shape \(6, 2\)"),
        (Own(np.zeros(12)), r"`policy` must give every state an action"),
        (Own(name="x"), r"`memory\['name'\]` must be an array of numbers.*np\.array"),
        (Own(Block(SamplePolicy(np.ones(12)), 0)), r"Block\.num_steps"),
    ],
)
def test_what_an_explorer_of_ones_own_gets_wrong_is_said_at_once(
    explorer: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        run(explorer, out=tmp_path / "run")


def test_remembered_arrays_come_back_after_a_resume(tmp_path: Path) -> None:
    explorer = Own(seen=np.arange(3))
    first = run(explorer, out=tmp_path / "run")
    again = rc.resume(tmp_path / "run", explorer=explorer)
    assert (first.counts == again.counts).all()
    with pytest.raises(InvalidArgumentError, match="your own"):
        rc.resume(tmp_path / "run")
    with pytest.raises(InvalidArgumentError, match="your own Own"):
        rc.resume(tmp_path / "run", explorer="feedback")


def dropping_model(**arguments: Any) -> rc.MDP:
    """State 0 is left for ever; 1, 2, 3 stay among themselves."""
    P = np.zeros((4, 2, 4))
    for state, action, successor in [
        (0, 0, 1),
        (0, 1, 1),
        (1, 0, 2),
        (1, 1, 1),
        (2, 0, 3),
        (2, 1, 1),
        (3, 0, 1),
        (3, 1, 2),
    ]:
        P[state, action, successor] = 1
    return rc.MDP(P, **arguments)


@pytest.mark.parametrize("criterion", [{}, {"discount": 0.9, "start": 1}])
def test_the_least_visited_pair_has_the_callers_name_when_states_were_dropped(criterion: dict) -> None:
    found = rc.explore(dropping_model(), 2.0, 301, restrict=True, **criterion)
    name, count = found.least_visited
    state, action = map(int, name.strip("()").split(","))
    assert (
        found.counts[state, action]
        == count
        == found.counts[found.problem.table(found.visits * 0 + 1) > 0].min()
    )
    assert "Dropped" in found.restriction
    assert found.restriction in str(found)


def test_a_start_that_was_dropped_is_said() -> None:
    found = rc.explore(dropping_model(start=[0.9, 0, 0, 0.1]), 2.0, 300, restrict=True)
    assert "The run starts in these; the model does so with probability 0.1." in found.restriction
    assert rc.explore(dropping_model(start=1), 2.0, 300, restrict=True).restriction.count("starts") == 0


@pytest.mark.parametrize("explorer", tiered(["feedback", "tracking"]))
def test_pairs_of_no_weight_that_the_plan_avoids_are_not_visited_for_nothing(explorer: str) -> None:
    wheel = rc.envs.wheel()
    found = rc.explore(wheel, 2.0, 20_000, mu=rc.weights.transition_std(wheel), explorer=explorer, seed=0)
    assert found.regret < 1e-6  # one visit each, of 20 pairs, would cost 1e-3
    assert found.counts[rc.weights.transition_std(wheel) == 0].max() == 0


def test_weighted_parts_that_only_pairs_of_no_weight_join_are_both_covered() -> None:
    """Two cycles of three states; the ways between them have no weight and next to no share in the plan."""
    P = np.zeros((6, 2, 6))
    for s in range(6):
        P[s, 0, 3 * (s // 3) + (s + 1) % 3] = 1
        P[s, 1, (s + 3) % 6] = 1
    mdp = rc.MDP(P)
    found = rc.explore(mdp, 2.0, 60_000, mu=np.tile([1.0, 0.0], (6, 1)), seed=0)
    assert found.is_complete
    share = found.occupancy[:, 0].reshape(2, 3).sum(axis=1)
    assert share.min() > 0.3  # each of them has half of the weight


def test_near_one_the_parts_of_the_suboptimality_keep_their_digits() -> None:
    """U holds the constant 1/(1-rho), which would swallow them."""
    exact, near = (rc.explore(MDP, rho, 3000, seed=0, explorer="stationary") for rho in (1.0, 1 + 1e-12))
    for column in ("bregman", "suboptimality", "regret"):
        assert near.trace[column][-1] == pytest.approx(exact.trace[column][-1], rel=1e-5, abs=1e-9)
    assert near.identity_error() <= 1e-10


def test_a_run_is_not_changed_through_its_tables() -> None:
    found = run("tracking")
    with pytest.raises(ValueError, match="read-only"):
        found.counts[0, 0] = 1
    with pytest.raises(InvalidArgumentError, match=r"unknown column 'regrets'.*regret"):
        found.trace["regrets"]
    assert "regret" in repr(found.trace)
    assert found.trace.keys()[0] == "steps"


def test_more_steps_than_can_be_counted_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="`num_steps` must be at most"):
        rc.explore(MDP, 2.0, 10**400)


def test_episodes_beyond_a_limit_are_recorded_without_their_directions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("rhocover.exploring.runs.runner.KEPT", 30)
    first = run("algorithm1_short", out=tmp_path / "run")
    again = rc.resume(tmp_path / "run")
    sizes = [episode.psi.size for episode in first.episodes]
    assert sizes[0] == 12
    assert sizes[-2] == 0
    assert sizes == [episode.psi.size for episode in again.episodes]
    assert [episode.gap for episode in first.episodes] == [episode.gap for episode in again.episodes]


def test_at_large_orders_the_regret_is_shown_in_nats() -> None:
    found = rc.compare(
        "river_swim", ["feedback", "stationary"], rho=[2.0, 50.0], num_steps=2000, seeds=2, workers=1
    )
    units = {row.rho: row.regret_unit for row in found.table()}
    assert units == {2.0: "U", 50.0: "nats"}
    row = found.table()[-1]
    expected = found.values("river_swim", 50.0, "stationary", "pathwise_excess")[:, -1].mean()
    assert row.regret.mean == pytest.approx(expected)
    assert "nats" in str(rc.explore(MDP, 50.0, 2000, seed=0))
