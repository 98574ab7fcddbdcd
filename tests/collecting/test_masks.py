"""`info["action_mask"]`: actions that are not allowed are never played, and are no pairs to cover."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import rhocover as rc
from rhocover.errors import EnvironmentFailedError
from rhocover.learning.search import Search
from tiers import tiered

NUM_CELLS = 6


class Row(gym.Env):
    """Cells in a row; left, right, stay. A step into a wall is not allowed, and `stay` only now and then."""

    observation_space = spaces.Discrete(NUM_CELLS)
    action_space = spaces.Discrete(3)

    def __init__(self, *, is_fickle: bool = False, **broken) -> None:
        self.at, self.num_steps, self.is_fickle, self.broken = 0, 0, is_fickle, broken
        self.illegal, self.played = 0, np.zeros((NUM_CELLS, 3), int)

    def _info(self):
        if self.broken:
            return {"action_mask": self.broken["mask"]}
        stays = self.at == 2 and (not self.is_fickle or self.num_steps % 3 == 0)
        self.mask = np.array([self.at > 0, self.at < NUM_CELLS - 1, stays], np.int8)
        return {"action_mask": self.mask}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.at, self._info()

    def step(self, action):
        self.illegal += not self.mask[action]
        self.played[self.at, action] += 1
        self.num_steps += 1
        self.at = min(max(self.at + (-1, 1, 0)[action], 0), NUM_CELLS - 1)
        return self.at, 0.0, False, self.num_steps % 40 == 0, self._info()


@pytest.mark.parametrize("is_fickle", [False, True], ids=["fixed", "fickle"])
@pytest.mark.parametrize("explorer", tiered(["feedback", "tracking"]))
@pytest.mark.parametrize("model", tiered(["from_scratch", "learned"]))
def test_only_allowed_actions_are_played_and_covered(is_fickle, explorer, model) -> None:
    env = Row(is_fickle=is_fickle)
    run = rc.explore(env, 2, 2_000, model=model, explorer=explorer)
    assert env.illegal == 0
    num_pairs = 2 * (NUM_CELLS - 1) + 1  # each step to a neighbour, and one cell to stay in
    assert run.coverage_text.startswith(f"complete ({num_pairs} of {num_pairs} pairs")
    assert run.untried == 0
    assert np.isfinite(run.divergence)
    assert run.evidence().unvisited == ()
    assert run.tally.counts.tolist() == env.played.tolist()


def test_masks_and_chosen_actions_combine() -> None:
    env = Row()
    run = rc.explore(env, 2, 500, model="from_scratch", actions=[1, 0])
    assert env.illegal == 0
    assert run.coverage_text.startswith("complete (10 of 10 pairs")
    assert env.played[:, 2].sum() == 0


@pytest.mark.thorough
def test_taxi_is_covered_without_its_walls() -> None:
    """404 states of Taxi, four of them ends, have 1116 allowed pairs (counted from its own masks)."""
    run = rc.explore(gym.make("Taxi-v4"), 2, 30_000, model="from_scratch", seed=1)
    taxi = gym.make("Taxi-v4").unwrapped
    met = run.tally.keys
    assert run.scope.num_weighted == sum(int(taxi.action_mask(state).sum()) for state in met)
    assert run.scope.num_missing == 0


@pytest.mark.parametrize(
    ("mask", "message"),
    [([0, 0, 0], "allows no action"), ([1, 1], "0 or 1 for each of the 3 actions"), ("abc", "0 or 1 for each")],
)  # fmt: skip
def test_a_mask_that_is_none_is_refused(mask, message) -> None:
    with pytest.raises(EnvironmentFailedError, match=message):
        rc.explore(Row(mask=mask), 2, 100, model="from_scratch")


def test_a_search_does_without_forbidden_pairs_and_takes_them_back() -> None:
    search = Search(2)
    search.allow(0, is_allowed=False)
    for _ in range(5):
        assert search.choose(0) == 1
        search.observe(1, 0)
    search.allow(0, is_allowed=True)
    search.allow(0, is_allowed=True)
    assert {search.choose(0) for _ in range(50)} >= {0}
