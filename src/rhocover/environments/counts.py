"""Visit counts that grow with every step of an environment; states are numbered as they are met.

This is the hot path of every wrapper, so it uses plain lists and dictionaries (access to a NumPy element
costs five times as much as to a list element). A `Trajectory` follows one environment and reports its steps
to the counter; several trajectories may share one counter. `tally` returns the counts so far as a value.

`read_weights` gives the weights mu of pairs that are met one by one. `mu` is None (all pairs equal), an
array `[num_keys, A]` (one row per key of the state code), or a function of a key and an action's number. The
weights of a state are read once, when it is first met.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.checks import FloatArray, IntArray
from rhocover.coverage import checked_weights
from rhocover.datasets.states import named_by
from rhocover.datasets.tally import BatchCounts, Tally, rising
from rhocover.environments.encoding.base import ActionCode, StateCode
from rhocover.errors import InvalidArgumentError, parse_text

PIECE = 4096  # steps that are added to the batches together, to spread the cost of a NumPy call over them


class VisitCounter:
    """Counts of pairs, transitions, ends and starts; pair `s*A + a` of state s keeps its number."""

    def __init__(self, code: StateCode, actions: ActionCode, source: str) -> None:
        self.code, self.actions, self._source = code, actions, source
        self.num_actions = actions.num_actions
        self.keys: list[Hashable] = []
        self.counts: list[int] = []  # [S*A]
        self.num_steps = 0
        self.listener: Callable[[int], None] | None = None  # called with each pair, after it was counted
        self._number: dict[Hashable, int] = {}
        self._moves: defaultdict[tuple[int, int], int] = defaultdict(int)
        self._ends: defaultdict[int, int] = defaultdict(int)
        self._starts: defaultdict[int, int] = defaultdict(int)
        self._end_keys: dict[Hashable, None] = {}
        self._num_truncated = 0
        self._batches = BatchCounts(0)
        self._waiting: list[int] = []  # pairs of the steps that are not in a batch yet

    def state(self, key: Hashable) -> int:
        """Returns the number of a state; a new state gets the next number."""
        number = self._number.get(key)
        if number is None:
            number = self._number[key] = len(self.keys)
            self.keys.append(key)
            self.counts += [0] * self.num_actions
        return number

    def number(self, key: Hashable) -> int | None:
        """Returns the number of a state; None if it was not met."""
        return self._number.get(key)

    def start(self, state: int) -> None:
        """Counts an episode that began in `state`."""
        self._starts[state] += 1

    def end_at(self, observation: Any) -> None:
        """Notes an episode's final observation; no action is taken there, so an unreadable one is ignored."""
        with suppress(Exception):
            self._end_keys[self.code.key(observation)] = None

    def visit(self, pair: int, next_state: int | None, *, is_cut: bool = False) -> None:
        """Counts a step that led to `next_state`, or ended its episode (None)."""
        self.counts[pair] += 1
        self.num_steps += 1
        if next_state is None:
            self._ends[pair] += 1
        else:
            self._moves[pair, next_state] += 1
            self._num_truncated += is_cut
        self._waiting.append(pair)
        if len(self._waiting) == PIECE:
            self._fill_batches()
        if self.listener is not None:
            self.listener(pair)

    def tally(self) -> Tally:
        """Returns the counts so far; a start is counted even before its first step."""
        self._fill_batches()
        num_states, num_pairs = len(self.keys), len(self.counts)
        places = np.array(list(self._moves), np.int64).reshape(-1, 2)
        times = np.fromiter(self._moves.values(), np.int64, len(self._moves))
        moves = sp.csr_array((times, (places[:, 0], places[:, 1])), shape=(num_pairs, num_states))
        found = Tally.from_counts(
            self.keys, self.num_actions, moves,
            _dense(self._ends, num_pairs), _dense(self._starts, num_states),
            num_truncated=self._num_truncated,
            batches=self._batches.matrix(), batch_length=self._batches.length,
            action_names=self.actions.names, source=self._source,
            end_keys=rising(key for key in self._end_keys if key not in self._number),
        )  # fmt: skip
        return named_by(self.code, found.over(rising(self.keys)))

    def _fill_batches(self) -> None:
        """Adds the waiting steps to the batches, which are first extended to the pairs met since."""
        num_pairs = len(self.counts)
        self._batches.renumber(np.arange(num_pairs), num_pairs)
        self._batches.add(np.array(self._waiting, np.int64))
        self._waiting.clear()


class Trajectory:
    """Follows one environment: `state` is the state of the observation that it last returned.

    `state` is None between the end of an episode and the next start. A step in between is not a visit, and
    neither is a step that raised: a pair is the last returned observation and the action taken then.
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
        """Counts a step that led to the state of `key`; with `is_cut` the episode was truncated there."""
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


def coverage_numbers(visits: Tally, rho: float, weights: Any) -> dict[str, float]:
    """Returns the numbers that are logged; `weights` is `[S, A]` for the keys of the visits."""
    numbers: dict[str, float] = {"pairs_visited": visits.num_pairs, "states_met": len(visits.keys)}
    if weights[visits.counts > 0].any():  # coverage is undefined as long as no weighted pair was visited
        numbers["divergence"] = visits.divergence(rho, weights)
        numbers["worst_ratio"] = visits.worst_ratio(weights)
    return numbers


# The weights mu.

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
            parse_text("as an array needs numbered states, but `states` is a function or too large a grid"),
            remedy=parse_text("Pass `mu` as a function of (key, action)."),
        )
    table = checked_weights(checks.float_array(mu, "mu", (code.num_keys, num_actions)), "mu").copy()
    first = code.every_key.start
    return lambda key: table[key - first]  # type: ignore[operator]  # numbered keys are whole numbers


def plain(value: Any) -> Any:
    """Returns an array as nested lists, and everything else unchanged.

    The recorded arguments of a wrapper are copied, compared and written to JSON, and comparing arrays with ==
    does not give one truth value.
    """
    return value.tolist() if isinstance(value, np.ndarray) else value


def _checked(weight: Any, key: Hashable, action: int) -> float:
    value = checks.number(weight, f"mu({key!r}, {action})")
    if not 0 <= value < np.inf:
        raise InvalidArgumentError.of(
            "mu", "must be non-negative and finite", f"mu({key!r}, {action}) = {value:g}"
        )
    return value
