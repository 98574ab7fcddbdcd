"""What a data set says, in numbers: which states, which actions, and how often what followed.

A tally is all that an audit needs, whatever was collected by whom: transitions that went on, episodes that
ended, where episodes began. A time limit is no end: the state after it is one from which the world would have
gone on, so the transition counts as any other. The state after a true end is only an end: no action is ever
taken there, so it is no state of the tally unless it was met elsewhere.

Tallies of the same world add up; states are matched by their keys.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.checks import IntArray, Matrix, frozen, frozen_matrix
from rhocover.data.batches import joined_batches
from rhocover.errors import InvalidArgumentError, InvalidDataError
from rhocover.layout import Layout


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts of a data set over the states that were met; row `s*A + a` is action a in state s."""

    keys: tuple[Hashable, ...]  # the name that the data has for each state [S]
    num_actions: int
    moves: Matrix  # csr int64 [S*A, S]: transitions that went on, those before a time limit too
    ends: IntArray  # [S*A]: how often a pair ended its episode
    starts: IntArray  # [S]: how often an episode began in a state
    num_steps: int
    num_episodes: int
    num_truncated: int  # episodes that were cut, not ended
    batches: Matrix  # csr whole numbers [K, S*A]: visits in consecutive stretches of equal length
    batch_length: int
    num_jumps: int = 0  # rows that do not go on where the row before them led, without an end between
    end_keys: tuple[Hashable, ...] = ()  # states that were only ever met as the end of an episode
    state_names: tuple[str, ...] | None = None
    action_names: tuple[str, ...] | None = None
    layout: Layout | None = None
    source: str = "the data"  # what it is called in sentences
    declared: Any = None  # data.declared.Declared: the states that there are; None where nobody said

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
        """Returns the tally of counts at hand: `moves` `[S*A, S]`, `ends` `[S*A]`, `starts` `[S]`.

        `batches` `[K, S*A]` are the visits of consecutive stretches of `batch_length` steps; without them
        there are no error bars. `names` are the fields that say what things are called.
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
        """How many states have rows, ends aside: those that were met, unless `over` was asked for more."""
        return len(self.keys)

    @cached_property
    def met_keys(self) -> tuple[Hashable, ...]:
        """The states that were met, as a place to act in, a start or where a move led."""
        is_met = self.visits.any(axis=1) | (self.starts > 0)
        is_met[self.moves.indices] = True
        return tuple(self.keys[state] for state in np.flatnonzero(is_met))

    @cached_property
    def visits(self) -> IntArray:
        """How often each pair was visited, `[S, A]`."""
        total = np.asarray(self.moves.sum(axis=1)).ravel().astype(np.int64) + self.ends
        return frozen(total.reshape(self.num_states, self.num_actions))

    @cached_property
    def number_of(self) -> dict[Hashable, int]:
        """The number of each key."""
        return {key: number for number, key in enumerate(self.keys)}

    def state_name(self, state: int) -> str:
        """Returns what the data calls a state."""
        return self.state_names[state] if self.state_names else str(self.keys[state])

    def pair_name(self, pair: int) -> str:
        """Returns `(3, left)`: state and action of row `s*A + a`."""
        state, action = divmod(int(pair), self.num_actions)
        return f"({self.state_name(state)}, {self.action_names[action] if self.action_names else action})"

    def over(self, keys: Sequence[Hashable], state_names: Sequence[str] | None = None) -> Tally:
        """Returns the same counts over `keys`, in their order; they must hold every state of the tally."""
        keys = tuple(keys)
        if keys == self.keys:
            return self if state_names is None else replace(self, state_names=tuple(state_names))
        place = {key: number for number, key in enumerate(keys)}
        lost = [key for key in self.keys if key not in place]
        if lost:
            raise InvalidArgumentError(
                f"`keys` must hold every state met; missing: {checks.name_some(lost)}."
            )
        new = np.array([place[key] for key in self.keys], np.int64)
        return replace(
            self, keys=keys, **_moved(self, new, len(keys)), layout=None,
            end_keys=tuple(key for key in self.end_keys if key not in place),
            state_names=None if state_names is None else tuple(state_names),
        )  # fmt: skip

    def __add__(self, other: Tally) -> Tally:
        """Returns the tally of both data sets, one after the other."""
        if not isinstance(other, Tally):
            return NotImplemented
        if other.num_actions != self.num_actions:
            raise InvalidDataError(
                f"tallies of {self.num_actions} and {other.num_actions} actions cannot be added: they are of "
                "different worlds. Say num_actions= where they are read."
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
        )


def _over_the_same_keys(a: Tally, b: Tally) -> tuple[Tally, Tally]:
    """Returns both over the keys of the first, followed by those that only the second has."""
    if a.keys == b.keys:
        return a, b
    fresh = [number for number, key in enumerate(b.keys) if key not in a.number_of]
    keys = (*a.keys, *(b.keys[number] for number in fresh))
    names = None
    if a.state_names is not None and b.state_names is not None:
        names = (*a.state_names, *(b.state_names[number] for number in fresh))
    layout = a.layout
    if a.layout is not None and b.layout is not None and fresh:
        places = np.vstack([a.layout.positions, b.layout.positions[fresh]])
        layout = Layout(places, a.layout.directions, a.layout.rulers)
    elif fresh:
        layout = None
    return replace(a.over(keys, names), layout=layout), b.over(keys, names)


def _larger(a: Any, b: Any) -> Any:
    """Returns the larger of two sets of states that were declared; None is none."""
    return b if a is None or (b is not None and len(b.keys) > len(a.keys)) else a


def _moved(tally: Tally, new: IntArray, num_states: int) -> dict[str, Any]:
    """Returns the counts of a tally with state s at place `new[s]` of `num_states`."""
    A = tally.num_actions
    pair = (new[:, None] * A + np.arange(A)).ravel()
    moves, batches = tally.moves.tocoo(), tally.batches.tocoo()
    rows, columns = pair[moves.coords[0]], new[moves.coords[1]]
    ends, starts = np.zeros(num_states * A, np.int64), np.zeros(num_states, np.int64)
    ends[pair], starts[new] = tally.ends, tally.starts
    moved = sp.csr_array((moves.data, (rows, columns)), shape=(num_states * A, num_states))
    stretches = sp.csr_array((batches.data, (batches.coords[0], pair[batches.coords[1]])),
                             shape=(batches.shape[0], num_states * A))  # fmt: skip
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
        raise InvalidArgumentError(f"`{name}` must hold counts: whole numbers, none below 0.")
