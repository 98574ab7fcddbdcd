"""Planning over codes goes everywhere: a long corridor from positions, and from features that mean nothing."""

from __future__ import annotations

import pytest
from mazes import Maze, snake

import rhocover as rc
from tiers import tiered

NUM_STEPS = 51_200
ROLLOUT = 1_000  # of these: what the net is fitted to


@pytest.mark.parametrize(
    ("embedding", "seed"), tiered([(d, seed) for seed in range(6) for d in (0, 32)], short=1)
)
def test_an_untuned_net_visits_a_snake_maze(embedding, seed):
    """At least 95 % of the fine cells, which the run does not know of, on every seed."""
    maze = Maze(snake(15), embedding)
    rc.explore(maze, 2.0, NUM_STEPS - ROLLOUT, model="from_scratch", states=rc.Net(), seed=seed)
    assert maze.share >= 0.95
