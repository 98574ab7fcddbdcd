"""Tallies: the counts of a data set, a run or an environment.

A tally is all that an audit needs, independent of how the data were collected: transitions within episodes,
ends of episodes, and starts. With A actions, pair (s, a) has row s*A + a, and its visit count is

    counts[s, a] = sum_s' moves[s*A + a, s'] + ends[s*A + a].

A time limit is not an end: the environment could have continued from the state after it, so the transition
counts like any other. No action is ever taken in the state after a true end, so it is not a state of the
tally unless it was met elsewhere.

Tallies of the same environment can be added; states are matched by their keys. `BatchCounts` counts the
visits in consecutive batches of a stream, for error bars.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.checks import FloatArray, IntArray, Matrix, frozen, frozen_matrix
from rhocover.coverage import Coverage
from rhocover.errors import InvalidArgumentError, InvalidDataError
from rhocover.layout import Layout
from rhocover.learning.codes import Coded, joined_codes
from rhocover.showing import Shown

# Counts of consecutive batches of equal length, at most 63 of them however long the stream gets.

MOST = 64  # batches; before this many are full, their length doubles
FEW = 4  # a segment that is smaller than the counts by this factor is added one by one

SparseCounts = tuple[Any, Any]  # numbers in order, and how often each occurs


class SparseRows:
    """Sparse counts one after the other, in two arrays that grow where they are: there is no second copy.

    `matrix` returns a view of the arrays. After that, the next change copies the arrays first.
    """

    def __init__(self, kind: Any = np.int32) -> None:
        self._parts = np.empty(0, kind), np.empty(0, kind)  # numbers and counts
        self._first = [0]  # where each row begins, and where the last one ends
        self._is_lent = False

    def __len__(self) -> int:
        return len(self._first) - 1

    def append(self, counts: SparseCounts) -> None:
        """Adds a row."""
        self._own()
        begin, end = self._first[-1], self._first[-1] + counts[0].size
        if end > self._parts[0].size:
            for part in self._parts:
                part.resize(end + end // 8, refcheck=False)  # nobody else has a view of it
        for part, values in zip(self._parts, counts, strict=True):
            part[begin:end] = values
        self._first.append(end)

    def pop(self) -> SparseCounts:
        """Returns the last row, which is removed."""
        found = self._row(len(self) - 1)
        self._first.pop()
        return found

    def renumber(self, new: IntArray) -> None:
        """Gives number i the number `new[i]`; the order stays the same."""
        self._own()
        for k in range(len(self)):
            numbers, _ = self._row(k)
            numbers[:] = new[numbers]

    def join(self, begin: int) -> None:
        """Joins the rows from `begin` on with their neighbours, two by two."""
        self._own()
        ends = self._first[begin:]
        self._first = self._first[: begin + 1]
        for low, middle, high in zip(ends[:-2:2], ends[1::2], ends[2::2], strict=True):
            numbers, counts = (part[low:high] for part in self._parts)
            k = middle - low
            self.append(_joined((numbers[:k], counts[:k]), (numbers[k:], counts[k:])))

    def as_kind(self, kind: Any) -> SparseRows:
        """Returns the same rows in arrays of another type; itself if they have it."""
        if self._parts[0].dtype == kind:
            return self
        other = SparseRows(kind)
        for k in range(len(self)):
            other.append(self._row(k))
        return other

    def matrix(self, num_columns: int) -> Matrix:
        """Returns the counts, csr `[K, n]`."""
        self._is_lent = True
        first, end = np.array(self._first), self._first[-1]
        numbers, counts = (part[:end] for part in self._parts)
        if end <= np.iinfo(str(numbers.dtype)).max:  # otherwise SciPy copies the columns to a wider type
            first = first.astype(numbers.dtype)
        return sp.csr_array((counts, numbers, first), shape=(len(self), num_columns))

    def _row(self, k: int) -> SparseCounts:
        begin, end = self._first[k], self._first[k + 1]
        return self._parts[0][begin:end], self._parts[1][begin:end]

    def _own(self) -> None:
        if self._is_lent:
            numbers, counts = self._parts
            self._parts, self._is_lent = (numbers.copy(), counts.copy()), False


class BatchCounts:
    """Counts of consecutive batches of equal length: `add` steps, then read `matrix` and `length`.

    The share of a pair among T steps is a mean of dependent numbers, so its error is not sqrt(p(1-p)/T). The
    means over long batches are almost independent, and their spread gives a valid error (batch means,
    Schmeiser 1982). The length of a stream is not known in advance: batches have length 1 at first, and when
    64 would be full, neighbours are joined and the length doubles. There are then always 32 to 63 of them,
    and their length is a power of two that does not depend on the pieces in which the stream arrived. Steps
    after the last full batch are left out. Pairs are just numbers 0..n-1 here.

    If at least `num_steps` steps will be added, short batches need not be made first; the result is the same.
    If the steps are those of a longer stream from `first_row` on, batches begin where those of the stream do,
    and `all` has them with the number of the first.
    """

    def __init__(self, num_pairs: int, num_steps: int = 0, first_row: int = 0) -> None:
        self.length = 1
        while num_steps // self.length >= MOST:
            self.length *= 2
        self.current = np.zeros(num_pairs, np.int64)  # the counts of the batch that is being filled
        self._full = SparseRows(kind_of_counts(self.length, num_pairs))
        self._number = first_row // self.length  # of the first batch
        self._filled = first_row % self.length  # rows of the stream in the batch that is being filled
        self._total = 0

    def add(self, pairs: IntArray) -> None:
        """Adds the next steps of the stream, given by their pairs, `[T]`."""
        done = 0
        for stop in self.stops(pairs.size):
            segment, done = pairs[done:stop], stop
            is_short = FEW * segment.size < self.current.size
            if is_short:
                np.add.at(self.current, segment, 1)
            else:
                self.current += np.bincount(segment, minlength=self.current.size)
            self.counted(segment.size, segment.copy)

    def stops(self, num_steps: int) -> Iterator[int]:
        """Yields where the next steps must be divided: add each part to `current` and call `counted`."""
        self._total += num_steps
        while self._total // self.length >= MOST:
            self._double()
        done = 0
        while done < num_steps:
            done = min(num_steps, done + self.length - self._filled)
            yield done

    def counted(self, num_steps: int, pairs: Callable[[], IntArray]) -> None:
        """Takes note of steps that were added to `current`; their batch is stored if it is full.

        `pairs` returns the pairs of these steps, which are needed only if they are few.
        """
        self._filled += num_steps
        if self._filled < self.length:
            return
        if num_steps == self.length and FEW * num_steps < self.current.size:  # no need to scan all pairs
            numbers, _ = counted(np.sort(pairs()))
        else:
            numbers = np.flatnonzero(self.current != 0)  # a bool array, for which NumPy is faster
        self._full.append(self._taken(numbers))
        self.current[numbers] = 0
        self._filled = 0

    def matrix(self) -> Matrix:
        """Returns the counts of the full batches in order, csr `[K, n]`."""
        return self._full.matrix(self.current.size)

    def all(self) -> tuple[int, Matrix]:
        """Returns the number of the first batch in the stream, and all batches, also the last one."""
        numbers = np.flatnonzero(self.current != 0)
        if not numbers.size:
            return self._number, self.matrix()
        self._full.append(self._taken(numbers))
        found = self.matrix()
        self._full.pop()
        return self._number, found

    def renumber(self, new: IntArray, num_pairs: int) -> None:
        """Gives pair i the number `new[i]` of `num_pairs`; the order stays the same."""
        self._full = self._full.as_kind(kind_of_counts(self.length, num_pairs))
        self._full.renumber(new)
        current, self.current = self.current, np.zeros(num_pairs, np.int64)
        self.current[new[: current.size]] = current

    def _taken(self, numbers: IntArray) -> SparseCounts:
        """Returns the counts of these pairs in the current batch."""
        kind = kind_of_counts(self.length, self.current.size)
        return numbers.astype(kind), self.current[numbers].astype(kind)

    def _double(self) -> None:
        """Joins batches 2k and 2k + 1; one whose neighbour is not full begins the current batch."""
        if (self._number + len(self._full)) % 2:
            self._filled += self.length
            if self._full:
                numbers, counts = self._full.pop()
                self.current[numbers] += counts
        self.length *= 2
        self._full = self._full.as_kind(kind_of_counts(self.length, self.current.size))
        self._full.join(self._number % 2 if len(self._full) else 0)
        self._number //= 2


def kind_of_counts(length: int, num_pairs: int) -> Any:
    """Returns the type that holds numbers of pairs and counts of a batch, and the sum of two of them."""
    return np.int32 if max(length, num_pairs) < 2**30 else np.int64


def _joined(a: SparseCounts, b: SparseCounts) -> SparseCounts:
    """Returns the sum of two counts."""
    numbers, counts = np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]])
    return sum_by_number(numbers, counts)


def sum_by_number(numbers: IntArray, counts: IntArray) -> SparseCounts:
    """Returns the distinct numbers in order, and the sum of the counts of each."""
    if not numbers.size:
        return numbers, counts
    order = np.argsort(numbers, kind="stable")  # which only merges sorted runs
    numbers, counts = numbers[order], counts[order]
    first = first_of_each(numbers)
    return numbers[first], np.add.reduceat(counts, first)


def counted(numbers: IntArray) -> SparseCounts:
    """Returns the distinct ones of sorted numbers, and how often each occurs."""
    first = first_of_each(numbers)
    return numbers[first], np.diff(first, append=numbers.size)


def first_of_each(numbers: IntArray) -> IntArray:
    """Returns the indices at which a new number begins, among sorted ones."""
    is_new = np.ones(numbers.size, bool)
    np.not_equal(numbers[1:], numbers[:-1], out=is_new[1:])
    return np.flatnonzero(is_new)


def some_rows(batches: Matrix, first: int, last: int) -> Matrix:
    """Returns rows first..last-1 without copying their entries, which SciPy's slices would do."""
    begin, end = batches.indptr[first], batches.indptr[last]
    rows = batches.data[begin:end], batches.indices[begin:end], batches.indptr[first : last + 1] - begin
    return sp.csr_array(rows, shape=(last - first, batches.shape[1]))


def joined_batches(a: Matrix, length_a: int, b: Matrix, length_b: int) -> tuple[Matrix, int]:
    """Returns the batches of one stream followed by another, with a common length, and that length."""
    a, length_a = _lengthened(a, length_a, length_b)
    b, length_b = _lengthened(b, length_b, length_a)
    both: Matrix = sp.csr_array(sp.vstack([a, b], format="csr"))
    while both.shape[0] >= MOST:
        both, length_a = _halved(both), 2 * length_a
    return both, length_a


def _lengthened(batches: Matrix, length: int, least: int) -> tuple[Matrix, int]:
    while length < least:
        batches, length = _halved(batches), 2 * length
    return batches, length


def _halved(batches: Matrix) -> Matrix:
    """Returns the sums of neighbouring batches; a last one without a neighbour is left out."""
    K = batches.shape[0] // 2
    pairs = sp.csr_array((np.ones(2 * K, np.int64), np.arange(2 * K), np.arange(0, 2 * K + 1, 2)),
                         shape=(K, batches.shape[0]))  # fmt: skip
    return sp.csr_array(pairs @ batches)


# The tally.


@dataclass(frozen=True, eq=False)
class Tally(Shown):
    """Counts of a data set over the states that were met; row `s*A + a` is action a in state s."""

    keys: tuple[Hashable, ...]  # the key of each state in the data [S]
    num_actions: int
    moves: Matrix  # csr int64 [S*A, S]: transitions within episodes, including those before a time limit
    ends: IntArray  # [S*A]: how often a pair ended its episode
    starts: IntArray  # [S]: how often an episode began in a state
    num_steps: int
    num_episodes: int
    num_truncated: int  # episodes that were cut off, not ended
    batches: Matrix  # csr integers [K, S*A]: visits in consecutive batches of equal length
    batch_length: int
    num_jumps: int = 0  # rows whose state is not the next state of the row before, without an end between
    end_keys: tuple[Hashable, ...] = ()  # states that were only met as the end of an episode
    state_names: tuple[str, ...] | None = None
    action_names: tuple[str, ...] | None = None
    layout: Layout | None = None
    source: str = "the data"  # its name in texts
    declared: Any = None  # a datasets.states.Declared: the possible states; None if unknown
    coded: Coded | None = None  # what is known of the code of its states; None if they are numbers already
    remarks: tuple[str, ...] = ()  # what readers of its figures should know about how it was read

    @classmethod
    def from_counts(
        cls,
        keys: Sequence[Hashable],
        num_actions: int,
        moves: Any,
        ends: Any,
        starts: Any,
        *,
        num_episodes: int | None = None,
        num_truncated: int = 0,
        batches: Any = None,
        batch_length: int = 1,
        **names: Any,
    ) -> Tally:
        """Returns the tally of given counts: `moves` `[S*A, S]`, `ends` `[S*A]`, `starts` `[S]`.

        `batches` `[K, S*A]` are the visits in consecutive batches of `batch_length` steps; without them there
        are no error bars. `names` are other fields of the tally, such as names of states and actions.
        """
        S, A = len(keys), checks.integer(num_actions, "num_actions", least=1)
        moves = _counts_matrix(moves, "moves", (S * A, S))
        ends, starts = _counts_array(ends, "ends", S * A), _counts_array(starts, "starts", S)
        batches = sp.csr_array((0, S * A), dtype=np.int64) if batches is None else batches
        return cls(
            keys=tuple(keys),
            num_actions=A,
            moves=frozen_matrix(moves),
            ends=frozen(ends),
            starts=frozen(starts),
            num_steps=int(moves.sum() + ends.sum()),
            num_episodes=int(starts.sum()) if num_episodes is None else int(num_episodes),
            num_truncated=int(num_truncated),
            batches=frozen_matrix(_counts_matrix(batches, "batches", (batches.shape[0], S * A))),
            batch_length=int(batch_length),
            **names,
        )

    @property
    def num_states(self) -> int:
        """How many states have rows, without ends: those that were met, or all given to `over`."""
        return len(self.keys)

    @cached_property
    def met_keys(self) -> tuple[Hashable, ...]:
        """The states that were met: as the state of a step, as a start, or as a next state."""
        is_met = self.counts.any(axis=1) | (self.starts > 0)
        is_met[self.moves.indices] = True
        return tuple(self.keys[state] for state in np.flatnonzero(is_met))

    @cached_property
    def counts(self) -> IntArray:
        """How often each pair was visited, `[S, A]`."""
        total = np.asarray(self.moves.sum(axis=1)).ravel().astype(np.int64) + self.ends
        return frozen(total.reshape(self.num_states, self.num_actions))

    @property
    def num_pairs(self) -> int:
        """Pairs that were visited at least once."""
        return int(np.count_nonzero(self.counts))

    def as_dict(self) -> dict[tuple[Hashable, int], int]:
        """Returns `{(key, action): count}` of the pairs that were visited."""
        pairs = zip(*(place.tolist() for place in np.nonzero(self.counts)), strict=True)
        return {(self.keys[s], a): int(self.counts[s, a]) for s, a in pairs}

    def divergence(self, rho: float = 2.0, mu: Any = None) -> float:
        """Returns D_rho(mubar || d_hat) over the pairs visited so far; see `worst_ratio`."""
        coverage, d_hat = self._coverage(rho, mu)
        return coverage.divergence(d_hat)

    def worst_ratio(self, mu: Any = None) -> float:
        """Returns max mubar/d_hat over the pairs visited so far, with mubar normalised over them.

        Pairs that were never visited are in neither number, so both may rise when new pairs are added;
        `audit` also counts what is missing. `mu` is `[S, A]`, one row per entry of `keys`; None is uniform.
        """
        coverage, d_hat = self._coverage(np.inf, mu)
        return coverage.worst_ratio(d_hat)

    def _coverage(self, rho: float, mu: Any) -> tuple[Coverage, FloatArray]:
        visited = self.counts > 0
        if not visited.any():
            raise InvalidArgumentError("nothing was visited yet: step the environment first.")
        mu = np.ones(self.counts.shape) if mu is None else np.asarray(mu)
        checks.check_shape(mu.shape, "mu", self.counts.shape)
        return Coverage(rho, mu[visited]), self.counts[visited] / self.num_steps

    @cached_property
    def number_of(self) -> dict[Hashable, int]:
        """The number of each key."""
        return {key: number for number, key in enumerate(self.keys)}

    def state_name(self, state: int) -> str:
        """Returns the name of a state."""
        return self.state_names[state] if self.state_names else str(self.keys[state])

    def pair_name(self, pair: int) -> str:
        """Returns `(3, left)`: state and action of row `s*A + a`."""
        state, action = divmod(int(pair), self.num_actions)
        return f"({self.state_name(state)}, {self.action_names[action] if self.action_names else action})"

    def digest(self) -> str:
        """Returns the SHA-256 of all counts and of the keys, as 64 hexadecimal digits.

        Tallies with the same digest have the same counts of the same states in the same order, batches
        included. Names, positions and remarks are not part of it. Keys that are not integers count as text.

        >>> Tally.from_counts([0], 1, [[2]], [0], [1]).digest()[:8]
        '23f1d899'
        """
        found = hashlib.sha256()
        for key in (*self.keys, "ends", *self.end_keys):
            found.update(f"{int(key) if isinstance(key, int | np.integer) else repr(key)}\n".encode())
        numbers = [
            self.num_actions, self.num_steps, self.num_episodes, self.num_truncated, self.num_jumps,
            self.batch_length,
        ]  # fmt: skip
        matrices = [part for m in (self.moves, self.batches) for part in (m.indptr, m.indices, m.data)]
        for part in (np.array(numbers), self.ends, self.starts, *matrices):
            found.update(f"{part.size}\n".encode())
            found.update(np.ascontiguousarray(part, "<i8").view(np.uint8).data)
        return found.hexdigest()

    def over(self, keys: Sequence[Hashable], state_names: Sequence[str] | None = None) -> Tally:
        """Returns the same counts over `keys`, in their order, which must contain all states of the tally."""
        keys = tuple(keys)
        if keys == self.keys:
            return self if state_names is None else replace(self, state_names=tuple(state_names))
        place = {key: number for number, key in enumerate(keys)}
        lost = [key for key in self.keys if key not in place]
        if lost:
            raise InvalidArgumentError.of(
                "keys", f"must contain every state met; missing: {checks.name_some(lost)}"
            )
        new = np.array([place[key] for key in self.keys], np.int64)
        return replace(
            self, keys=keys, **_moved(self, new, len(keys)), layout=None,
            end_keys=tuple(key for key in self.end_keys if key not in place),
            state_names=None if state_names is None else tuple(state_names),
        )  # fmt: skip

    def with_actions(self, new: IntArray, names: Sequence[str]) -> Tally:
        """Returns the same counts with action a renumbered to `new[a]`; `names` are those of all actions."""
        kept = np.arange(self.num_states)
        moved = _moved(self, kept, self.num_states, new, len(names))
        return replace(self, num_actions=len(names), action_names=tuple(names), **moved)

    def __add__(self, other: Tally) -> Tally:
        """Returns the tally of both data sets, one after the other; a new episode begins with the second.

        Ranges of one stream are merged instead: see `rhocover.datasets.merged`.
        """
        if not isinstance(other, Tally):
            return NotImplemented
        if other.num_actions != self.num_actions:
            raise InvalidDataError(
                f"tallies with {self.num_actions} and {other.num_actions} actions cannot be added: they "
                "belong to different environments. If not, pass num_actions= when they are read."
            )
        mine, theirs = _over_the_same_keys(self, other)
        batches, length = joined_batches(mine.batches, mine.batch_length, theirs.batches, theirs.batch_length)
        return replace(
            mine,
            moves=frozen_matrix(sp.csr_array(mine.moves + theirs.moves)),
            ends=frozen(mine.ends + theirs.ends),
            starts=frozen(mine.starts + theirs.starts),
            num_steps=mine.num_steps + theirs.num_steps,
            num_episodes=mine.num_episodes + theirs.num_episodes,
            num_truncated=mine.num_truncated + theirs.num_truncated,
            num_jumps=mine.num_jumps + theirs.num_jumps,
            batches=frozen_matrix(batches),
            batch_length=length,
            end_keys=tuple(dict.fromkeys((*mine.end_keys, *theirs.end_keys))),
            declared=_larger(mine.declared, theirs.declared),
            coded=joined_codes(mine.coded, theirs.coded),
            remarks=tuple(dict.fromkeys((*mine.remarks, *theirs.remarks))),
        )


def first_steps(tally: Tally) -> IntArray:
    """Returns when each state that was met was first visited: the first step of that batch.

    States that were visited only after the last full batch, or never, count as met at the last step.
    """
    A, met = tally.num_actions, set(tally.met_keys)
    first = np.full(tally.num_states, max(tally.num_steps - 1, 0))
    batches = tally.batches.tocoo()
    np.minimum.at(first, batches.coords[1] // A, batches.coords[0].astype(np.int64) * tally.batch_length)
    return first[[key in met for key in tally.keys]]


def _over_the_same_keys(a: Tally, b: Tally) -> tuple[Tally, Tally]:
    """Returns both tallies over the union of their keys: ascending if theirs are, else those of `a` first."""
    if a.keys == b.keys:
        return a, b
    fresh = [number for number, key in enumerate(b.keys) if key not in a.number_of]
    joined = (*a.keys, *(b.keys[number] for number in fresh))
    is_rising = a.keys == rising(a.keys) and b.keys == rising(b.keys)
    keys = rising(joined) if is_rising else joined
    place = {key: number for number, key in enumerate(joined)}
    order = [place[key] for key in keys]
    names = None
    if a.state_names is not None and b.state_names is not None:
        both = (*a.state_names, *(b.state_names[number] for number in fresh))
        names = [both[number] for number in order]
    return replace(a.over(keys, names), layout=_joined_layout(a, b, fresh, order)), b.over(keys, names)


def _joined_layout(a: Tally, b: Tally, fresh: list[int], order: list[int]) -> Layout | None:
    """Returns the positions of the states of `a` and the `fresh` ones of `b`, in `order`; None if unknown."""
    if a.layout is None or (b.layout is None and fresh):
        return None
    positions = a.layout.positions
    if b.layout is not None:
        positions = np.vstack([positions, b.layout.positions[fresh]])
    return Layout(positions[order], a.layout.directions, a.layout.rulers)


def rising(keys: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """Returns integers in ascending order, and other keys in their order."""
    keys = tuple(keys)
    is_number = all(isinstance(key, int | np.integer) for key in keys)
    return tuple(sorted(keys)) if is_number else keys  # type: ignore[type-var]


def _larger(a: Any, b: Any) -> Any:
    """Returns the larger of two sets of declared states; None stands for no set."""
    return b if a is None or (b is not None and len(b.keys) > len(a.keys)) else a


def _moved(
    tally: Tally, new: IntArray, num_states: int, new_action: IntArray | None = None, num_actions: int = 0
) -> dict[str, Any]:
    """Returns the counts of a tally with state s renumbered to `new[s]` of `num_states`.

    With `new_action`, actions are renumbered in the same way.
    """
    if new_action is None:
        new_action, num_actions = np.arange(tally.num_actions), tally.num_actions
    pair = (new[:, None] * num_actions + new_action).ravel()
    num_pairs = num_states * num_actions
    moves, batches = tally.moves.tocoo(), tally.batches.tocoo()
    rows, columns = pair[moves.coords[0]], new[moves.coords[1]]
    ends, starts = np.zeros(num_pairs, np.int64), np.zeros(num_states, np.int64)
    ends[pair], starts[new] = tally.ends, tally.starts
    moved = sp.csr_array((moves.data, (rows, columns)), shape=(num_pairs, num_states))
    stretches = sp.csr_array((batches.data, (batches.coords[0], pair[batches.coords[1]])),
                             shape=(batches.shape[0], num_pairs))  # fmt: skip
    return {
        "moves": frozen_matrix(moved),
        "ends": frozen(ends),
        "starts": frozen(starts),
        "batches": frozen_matrix(stretches),
    }  # fmt: skip


def _counts_array(values: Any, name: str, length: int) -> IntArray:
    array = checks.any_array(values, name)
    checks.check_shape(array.shape, name, (length,))
    _check_counts(array, name)
    return array.astype(np.int64)


def _counts_matrix(values: Any, name: str, shape: tuple[int, int]) -> Matrix:
    matrix: Matrix = sp.csr_array(values)
    checks.check_shape(matrix.shape, name, shape)
    _check_counts(matrix.data, name)
    matrix = matrix.astype(np.int64)  # a copy: the caller's matrix is not touched
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _check_counts(values: Any, name: str) -> None:
    if values.size and (values.dtype.kind not in "iu" or values.min() < 0):
        raise InvalidArgumentError.of(name, "must hold counts: whole numbers, none of them negative")
