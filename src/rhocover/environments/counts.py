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

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, IntArray, Matrix, frozen, frozen_matrix
from rhocover.coverage import Coverage, checked_weights
from rhocover.environments.encoding.base import StateCode
from rhocover.errors import InvalidArgumentError, parse_text


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
            raise InvalidArgumentError.of("mu", f"must have shape {self.counts.shape}", f"{mu.shape}")
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


# Counts that grow: states get their numbers as they are met.
#
# The hot path of every wrapper, so it is made of plain lists and dictionaries (a NumPy element costs five
# times a list's). A `Trajectory` follows one environment and tells the counter what happened; several
# trajectories may share one counter.


class VisitCounter:
    """Counts of pairs, moves, ends and starts; pair `s*A + a` of state number s keeps its number for ever."""

    def __init__(self, num_actions: int) -> None:
        self.num_actions = num_actions
        self.keys: list[Hashable] = []
        self.counts: list[int] = []  # [S*A]
        self.num_steps = 0
        self.listener: Callable[[int], None] | None = None  # told of each pair, just after it was counted
        self._number: dict[Hashable, int] = {}
        self._moves: defaultdict[tuple[int, int], int] = defaultdict(int)
        self._ends: defaultdict[int, int] = defaultdict(int)
        self._starts: defaultdict[int, int] = defaultdict(int)
        self._num_truncated = 0

    def state(self, key: Hashable) -> int:
        """Returns the number of the state, a new one if it was not met before."""
        number = self._number.get(key)
        if number is None:
            number = self._number[key] = len(self.keys)
            self.keys.append(key)
            self.counts += [0] * self.num_actions
        return number

    def start(self, state: int) -> None:
        """Counts an episode that began in `state`."""
        self._starts[state] += 1

    def visit(self, pair: int, next_state: int | None, *, is_cut: bool = False) -> None:
        """Counts a step that went on to `next_state`, or ended its episode (None)."""
        self.counts[pair] += 1
        self.num_steps += 1
        if next_state is None:
            self._ends[pair] += 1
        else:
            self._moves[pair, next_state] += 1
            self._num_truncated += is_cut
        if self.listener is not None:
            self.listener(pair)

    def visits(self) -> Visits:
        """Returns what was counted so far, as a value."""
        keys = ordered(self.keys)
        met = np.array(
            [self._number[key] for key in keys], np.int64
        )  # the numbers of the keys, in their order
        place = np.empty(len(keys), np.int64)
        place[met] = np.arange(len(keys))
        A = self.num_actions
        cells = np.array([(p, s, n) for (p, s), n in self._moves.items()], np.int64).reshape(-1, 3).T
        cells = np.stack([place[cells[0] // A] * A + cells[0] % A, place[cells[1]], cells[2]])
        counts = np.array(self.counts, np.int64).reshape(-1, A)[met]
        ends = _dense(self._ends, len(keys) * A).reshape(-1, A)[met]
        return make_visits(
            keys, counts, cells, ends, _dense(self._starts, len(keys))[met], self._num_truncated
        )


class Trajectory:
    """Where one environment is, as far as it told: the state of the observation it last returned.

    `state` is None between an end and the next start. A step in that time is no visit, and neither is one
    that raised: the pair is what was last returned and the action that was then taken.
    """

    def __init__(self, counter: VisitCounter) -> None:
        self.counter = counter
        self.state: int | None = None

    def start(self, key: Hashable) -> None:
        """Begins an episode in the state of `key`."""
        self.state = self.counter.state(key)
        self.counter.start(self.state)

    def pair(self, action: int) -> int | None:
        """Returns the pair that a step with `action` would visit; None if it would visit none."""
        return None if self.state is None else self.state * self.counter.num_actions + action

    def move(self, pair: int, key: Hashable, *, is_cut: bool = False) -> None:
        """Counts a step that went on to the state of `key`; with `is_cut` the episode stopped there."""
        next_state = self.counter.state(key)
        self.counter.visit(pair, next_state, is_cut=is_cut)
        self.state = None if is_cut else next_state

    def end(self, pair: int) -> None:
        """Counts a step that ended the episode."""
        self.counter.visit(pair, None)
        self.state = None


def _dense(counts: dict[int, int], length: int) -> IntArray:
    array = np.zeros(length, np.int64)
    array[list(counts)] = list(counts.values())
    return array


# The weights mu of pairs that are met one by one.
#
# `mu` is None (every pair the same), an array `[num_keys, A]` (row by row for the keys of the state code),
# or a function of a key and an action's number. Weights are looked at when a state is first met, once.

WeightRow = Callable[[Hashable], FloatArray]


def read_weights(mu: Any, code: StateCode, num_actions: int) -> WeightRow:
    """Returns the function from a key to the weights `[A]` of its pairs."""
    if mu is None:
        return lambda _: np.ones(num_actions)
    if callable(mu):
        return lambda key: np.array([_checked(mu(key, a), key, a) for a in range(num_actions)])
    if code.every_key is None:
        raise InvalidArgumentError.of(
            "mu",
            parse_text(
                "as an array needs states that are numbered; `states` is a function, or too large a grid"
            ),
            remedy=parse_text("Pass `mu` as a function of (key, action)."),
        )
    table = checked_weights(checks.float_array(mu, "mu", (code.num_keys, num_actions)), "mu").copy()
    first = code.every_key.start
    return lambda key: table[key - first]  # type: ignore[operator]  # numbered keys are whole numbers


def plain(value: Any) -> Any:
    """Returns an array as nested lists; everything else as it is.

    What a wrapper says of its arguments is copied, compared and written to JSON; arrays do not compare.
    """
    return value.tolist() if isinstance(value, np.ndarray) else value


def _checked(weight: Any, key: Hashable, action: int) -> float:
    value = checks.number(weight, f"mu({key!r}, {action})")
    if not 0 <= value < np.inf:
        raise InvalidArgumentError.of(
            "mu", "must be non-negative and finite", f"mu({key!r}, {action}) = {value:g}"
        )
    return value
