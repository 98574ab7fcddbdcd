"""What was visited, in numbers: the value that the counting wrappers give.

A state is a key of the state code, an action a number 0..A-1, and a pair is what the environment last
returned together with the action it then took. A step either went on, to the state it returned, or ended
the episode; the counts are the sum of both:

    counts[s, a] = sum_s' moves[s*A + a, s'] + ends[s, a].

A time limit cuts an episode but ends nothing: its last transition went on, and is among the moves. What
an environment returns when it terminates is never acted in, so it is no state here. Counts are sums, so
the visits of several environments add up.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover.checks import FloatArray, IntArray, Matrix, frozen, frozen_matrix
from rhocover.coverage import Coverage
from rhocover.errors import InvalidArgumentError


@dataclass(frozen=True, eq=False)
class Visits:
    """Visits to pairs and transitions between states; `visits + visits` adds two of them by key.

    `keys` are sorted if they are whole numbers, otherwise in the order in which they were met.
    """

    keys: tuple[Hashable, ...]  # [S]
    counts: IntArray  # [S, A]
    moves: Matrix  # csr int64 [S*A, S]: transitions that went on, also the last one before a time limit
    ends: IntArray  # [S, A]: how often a pair ended its episode
    starts: IntArray  # [S]: how often an episode began in a state
    num_truncated: int  # episodes that were cut, by a time limit or otherwise, without having ended

    @property
    def num_steps(self) -> int:
        """Steps that were visits; those that only reset are none."""
        return int(self.counts.sum())

    @property
    def num_episodes(self) -> int:
        """Episodes that began."""
        return int(self.starts.sum())

    @property
    def num_pairs(self) -> int:
        """Pairs that were visited at least once."""
        return int(np.count_nonzero(self.counts))

    def as_dict(self) -> dict[tuple[Hashable, int], int]:
        """Returns `{(key, action): count}` of the pairs that were visited."""
        return {
            (self.keys[s], int(a)): int(self.counts[s, a])
            for s, a in zip(*np.nonzero(self.counts), strict=True)
        }

    def divergence(self, rho: float = 2.0, mu: Any = None) -> float:
        """Returns D_rho(mubar || d_hat) over the pairs visited so far; see `worst_ratio`."""
        coverage, d_hat = self._coverage(rho, mu)
        return coverage.divergence(d_hat)

    def worst_ratio(self, mu: Any = None) -> float:
        """Returns max mubar/d_hat over the pairs visited so far, mubar being shared among them.

        A pair that was never visited is in neither number: nothing here knows which pairs there are. Both
        may therefore rise when new pairs join. `mu` is `[S, A]`, row by row for `keys`; None is uniform.
        """
        coverage, d_hat = self._coverage(np.inf, mu)
        return coverage.worst_ratio(d_hat)

    def _coverage(self, rho: float, mu: Any) -> tuple[Coverage, FloatArray]:
        visited = self.counts > 0
        if not visited.any():
            raise InvalidArgumentError("nothing was visited yet: step the environment first.")
        mu = np.ones(self.counts.shape) if mu is None else np.asarray(mu)
        if mu.shape != self.counts.shape:
            raise InvalidArgumentError(f"`mu` must have shape {self.counts.shape}, got {mu.shape}.")
        return Coverage(rho, mu[visited]), self.counts[visited] / self.num_steps

    def __add__(self, other: Visits) -> Visits:
        if self.counts.shape[1:] != other.counts.shape[1:]:
            raise InvalidArgumentError(
                f"visits with {self.counts.shape[1]} and {other.counts.shape[1]} actions cannot be added."
            )
        both = (self, other)
        number = {key: s for s, key in enumerate(ordered(dict.fromkeys((*self.keys, *other.keys))))}
        places = [np.array([number[key] for key in visits.keys], np.int64) for visits in both]
        A = self.counts.shape[1]
        cells = [_cells(visits.moves, place, A) for visits, place in zip(both, places, strict=True)]
        return make_visits(
            list(number),
            _gathered([visits.counts for visits in both], places, len(number)),
            np.concatenate(cells, axis=1),
            _gathered([visits.ends for visits in both], places, len(number)),
            _gathered([visits.starts for visits in both], places, len(number)),
            self.num_truncated + other.num_truncated,
        )


def make_visits(
    keys: Sequence[Hashable],
    counts: IntArray,
    cells: IntArray,
    ends: IntArray,
    starts: IntArray,
    num_truncated: int,
) -> Visits:
    """Returns frozen visits; `cells` `[3, m]` holds row, column and count of the moves, repeats added up."""
    from scipy import sparse

    rows, columns, times = cells
    moves = sparse.coo_array((times, (rows, columns)), shape=(counts.size, len(keys))).tocsr()
    moves.sum_duplicates()
    return Visits(
        tuple(keys), frozen(counts), frozen_matrix(moves), frozen(ends), frozen(starts), int(num_truncated)
    )


def ordered(keys: Any) -> list[Hashable]:
    """Returns whole numbers sorted; other keys as they come."""
    keys = list(keys)
    return sorted(keys) if all(isinstance(key, int | np.integer) for key in keys) else keys


def _gathered(arrays: Sequence[IntArray], places: Sequence[IntArray], num_states: int) -> IntArray:
    """Returns the sum of arrays whose rows are put at their places in `num_states` rows."""
    total = np.zeros((num_states, *arrays[0].shape[1:]), np.int64)
    for array, place in zip(arrays, places, strict=True):
        total[place] += array
    return total


def _cells(moves: Matrix, place: IntArray, num_actions: int) -> IntArray:
    """Returns row, column and count of the moves after state s went to `place[s]`, shape `[3, m]`."""
    cells = moves.tocoo()
    rows, columns = cells.coords
    return np.stack(
        [place[rows // num_actions] * num_actions + rows % num_actions, place[columns], cells.data]
    ).astype(np.int64)
