"""Which state of ours an observation is: a chart of a known model, or an atlas that grows.

Both number the keys of states (see `adapters.codes`) and count transitions. A `Chart` knows all states of a
model and refuses what its table rules out. An `Atlas` gives numbers as states are met: state k has the pairs
kA, ..., kA + A - 1, and numbers stay what they are.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

import numpy as np

from rhocover.checks import FloatArray, IntArray
from rhocover.errors import EnvironmentFailedError, parse_text
from rhocover.exploring.index import Index, OpenIndex
from rhocover.mdp import MDP

LEAST_ROOM = 64  # states to make room for at first


class Map(Protocol):
    """Numbers of states and transitions."""

    numbers: dict[Hashable, int]  # of the keys known so far

    @property
    def index(self) -> Index:
        """What the numbers mean now."""
        ...

    def meet(self, key: Hashable) -> int:
        """Returns the number of a key that has none yet; refuses one that cannot be."""
        ...

    def begins(self, state: int) -> None:
        """Takes note that an episode began in a state."""
        ...

    def count(self, pairs: IntArray, nexts: IntArray, moves: IntArray) -> IntArray:
        """Returns `moves`, longer perhaps, with these transitions added."""
        ...


class Chart:
    """The states of a model; `keys` are theirs, by number."""

    def __init__(self, model: MDP, keys: Sequence[Hashable]) -> None:
        self.index: MDP = model
        self.numbers: dict[Hashable, int] = {key: number for number, key in enumerate(keys)}
        P, S = model.transitions, model.num_states
        rows = np.repeat(np.arange(model.num_pairs), np.diff(P.indptr))
        self._codes = rows * S + P.indices  # sorted: rows are, and indices within them
        self._order = np.argsort(self._codes)
        self._codes = self._codes[self._order]

    def meet(self, key: Hashable) -> int:
        """Refuses a state that the table says is never met."""
        raise EnvironmentFailedError(
            parse_text(
                f"the environment is in state {key}, which its own table says cannot be reached. Learn the "
                'dynamics instead of trusting the table: `model="learned"`.'
            )
        )

    def begins(self, state: int) -> None:
        """Forgets it: the table says where episodes begin."""

    def count(self, pairs: IntArray, nexts: IntArray, moves: IntArray) -> IntArray:
        """Returns `moves` with these transitions added; refuses those that the table rules out."""
        codes = pairs * self.index.num_states + nexts
        place = np.minimum(np.searchsorted(self._codes, codes), self._codes.size - 1)
        wrong = np.flatnonzero(self._codes[place] != codes)
        if wrong.size:
            pair, state = int(pairs[wrong[0]]), int(nexts[wrong[0]])
            raise EnvironmentFailedError(
                parse_text(
                    f"the environment went from {self.index.pair_name(pair)} to state {state}, which its own "
                    'table gives probability 0. Learn the dynamics instead of trusting it: `model="learned"`.'
                )
            )
        np.add.at(moves, self._order[place], 1)
        return moves


class Atlas:
    """The states met so far, each with the same actions; `weights` says the weight of a key's pairs."""

    def __init__(self, num_actions: int, weights: Any = None, name: str = "") -> None:
        self.num_actions = num_actions
        self.numbers: dict[Hashable, int] = {}
        self.keys: list[Hashable] = []
        self._weigh, self._weights, self.name = weights, np.zeros((LEAST_ROOM, num_actions)), name
        self._transitions: dict[tuple[int, int], int] = {}
        self._leaves, self._arrives = np.zeros(LEAST_ROOM, np.int64), np.zeros(LEAST_ROOM, np.int64)
        self._roots: set[int] = set()
        self._index: OpenIndex | None = None

    def meet(self, key: Hashable) -> int:
        """Returns the next number, which is the key's from now on."""
        number = len(self.keys)
        self.numbers[key] = number
        self.keys.append(key)
        self._weights = _roomy(self._weights, number + 1)
        self._weights[number] = 1.0 if self._weigh is None else self._weigh(key)
        self._index = None
        return number

    @property
    def index(self) -> OpenIndex:
        """The states and transitions of now; arrays are shared, and only ever get longer."""
        if self._index is None:
            S, k = len(self.keys), len(self._transitions)
            weights: FloatArray = self._weights[:S].ravel()
            leaves, arrives = self._leaves[:k], self._arrives[:k]
            roots = np.array(sorted(self._roots), np.int64)
            self._index = OpenIndex(S, self.num_actions, leaves, arrives, weights, roots, self.name)
        return self._index

    def begins(self, state: int) -> None:
        """Takes note that an episode began in a state."""
        if state not in self._roots:
            self._roots.add(state)
            self._index = None

    def count(self, pairs: IntArray, nexts: IntArray, moves: IntArray) -> IntArray:
        """Returns `moves` with these transitions added, longer where some are new."""
        S = len(self.keys)
        codes, counts = np.unique(pairs * S + nexts, return_counts=True)
        numbers = np.array([self._number(*divmod(code, S)) for code in codes.tolist()], np.int64)
        if moves.size < len(self._transitions):
            moves = np.concatenate([moves, np.zeros(len(self._transitions) - moves.size, np.int64)])
        moves[numbers] += counts
        return moves

    def recall(self, pairs: IntArray, nexts: IntArray, counts: IntArray) -> IntArray:
        """Returns the counts of transitions that were seen before the first step."""
        numbers = [
            self._number(pair, state) for pair, state in zip(pairs.tolist(), nexts.tolist(), strict=True)
        ]
        moves = np.zeros(len(self._transitions), np.int64)
        np.add.at(moves, np.array(numbers, np.int64), counts)
        return moves

    def _number(self, pair: int, state: int) -> int:
        """Returns the number of a transition, a new one at the first time."""
        number = self._transitions.setdefault((pair, state), len(self._transitions))
        if number >= self._leaves.size:
            self._leaves, self._arrives = (_roomy(a, number + 1) for a in (self._leaves, self._arrives))
        if self._index is not None and number >= self._index.leaves.size:
            self._index = None
        self._leaves[number], self._arrives[number] = pair, state
        return number


def _roomy(array: Any, size: int) -> Any:
    """Returns the array, or a copy with room for twice as many rows; rows beyond are zero."""
    if array.shape[0] >= size:
        return array
    larger = np.zeros((2 * size, *array.shape[1:]), array.dtype)
    larger[: array.shape[0]] = array
    return larger
