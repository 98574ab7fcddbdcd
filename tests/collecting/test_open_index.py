"""Numbers of states and transitions that are given as they are met, and never change afterwards."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from gymnasium import spaces
from toy_environments import Ring

from rhocover import MDP
from rhocover.collecting.state_index import FixedStateIndex, GrowingStateIndex, StateReader
from rhocover.collecting.stepping import Seeds
from rhocover.environments.encoding import FunctionCode, WholeNumber
from rhocover.errors import EnvironmentFailedError
from rhocover.exploring.belief.learned import Frame, make_known
from rhocover.exploring.worlds import OpenIndex, counts_of_moves, no_moves, visits_of_moves

A = 3


def wandering(num_steps: int, num_keys: int, seed: int = 0) -> list[tuple[str, int, str]]:
    """Returns transitions between keys, most of them seen before, some new at any time."""
    luck = np.random.default_rng(seed)
    keys = [f"k{k}" for k in (num_keys * luck.random(num_steps + 1) ** 3).astype(int)]
    return [(keys[k], int(luck.integers(A)), keys[k + 1]) for k in range(num_steps)]


def walked(states: GrowingStateIndex, steps: list, moves: np.ndarray, chunk: int = 7) -> np.ndarray:
    """Counts steps in chunks, meeting keys on the way as a world does."""
    for first in range(0, len(steps), chunk):
        pairs, nexts = [], []
        for key, action, after in steps[first : first + chunk]:
            numbers = [states.numbers[k] if k in states.numbers else states.add(k) for k in (key, after)]
            pairs.append(numbers[0] * A + action)
            nexts.append(numbers[1])
        moves = states.count(np.array(pairs), np.array(nexts), moves)
    return moves


def as_counter(states: GrowingStateIndex, index: OpenIndex, moves: np.ndarray) -> Counter:
    counts = counts_of_moves(index, moves).tocoo()
    rows, columns = (c.tolist() for c in counts.coords)
    return Counter(
        {(states.keys[r // A], r % A, states.keys[c]): int(n)
         for r, c, n in zip(rows, columns, counts.data, strict=True)}
    )  # fmt: skip


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_counts_are_those_of_a_dictionary(chunk):
    """200 states are more than there is room for at first, so every array has to grow."""
    states, steps = GrowingStateIndex(A), wandering(4000, 200)
    moves = walked(states, steps, np.zeros(0, np.int64), chunk)
    assert as_counter(states, states.index, moves) == Counter(steps)
    visits = visits_of_moves(states.index, moves)
    assert visits.sum() == 4000
    for (key, action), number in Counter((key, action) for key, action, _ in steps).items():
        assert visits[states.numbers[key] * A + action] == number


def test_an_earlier_index_still_reads_earlier_counts():
    """The numbers of a transition and of a state stay what they are, whatever is met afterwards."""
    states, steps = GrowingStateIndex(A), wandering(3000, 300)
    moves = walked(states, steps[:500], np.zeros(0, np.int64)).copy()
    before, keys = states.index, list(states.keys)
    leaves, weights = before.leaves.copy(), before.weights.copy()
    later = walked(states, steps[500:], moves.copy())
    assert states.keys[: len(keys)] == keys
    assert np.array_equal(before.leaves, leaves)
    assert np.array_equal(before.weights, weights)
    assert as_counter(states, before, moves) == Counter(steps[:500])
    assert as_counter(states, states.index, moves) == Counter(steps[:500])  # shorter counts, longer index
    assert as_counter(states, states.index, later) == Counter(steps)


def test_a_new_index_is_made_only_when_something_is_new():
    states, steps = GrowingStateIndex(A), wandering(200, 5)
    moves = walked(states, steps, np.zeros(0, np.int64))
    index = states.index
    walked(states, steps, moves)
    assert states.index is index
    states.note_start(states.numbers[steps[0][0]])
    assert states.index is not index
    again = states.index
    states.note_start(states.numbers[steps[0][0]])
    assert states.index is again
    assert again.roots.tolist() == [states.numbers[steps[0][0]]]


def test_weights_belong_to_keys():
    states = GrowingStateIndex(A, lambda key: np.full(A, float(key)))
    for key in (5, 9, *range(100, 200), 2):
        states.add(key)
    weights = states.index.weights.reshape(-1, A)
    assert weights[:, 0].tolist() == [5.0, 9.0, *map(float, range(100, 200)), 2.0]


def test_an_index_of_nothing():
    states = GrowingStateIndex(A)
    assert states.index.num_pairs == 0
    assert no_moves(states.index).size == 0
    assert visits_of_moves(states.index, no_moves(states.index)).size == 0


def test_what_is_known_of_an_open_world_is_every_state_that_was_met():
    states = GrowingStateIndex(A)
    moves = walked(states, [("a", 0, "b"), ("b", 1, "a"), ("b", 1, "c")], np.zeros(0, np.int64))
    states.note_start(0)
    index = states.index
    frame = Frame(index, None, 2.0, index.weights, None, index.roots, 0)
    known = make_known(frame, moves, met_only=True, smoothing=0.5)
    assert known.states.tolist() == [0, 1, 2]
    assert known.pairs.size == 9
    assert known.estimate.visits.tolist() == [1, 0, 0, 0, 2, 0, 0, 0, 0]


def chain() -> MDP:
    P = np.zeros((2, 2, 2))
    P[0, 0, 1] = P[0, 1, 0] = P[1, 0, 0] = 1.0
    P[1, 1] = 0.5
    return MDP(P)


def test_a_chart_counts_what_its_model_allows_and_refuses_the_rest():
    model = chain()
    states = FixedStateIndex(model, ["left", "right"])
    moves = states.count(np.array([0, 3, 3, 0]), np.array([1, 0, 1, 1]), no_moves(model))
    assert counts_of_moves(model, moves).toarray().tolist() == [[0, 2], [0, 0], [0, 0], [1, 1]]
    for pair, after in ((0, 0), (1, 1), (2, 1)):
        with pytest.raises(EnvironmentFailedError, match="probability 0"):
            states.count(np.array([pair]), np.array([after]), no_moves(model))
    with pytest.raises(EnvironmentFailedError, match=r"middle.*according to its own table"):
        states.add("middle")


def test_naming_asks_the_space_once_for_each_state():
    class Asked(spaces.Discrete):
        times = 0

        def contains(self, x):
            self.times += 1
            return super().contains(x)

    space, states = Asked(7), GrowingStateIndex(A)
    reader = StateReader(space, WholeNumber(7), states)
    for shown in (3, 4, 3, 3, 4, 0):
        reader.number(shown, 0)
    assert space.times == 3
    assert states.keys == [3, 4, 0]


def test_naming_refuses_what_is_outside_of_the_space_though_a_function_names_it():
    reader = StateReader(spaces.Discrete(7), FunctionCode(lambda o: int(o) // 100), GrowingStateIndex(A))
    with pytest.raises(
        EnvironmentFailedError, match=r"after 12 steps.*700.*not in its observation space Discrete\(7\)"
    ):
        reader.number(700, 12)


def test_seeds_are_the_runs_own_then_others_and_far_enough_apart(monkeypatch):
    monkeypatch.setattr("rhocover.collecting.stepping.BETWEEN", 100)
    seeds = Seeds(42)
    given = {step: seeds.next(step) for step in (0, 1, 99, 100, 150, 199, 200, 250, 1000)}
    assert given[0] == 42
    assert [step for step, seed in given.items() if seed is not None] == [0, 100, 200, 1000]
    used = [seed for seed in given.values() if seed is not None]
    assert len(set(used)) == 4
    assert all(0 <= seed < 2**31 for seed in used)
    again = Seeds(42)
    assert [again.next(step) for step in given] == list(given.values())
    other = Seeds(43)
    assert set(used).isdisjoint({other.next(step) for step in given} - {None})


def test_seeds_lead_to_different_episodes():
    env = Ring()
    first = {}
    for seed in range(40):
        env.reset(seed=seed)
        first[seed] = tuple(env.step(0)[0] for _ in range(20))
    assert len(set(first.values())) == 40
