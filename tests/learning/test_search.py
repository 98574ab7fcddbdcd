"""The search for what was tried least: its values, its work, and the traps of coarse codes."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from rhocover.learning import search_graph as kernels
from rhocover.learning.search import Search
from tiers import tiered

MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))


class Grid:
    """A grid with random walls; the agent walks in it, and cells get numbers as they are met."""

    def __init__(self, size: int, seed: int, slip: float = 0.0) -> None:
        self.rng, self.slip = np.random.default_rng(seed), slip
        self.is_free = np.zeros((size + 2, size + 2), bool)
        self.is_free[1:-1, 1:-1] = self.rng.random((size, size)) > 0.25
        self.is_free[1:3, 1:3] = True
        self.cell, self.numbers = (1, 1), {(1, 1): 0}

    def step(self, action: int) -> int:
        if self.rng.random() < self.slip:
            action = int(self.rng.integers(4))
        after = self.cell[0] + MOVES[action][0], self.cell[1] + MOVES[action][1]
        self.cell = after if self.is_free[after] else self.cell
        return self.numbers.setdefault(self.cell, len(self.numbers))

    @property
    def num_reachable(self) -> int:
        found, queue = {(1, 1)}, deque([(1, 1)])
        while queue:
            x, y = queue.popleft()
            near = [(x + a, y + b) for a, b in MOVES if self.is_free[x + a, y + b]]
            queue.extend(cell for cell in near if cell not in found)
            found.update(near)
        return len(found)


def walk(grid: Grid, search: Search, num_steps: int) -> list[tuple[int, int]]:
    """Returns the pairs and next states of a walk that the search leads."""
    steps, state = [], grid.numbers[grid.cell]
    for _ in range(num_steps):
        pair = search.choose(state)
        assert pair // 4 == state
        state = grid.step(pair % 4)
        search.observe(pair, state)
        steps.append((pair, state))
    return steps


def fewest_steps(steps: list[tuple[int, int]], start: int, costs: np.ndarray) -> float:
    """Returns the steps from a state to a pair that was never tried, where every pair leads to one state.

    An untried pair counts as many steps as its action costs.
    """
    visits, after = np.zeros(4 * 10_000, int), {}
    for pair, state in steps:
        visits[pair] += 1
        after[pair] = state
    far, queue, fewest = {start: 0}, deque([start]), np.inf
    while queue:
        s = queue.popleft()
        untried = visits[4 * s : 4 * s + 4] == 0
        fewest = min([fewest, *(far[s] + costs[untried])])
        for t in (after[pair] for pair in range(4 * s, 4 * s + 4) if pair in after):
            if t not in far:
                far[t] = far[s] + 1
                queue.append(t)
    return fewest


@pytest.mark.parametrize("seed", tiered(range(6)))
def test_the_expected_steps_are_those_of_a_breadth_first_search(seed):
    grid, search, steps = Grid(9, seed), Search(4, seed), []
    for _ in range(60):
        steps += walk(grid, search, 11)
        state = grid.numbers[grid.cell]
        expected = fewest_steps(steps, state, search.costs)
        if expected < kernels.RETRY:
            assert search.expected_steps(state) == pytest.approx(expected, rel=kernels.TOLERANCE)


@pytest.mark.parametrize("slip", tiered([0.0, 0.3]))
def test_every_pair_is_tried_and_soon(slip):
    """A walk through all pairs of a grid needs one step per pair at least; with slips each try takes longer."""
    grid, search = Grid(20, 1, slip), Search(4)
    num_pairs = 4 * grid.num_reachable
    visits = np.zeros(num_pairs, int)
    for pair, _ in walk(grid, search, int(num_pairs * (3 if slip == 0 else 8))):
        visits[pair] += 1
    assert len(grid.numbers) == grid.num_reachable
    assert visits.min() >= 1


def test_the_work_of_a_step_does_not_grow_with_what_is_known():
    """States served per step, with 25 times as many states."""
    served = []
    for size in (20, 100):
        grid, search = Grid(size, 0), Search(4)
        num_steps = 6 * grid.num_reachable
        walk(grid, search, num_steps)
        assert len(grid.numbers) > 0.95 * grid.num_reachable
        served.append(search.num_served / num_steps)
    assert served[1] <= 3 * served[0]


@pytest.mark.parametrize("width", tiered([2, 5, 9]))
def test_a_code_as_wide_as_several_steps_is_left(width):
    """A line of cells in codes of `width`: left, right and stay in turn would never leave the first."""
    for seed in range(5):
        search, x, furthest = Search(3, seed), 0, 0
        state = 0
        for _ in range(400 * width):
            pair = search.choose(state)
            x = min(max(x + (-1, 0, 1)[pair % 3], 0), 20 * width - 1)
            state = x // width
            search.observe(pair, state)
            furthest = max(furthest, state)
        assert furthest == 19


def test_a_code_on_both_sides_of_a_wall_does_not_hold_the_agent():
    """Two lanes of 30 cells with a wall between them, joined at the end; codes do not tell the lanes apart.

    Seen from the second lane, "up" leads to codes beyond; in the first it fails in every cell. The agent has to walk
    to the end of the first lane, although each code on the way has led up before.
    """

    def go(lane: int, x: int, action: int) -> tuple[int, int]:
        if action < 2:
            return lane, min(max(x + 2 * action - 1, 0), 29)
        after = lane + (1 if action == 2 else -1)
        is_open = {lane, after} != {0, 1} or x == 29
        return (after, x) if 0 <= after <= 5 and is_open else (lane, x)

    for seed in range(3):
        numbers: dict[tuple[int, int], int] = {}
        search, lane, x, reached = Search(4, seed), 0, 0, 0
        for _ in range(20_000):
            code = (max(lane, 1), x)  # lanes 0 and 1 look alike
            pair = search.choose(numbers.setdefault(code, len(numbers)))
            lane, x = go(lane, x, pair % 4)
            after = (max(lane, 1), x)
            search.observe(pair, numbers.setdefault(after, len(numbers)))
            reached = max(reached, lane)
        assert reached == 5
        assert len(numbers) == 5 * 30


def test_several_chains_in_one_state_do_not_try_the_same_pair():
    search = Search(4, num_chains=4)
    assert sorted(search.choose(0, chain) for chain in range(4)) == [0, 1, 2, 3]


def test_the_seed_decides_the_order_and_nothing_else_does():
    walks = [tuple(walk(Grid(9, 0), Search(4, seed), 200)) for seed in (3, 3, 4)]
    assert walks[0] == walks[1] != walks[2]


def test_transitions_of_the_past_count_as_if_they_had_been_observed():
    grid, search = Grid(9, 2), Search(4)
    steps = walk(grid, search, 300)
    again = Search(4)
    again.observe_all(*np.array(steps).T)
    wanted = [fewest_steps(steps, s, again.costs) for s in range(len(grid.numbers))]
    assert min(wanted) < kernels.DULL
    for s, expected in enumerate(wanted):
        if expected < np.inf:
            assert again.expected_steps(s) == pytest.approx(expected, rel=kernels.TOLERANCE)


def test_actions_that_never_do_anything_are_tried_last():
    """A corridor of 60 states with two moves, and eight actions that do nothing: the end is found before those."""
    search, x, first = Search(10), 0, None
    idle_before = 0
    for step in range(2_000):
        pair = search.choose(x)
        action = pair % 10
        idle_before += action > 1 and x > 20 and first is None
        after = min(x + 1, 59) if action == 0 else max(x - 1, 0) if action == 1 else x
        search.observe(pair, after)
        x = after
        if x == 59 and first is None:
            first = step
    assert first is not None
    assert idle_before == 0
    assert search.costs[2:].min() > 1


def test_what_did_nothing_before_is_tried_again_where_a_way_was_lost():
    """A corridor of 31 states that is known but for an action of state 20 and one at its end; the first leads back to 0.

    Action 0 goes on, 1 goes back, and 2 goes on beyond state 20 and does nothing before it. From 0 the end is far,
    so before the walk begins what did nothing in 0 is tried again.
    """
    search = Search(3)
    rows = [(3 * s + 2, s + 1) for s in range(21, 30)] + [(3 * s, s + 1) for s in range(30)]
    rows += [(3 * s + 1, max(s - 1, 0)) for s in range(31)] + [(3 * s + 2, s) for s in (*range(20), 30)]
    search.observe_all(*np.array(rows).T)
    assert search.choose(20) == 62
    search.observe(62, 0)
    again = []
    while (pair := search.choose(0)) != 0:
        search.observe(pair, 0)
        again.append(pair)
    assert set(again) == {1, 2}
    assert len(again) <= 8


def test_what_failed_is_tried_again_in_the_next_episode():
    """A door that opens once an episode: a search that is told of the new one goes through it again at once."""
    search, found = Search(2), []
    for _ in range(30):
        is_open, state = True, 0
        for _ in range(40):
            pair = search.choose(state)
            after = 1 if state == 0 and pair % 2 == 0 and is_open else 0
            is_open = is_open and after == 0
            search.observe(pair, after)
            found.append(after)
            state = after
        search.begin_episode()
    assert sum(found[-400:]) >= 10
