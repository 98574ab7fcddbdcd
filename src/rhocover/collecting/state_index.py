"""State indices: the numbers of states and transitions, fixed by a known model or growing as states are met.

A `FixedStateIndex` has all states of a model and raises for transitions that its table rules out. A
`GrowingStateIndex` numbers states as they are met: state k has the pairs kA, ..., kA + A - 1, and a number
never changes. A `StateReader` maps an observation to the number of its state, and raises with the reason if
it has none. `EpisodeCounts` counts starts and ends. The rest reads what else a step returns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

import numpy as np

from rhocover.checks import BoolArray, FloatArray, IntArray
from rhocover.environments.encoding import OutsideSpaceError, StateCode, WholeNumber
from rhocover.environments.stepping import TookTooLongError
from rhocover.errors import EnvironmentFailedError, parse_text, shortened
from rhocover.exploring.worlds import Index, OpenIndex
from rhocover.learning.markov import MarkovTest, markov_test
from rhocover.mdp import MDP
from rhocover.printing import count_of

LEAST_ROOM = 64  # states for which arrays have room at first


class StateIndex(Protocol):
    """The numbers of states and transitions."""

    numbers: dict[Hashable, int]  # of the keys known so far

    @property
    def index(self) -> Index:
        """The states, pairs and transitions numbered so far."""
        ...

    def add(self, key: Hashable) -> int:
        """Returns the number of a new key; raises if there can be no such state."""
        ...

    def note_start(self, state: int) -> None:
        """Notes that an episode began in a state."""
        ...

    def count(self, pairs: IntArray, nexts: IntArray, moves: IntArray) -> IntArray:
        """Returns `moves` with these transitions added, extended if some are new."""
        ...


class FixedStateIndex:
    """The states of a model; `keys` are their keys, by number."""

    def __init__(self, model: MDP, keys: Sequence[Hashable]) -> None:
        self.index: MDP = model
        self.numbers: dict[Hashable, int] = {key: number for number, key in enumerate(keys)}
        P, S = model.transitions, model.num_states
        rows = np.repeat(np.arange(model.num_pairs), np.diff(P.indptr))
        self._codes = rows * S + P.indices  # sorted, because rows are, and indices within each row
        self._order = np.argsort(self._codes)
        self._codes = self._codes[self._order]

    def add(self, key: Hashable) -> int:
        """Raises: a key that is not in the model cannot be reached, according to the table."""
        raise EnvironmentFailedError(
            parse_text(
                f"the environment is in state {key}, which cannot be reached according to its own table. "
                'Learn the dynamics instead of trusting the table: `model="learned"`.'
            )
        )

    def note_start(self, state: int) -> None:
        """Does nothing, because the start distribution is known from the table."""

    def count(self, pairs: IntArray, nexts: IntArray, moves: IntArray) -> IntArray:
        """Returns `moves` with these transitions added; raises for those that the table rules out."""
        codes = pairs * self.index.num_states + nexts
        place = np.minimum(np.searchsorted(self._codes, codes), self._codes.size - 1)
        wrong = np.flatnonzero(self._codes[place] != codes)
        if wrong.size:
            pair, state = int(pairs[wrong[0]]), int(nexts[wrong[0]])
            raise EnvironmentFailedError(
                parse_text(
                    f"the environment went from {self.index.pair_name(pair)} to state {state}, which has "
                    "probability 0 in its own table. Learn the dynamics instead of trusting the table: "
                    '`model="learned"`.'
                )
            )
        np.add.at(moves, self._order[place], 1)
        return moves


class GrowingStateIndex:
    """The states met so far, all with the same actions; `weights` maps a key to the weights of its pairs."""

    def __init__(
        self, num_actions: int, weights: Any = None, name: str = "", *, is_coded: bool = False
    ) -> None:
        self.num_actions, self._is_coded = num_actions, is_coded
        self.numbers: dict[Hashable, int] = {}
        self.keys: list[Hashable] = []
        self._weigh, self._weights, self.name = weights, np.zeros((LEAST_ROOM, num_actions)), name
        self._transitions: dict[tuple[int, int], int] = {}
        self._leaves, self._arrives = np.zeros(LEAST_ROOM, np.int64), np.zeros(LEAST_ROOM, np.int64)
        self._roots: set[int] = set()
        self._index: OpenIndex | None = None
        self._allowed: BoolArray | None = None  # [room, A], once an environment gave a mask
        self._masked: set[int] = set()  # states that have one

    def add(self, key: Hashable) -> int:
        """Returns the number of a new key, which is the next one."""
        number = len(self.keys)
        self.numbers[key] = number
        self.keys.append(key)
        self._weights = _with_room(self._weights, number + 1)
        self._weights[number] = 1.0 if self._weigh is None else self._weigh(key)
        self._index = None
        return number

    @property
    def index(self) -> OpenIndex:
        """The current states and transitions; its arrays are shared with this object and only get longer."""
        if self._index is None:
            S, k = len(self.keys), len(self._transitions)
            weights: FloatArray = self._weights[:S].ravel()
            leaves, arrives = self._leaves[:k], self._arrives[:k]
            roots = np.array(sorted(self._roots), np.int64)
            allowed = None if self._allowed is None else self._all_allowed(S)[:S].ravel()
            self._index = OpenIndex(
                S, self.num_actions, leaves, arrives, weights, roots, self.name, allowed, self._is_coded
            )
        return self._index

    def _all_allowed(self, num_states: int) -> BoolArray:
        """Returns which actions were ever allowed, with room for so many states; True by default."""
        old = self._allowed
        if old is None or old.shape[0] < num_states:
            self._allowed = np.ones((2 * max(num_states, LEAST_ROOM), self.num_actions), bool)
            if old is not None:
                self._allowed[: old.shape[0]] = old
        assert self._allowed is not None
        return self._allowed

    def allow(self, state: int, mask: BoolArray) -> list[int]:
        """Notes which actions of a state are allowed now; returns the pairs whose standing changed.

        The first mask of a state forbids the others, later ones can only allow more: the state's pairs are
        those that were ever allowed. A pair that is not allowed has no weight.
        """
        allowed = self._all_allowed(state + 1)
        before = allowed[state].copy()
        allowed[state] = (before | mask) if state in self._masked else mask
        self._masked.add(state)
        changed = np.flatnonzero(before != allowed[state])
        if changed.size:
            weights = np.ones(self.num_actions) if self._weigh is None else self._weigh(self.keys[state])
            self._weights[state] = np.where(allowed[state], weights, 0.0)
            self._index = None
        return [state * self.num_actions + int(k) for k in changed]

    def is_allowed(self, pair: int) -> bool:
        """Whether a pair was ever allowed."""
        return self._allowed is None or bool(self._all_allowed(len(self.keys)).ravel()[pair])

    def note_start(self, state: int) -> None:
        """Notes that an episode began in a state."""
        if state not in self._roots:
            self._roots.add(state)
            self._index = None

    def count(self, pairs: IntArray, nexts: IntArray, moves: IntArray) -> IntArray:
        """Returns `moves` with these transitions added, extended if some are new."""
        S = len(self.keys)
        codes, counts = np.unique(pairs * S + nexts, return_counts=True)
        numbers = np.array([self._number(*divmod(code, S)) for code in codes.tolist()], np.int64)
        if moves.size < len(self._transitions):
            moves = np.concatenate([moves, np.zeros(len(self._transitions) - moves.size, np.int64)])
        moves[numbers] += counts
        return moves

    def count_earlier(self, pairs: IntArray, nexts: IntArray, counts: IntArray) -> IntArray:
        """Returns the counts of the transitions from before the first step."""
        numbers = [
            self._number(pair, state) for pair, state in zip(pairs.tolist(), nexts.tolist(), strict=True)
        ]
        moves = np.zeros(len(self._transitions), np.int64)
        np.add.at(moves, np.array(numbers, np.int64), counts)
        return moves

    def _number(self, pair: int, state: int) -> int:
        """Returns the number of a transition; a new transition gets the next number."""
        number = self._transitions.setdefault((pair, state), len(self._transitions))
        if number >= self._leaves.size:
            self._leaves, self._arrives = (_with_room(a, number + 1) for a in (self._leaves, self._arrives))
        if self._index is not None and number >= self._index.leaves.size:
            self._index = None
        self._leaves[number], self._arrives[number] = pair, state
        return number


def _with_room(array: Any, size: int) -> Any:
    """Returns the array, or a copy with `2 * size` rows if it has fewer than `size`; new rows are zero."""
    if array.shape[0] >= size:
        return array
    larger = np.zeros((2 * size, *array.shape[1:]), array.dtype)
    larger[: array.shape[0]] = array
    return larger


# What counts as a failure of the environment; also sys.exit(), which would end the run without a message.
RAISED = (Exception, TookTooLongError, SystemExit, GeneratorExit)


KEPT_STEPS = 1 << 18  # steps that are kept individually: a few megabytes, and a second for the test
ENDED = -1  # the next state of a step that ended its episode


class EpisodeCounts:
    """Counts the starts and ends of episodes; pairs and states have the numbers of the run's index.

    In the transition counts of a run, an end leads to the next start, as in the model on which it plans. This
    class keeps which of them were ends, so that a tally can report what the environment did. It also keeps
    the first steps individually, for the test of whether the states are Markov.
    """

    def __init__(self) -> None:
        self.starts: Counter[int] = Counter()  # how often an episode began in a state
        self.restarts: Counter[tuple[int, int]] = Counter()  # ends: the pair, and the start that followed
        self.num_cut = 0  # episodes that were truncated
        self.end_keys: dict[Hashable, None] = {}  # keys of the final observations of episodes, in order
        self.num_steps = 0
        self._first = np.zeros(0, np.int64)  # the first step in each state; -1 if there was none
        self._is_open: dict[int, bool] = {}  # which copies are in the middle of an episode
        self._kept: list[tuple[Any, ...]] = []  # states, actions, next states, is first of episode, copies
        self._num_kept = 0

    @property
    def num_episodes(self) -> int:
        """How many episodes have at least one step."""
        return self.starts.total()

    @property
    def num_truncated(self) -> int:
        """How many of them did not terminate: cut by a time limit, or by the end of the run."""
        return self.num_cut + sum(self._is_open.values())

    def add(
        self, states: IntArray, actions: IntArray, pairs: IntArray, nexts: IntArray, ended: BoolArray,
        cut: BoolArray, copies: IntArray,
    ) -> None:  # fmt: skip
        """Adds steps, `[T]` each; `ended` and `cut` mark terminations and truncations."""
        began = self._began(ended | cut, copies)
        self.starts.update(states[began].tolist())
        self.restarts.update(zip(pairs[ended].tolist(), nexts[ended].tolist(), strict=True))
        self.num_cut += int(np.count_nonzero(cut & ~ended))
        self._note_first(states)
        num = min(KEPT_STEPS - self._num_kept, states.size)
        if num > 0:
            columns = (states, actions, np.where(ended, ENDED, nexts), began, copies)
            self._kept.append(tuple(column[:num].astype(np.int32) for column in columns))
            self._num_kept += num

    def _note_first(self, states: IntArray) -> None:
        """Notes the states in which a step was taken for the first time."""
        size = int(states.max(initial=-1)) + 1
        if size > self._first.size:
            self._first = np.pad(self._first, (0, 2 * size - self._first.size), constant_values=-1)
        new = np.flatnonzero(self._first[states] < 0)
        self._first[states[new[::-1]]] = self.num_steps + new[::-1]
        self.num_steps += states.size

    def first_steps(self, num_states: int) -> IntArray:
        """Returns the first step in each state; the last step of all if there was none."""
        first = np.full(num_states, -1)
        first[: self._first.size] = self._first[:num_states]
        return np.where(first < 0, max(self.num_steps - 1, 0), first)

    def _began(self, over: BoolArray, copies: IntArray) -> BoolArray:
        """Returns which steps are the first of their episode."""
        began = np.empty(over.size, bool)
        for copy in np.unique(copies).tolist():
            own = np.flatnonzero(copies == copy)
            began[own[1:]] = over[own[:-1]]
            began[own[0]] = not self._is_open.get(copy, False)
            self._is_open[copy] = not over[own[-1]]
        return began

    def markov_test(self) -> MarkovTest:
        """Returns the test, on the first steps, of whether the states are Markov."""
        columns = zip(*self._kept, strict=True) if self._kept else ([np.zeros(0, np.int64)] for _ in range(5))
        return markov_test(*(np.concatenate(parts) for parts in columns))


class StateReader:
    """Maps observations to state numbers: the code gives the key, the index the number of the key."""

    def __init__(self, space: Any, states: StateCode, index: StateIndex) -> None:
        self.space, self.states, self.index = space, states, index
        self.key = states.key
        self.as_stored: Callable[[Any], Any] = lambda observation: observation
        self.is_plain = False  # whether observations are numbers, which need not be copied
        self.find = self._known  # returns the number of an observation's state; None if it has none yet

    def _known(self, observation: Any) -> int | None:
        return self.index.numbers.get(self.key(observation))

    def adapt_to(self, observation: Any) -> None:
        """Chooses how observations are read, by the first one.

        Arrays are converted to the dtype of the space before they are encoded: stored observations have that
        dtype, and must give the same counts. An integer of a Discrete space is its own key.
        """
        if isinstance(self.states, WholeNumber) and isinstance(observation, int | np.integer):
            get, known = self.index.numbers.get, self._known
            self.find = lambda shown: get(shown) if type(shown) is int else known(shown)
            self.is_plain = True
        if getattr(self.space, "shape", None) and self.space.dtype is not None:
            self._read_arrays()

    def number(self, observation: Any, num_steps: int) -> int:
        """Returns the number of the state, adding it if it is new; `num_steps` is for the error message."""
        try:
            key = self.key(observation)
            known = self.index.numbers.get(key)
            if known is not None:
                return known
            self._check_inside(observation)
            return self.index.add(key)
        except MemoryError:  # nothing is wrong with the observation
            raise
        except Exception as error:  # reading an observation may raise anything
            raise refused(error, num_steps) from error

    def _read_arrays(self) -> None:
        """Makes `key` and `find` convert arrays that do not have the dtype and shape of the space."""
        key, cast, get = self.states.key, self._cast, self.index.numbers.get
        self.as_stored = cast
        own, shape = self.space.dtype, self.space.shape
        self.key = lambda shown: key(cast(shown))

        def find(shown: Any) -> int | None:
            is_own = type(shown) is np.ndarray and shown.dtype is own and shown.shape == shape
            return get(key(shown if is_own else cast(shown)))

        self.find = find

    def _cast(self, shown: Any) -> Any:
        """Returns an array in the dtype of the space; raises if its shape or a number does not fit."""
        own, shape = self.space.dtype, self.space.shape
        array = np.asarray(shown)
        if array.shape != shape:
            raise OutsideSpaceError(
                f"{shown!r} has shape {array.shape}, expected one of {self.space}. Correct the observation "
                "or the space."
            )
        if array.dtype == own:
            return array
        result = array.astype(own)
        if own.kind in "iu" and not np.array_equal(result, array):
            raise OutsideSpaceError(
                f"{shown!r} does not fit into {own}, the dtype of its space. Correct the observation or the "
                "space."
            )
        return result

    def _check_inside(self, observation: Any) -> None:
        """Raises if an observation is outside its space; called once per state."""
        space = self.space
        if space.contains(observation):
            return
        if isinstance(observation, int | np.integer | np.ndarray) and space.contains(
            np.asarray(observation, space.dtype)
        ):
            return
        raise EnvironmentFailedError(
            f"the environment returned {shown_as(observation)}, which is not in its observation space "
            f"{space}. Correct the observation or the space. The steps before it are kept."
        )


def read_ends(terminated: Any, truncated: Any) -> tuple[bool, bool]:
    """Returns whether a step terminated and truncated its episode; raises if a flag is not a truth value."""
    return _flag(terminated, "terminated"), _flag(truncated, "truncated")


def _flag(value: Any, name: str) -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    is_number = np.ndim(value) == 0 or np.size(value) == 1
    number = np.asarray(value).reshape(-1)[0] if is_number else None
    if isinstance(number, np.number | np.bool_) and number in (0, 1):
        return bool(number)
    raise EnvironmentFailedError(
        f"the environment returned {name} = {shortened(repr(value))}, expected True or False. Correct its "
        "step(). The steps before are kept."
    )


def read_reward(reward: Any) -> float:
    """Returns a reward as a float; raises if it is not a number, or one that a float cannot hold."""
    try:
        if (
            not isinstance(reward, str | bytes)
            and reward is not np.ma.masked
            and np.size(reward) == 1
            and np.asarray(reward).dtype.kind in "biufO"
        ):
            return float(np.asarray(reward).reshape(-1)[0])
    except Exception:  # converting an unusual reward may raise anything
        pass
    shown = f"an integer of {reward.bit_length()} bits" if isinstance(reward, int) else shown_as(reward)
    raise EnvironmentFailedError(
        f"the environment returned {shown} as a reward, expected a number that a float can hold. Wrap it so "
        "that its rewards are such numbers."
    )


def failed(what: str, num_steps: int, error: BaseException) -> EnvironmentFailedError:
    """Returns the error for an environment that raised an error itself, or took too long."""
    if isinstance(error, TookTooLongError):
        late = f"the environment {error} after {count_of(num_steps, 'step')}. The steps before are kept. "
        return EnvironmentFailedError(parse_text(f"{late}Find out why it hangs, or allow more time."))
    return EnvironmentFailedError(
        f"the environment {what} after {count_of(num_steps, 'step')}: {type(error).__name__}: "
        f"{shown_as(error, str)}. The steps before are kept. Fix the environment, or avoid what makes "
        "it fail."
    )


def refused(error: BaseException, num_steps: int) -> EnvironmentFailedError:
    """Returns the error for an observation that cannot be encoded as a state."""
    reason = shown_as(error, str, 1500)  # long enough for our own messages, which end with the remedy
    if isinstance(error, EnvironmentFailedError):
        return EnvironmentFailedError(f"after {count_of(num_steps, 'step')}: {reason}")
    return EnvironmentFailedError(
        f"after {count_of(num_steps, 'step')} the environment returned an observation that is not a state: "
        f"{reason}"
    )


def shown_as(thing: Any, how: Callable[[Any], str] = repr, most: int = 300) -> str:
    """Returns a value as short text, even if converting it to text raises."""
    try:
        return shortened(how(thing), most)
    except Exception:
        return f"(a {type(thing).__name__} that cannot be printed)"
