"""Worlds that chains act in: the protocol, behaviours, and how pairs and transitions are numbered.

A world has a position (the states of its chains, and a random generator), follows a behaviour, and counts
visits and transitions. `simulator` makes one from a model; `rhocover.collecting` makes one from an
environment.

Pairs are numbered by a model, or in the order in which they are met. Transitions are counted in a vector,
`moves`. With a model, entry j belongs to entry j of its sparse rows. Without one, transitions are numbered in
the order in which they are seen and keep their numbers, so that earlier counts are shorter, but their entries
have the same meaning.

A behaviour says how to act during a block, without calling the explorer again:

- `SamplePolicy`: a stochastic policy, one probability per pair.
- `LowestScore`: in each state the action with the lowest score,

      score_i = (base_i + visits_i - k rate_i) scale_i,

  with the visits of this block so far and k its steps so far. A step compares the actions of one state only,
  however many states there are.
- `FlowCorrectedScore`: the same with scores that are updated every few steps, for models whose flow equations
  fit into a small dense matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse as sp

from rhocover.checks import BoolArray, FloatArray, IntArray
from rhocover.compiling import compiled
from rhocover.errors import InvalidArgumentError
from rhocover.mdp import MDP

if TYPE_CHECKING:
    from types import FrameType

    from rhocover.exploring.problem import Problem
    from rhocover.exploring.runs.runner import Runner, RunState
    from rhocover.exploring.runs.spec import RunSpec


# Behaviours: how to act during a block.


@dataclass(frozen=True, eq=False)
class SamplePolicy:
    """Draws each action with its probability; `policy` is per pair `[n]`, or a table `[S, A]`."""

    policy: FloatArray


@dataclass(frozen=True, eq=False)
class LowestScore:
    """Plays the action with the lowest score; `base`, `rate` and `scale` are per pair `[n]`."""

    base: FloatArray
    rate: FloatArray
    scale: FloatArray


@dataclass(frozen=True, eq=False)
class FlowCorrectedScore:
    """Plays the lowest score, after subtracting the part that the flow of the visits forces.

    With v = moved + visits - k rate the score is (offset + v - W B'(B W B')^-1 B v) scale, where the last
    term in parentheses is computed every `period` steps. `inverse` is (B W B')^-1 `[S, S]`, with the mass row
    instead of the last flow row. B is the flow of `model`, the explorer's model of the world; its pair i is
    the world's pair `pairs[i]`. The arrays are over the model's pairs, except `rate` and `scale` after
    `placed`, which are over the world's.
    """

    offset: FloatArray
    moved: FloatArray
    rate: FloatArray
    scale: FloatArray
    weight: FloatArray  # W
    inverse: FloatArray
    period: int
    model: MDP
    pairs: IntArray | None = None  # None: the same pairs

    def flow_arrays(self) -> tuple[Any, ...]:
        """Returns the arrays with which the compiled loop updates scores."""
        P, pairs = self.model.transitions, self.pairs
        flow = (first_pairs(self.model), P.indptr.astype(np.int64), P.indices.astype(np.int64), P.data)
        pairs = np.arange(self.model.num_pairs) if pairs is None else pairs.astype(np.int64)
        rate = self.rate[pairs]  # of the model's own pairs
        return *flow, pairs, self.offset, self.moved, rate, self.weight, self.inverse


@dataclass(frozen=True)
class SeekNew:
    """Go to pairs that were tried least, by the shortest way known; the world keeps the search up to date."""


Behaviour = SamplePolicy | LowestScore | FlowCorrectedScore
BlockBehaviour = Behaviour | SeekNew  # all that a block may play


def checked_behaviour(behaviour: Any, mdp: MDP) -> Behaviour:
    """Returns the behaviour with arrays per pair; refuses what the compiled loops cannot follow."""
    if isinstance(behaviour, SamplePolicy):
        return SamplePolicy(mdp.per_pair(behaviour.policy, "policy"))
    if isinstance(behaviour, LowestScore):
        names = ("base", "rate", "scale")
        return LowestScore(*(mdp.per_pair(getattr(behaviour, name), name) for name in names))
    if isinstance(behaviour, FlowCorrectedScore):
        return behaviour  # made by this library only
    raise InvalidArgumentError.of(
        "Block.behaviour",
        "must be SamplePolicy, LowestScore or FlowCorrectedScore",
        type(behaviour).__name__,
        remedy="To play a policy, use SamplePolicy(policy).",
    )


def placed(behaviour: Behaviour, pairs: IntArray, num_pairs: int) -> Behaviour:
    """Returns a behaviour over some pairs of a world as one over all of them.

    In states that the behaviour does not have, actions are drawn uniformly, or taken in turn.
    """

    def spread(values: FloatArray, fill: float) -> FloatArray:
        result = np.full(num_pairs, fill)
        result[pairs] = values
        return result

    if isinstance(behaviour, SamplePolicy):
        return SamplePolicy(spread(behaviour.policy, 1.0))
    rate, scale = spread(behaviour.rate, 0.0), spread(behaviour.scale, 1.0)
    if isinstance(behaviour, LowestScore):
        return LowestScore(spread(behaviour.base, 0.0), rate, scale)
    return replace(behaviour, rate=rate, scale=scale, pairs=pairs)


def first_pairs(mdp: MDP) -> IntArray:
    """Returns where each state's pairs begin, `[S + 1]`; pairs are sorted by state."""
    return np.searchsorted(mdp.pair_state, np.arange(mdp.num_states + 1)).astype(np.int64)


def choice_cdf(policy: FloatArray, mdp: MDP) -> FloatArray:
    """Returns each pair's cumulative probability within its state (see `cumulative`).

    Refuses a policy that gives some state no action.
    """
    first = first_pairs(mdp)
    total = np.add.reduceat(policy, first[:-1])
    wrong = np.flatnonzero(~(total > 0) | ~np.isfinite(total))
    if wrong.size or policy.min() < 0:
        state = int(wrong[0]) if wrong.size else int(mdp.pair_state[int(policy.argmin())])
        raise InvalidArgumentError.of(
            "policy",
            f"must give every state an action: the probabilities of state {state} sum to {total[state]:g}, "
            f"the smallest of all is {policy.min():g}",
        )
    return cumulative(policy / total[mdp.pair_state], first)


def cumulative(shares: FloatArray, first: IntArray) -> FloatArray:
    """Returns the running sums of groups of shares, `[n]`; from the last positive share on, exactly 1.

    Group k is at `first[k]:first[k + 1]`. Each group is summed separately, so that its digits do not depend
    on the groups before it; a share of zero does not change the sum, so that it is never drawn.
    """
    running, length = shares.astype(np.float64), np.diff(first)
    for k in range(1, int(length.max())):
        place = first[:-1][length > k] + k
        running[place] += running[place - 1]
    group = np.repeat(np.arange(length.size), length)
    last = np.full(length.size, -1, np.int64)
    positive = np.flatnonzero(shares > 0)
    np.maximum.at(last, group[positive], positive)
    running[np.arange(shares.size) >= last[group]] = 1.0
    return running


@compiled
def refresh(flow, done, visits, scores):
    """Sets `scores` so that scores + visits - done rate = offset + v - W B'(B W B')^-1 B v.

    v = moved + visits - done rate are the visits beyond the plan, and B v is their flow and mass, in the
    model that the explorer plans on; `visits` and `scores` are over the world's pairs: pair i is `pairs[i]`.
    """
    first, indptr, successor, P, pairs, offset, moved, rate, weight, inverse = flow
    num_states = first.size - 1
    right = np.zeros(num_states)  # its last entry is the mass: the last flow row follows from the others
    for s in range(num_states):
        for i in range(first[s], first[s + 1]):
            v = moved[i] + visits[pairs[i]] - done * rate[i]
            right[num_states - 1] += v
            if s < num_states - 1:
                right[s] += v
            for j in range(indptr[i], indptr[i + 1]):
                if successor[j] < num_states - 1:
                    right[successor[j]] -= P[j] * v
    y = np.zeros(num_states)
    for s in range(num_states):
        total = 0.0
        for r in range(num_states):
            total += inverse[s, r] * right[r]
        y[s] = total
    mass = y[num_states - 1]
    y[num_states - 1] = 0.0  # the potential of the last state, whose row was left out
    for s in range(num_states):
        for i in range(first[s], first[s + 1]):
            lift = y[s] + mass
            for j in range(indptr[i], indptr[i + 1]):
                lift -= P[j] * y[successor[j]]
            scores[pairs[i]] = offset[i] + moved[i] - weight[i] * lift


# Numbering of pairs and transitions, and the protocol.


@dataclass(frozen=True, eq=False)
class OpenIndex:
    """The states met so far, each with the same actions; transition k led from a pair to a state."""

    num_states: int
    num_actions: int
    leaves: IntArray  # the pair that transition k left, [transitions]
    arrives: IntArray  # the state that it led to
    weights: FloatArray  # of the pairs, [n]
    roots: IntArray  # states in which an episode began
    name: str = ""
    allowed: BoolArray | None = None  # which pairs an environment's masks ever allowed, [n]; None: all
    is_coded: bool = False  # whether one state may stand for several states of the environment

    @property
    def num_pairs(self) -> int:
        """The number of pairs."""
        return self.num_states * self.num_actions

    @cached_property
    def pair_state(self) -> IntArray:
        """The state of each pair, `[n]`."""
        return np.repeat(np.arange(self.num_states), self.num_actions)

    @cached_property
    def pair_action(self) -> IntArray:
        """The action of each pair, `[n]`."""
        return np.tile(np.arange(self.num_actions), self.num_states)


Index = MDP | OpenIndex


def no_moves(world: Index) -> IntArray:
    """Returns counts of zero for all transitions."""
    size = world.leaves.size if isinstance(world, OpenIndex) else world.transitions.nnz
    return np.zeros(size, np.int64)


def counts_of_moves(world: Index, moves: IntArray) -> sp.csr_array:
    """Returns how often each state followed each pair, int64 `[n, S]`, from counts per transition."""
    seen = np.flatnonzero(moves)
    if isinstance(world, OpenIndex):
        place = (world.leaves[seen], world.arrives[seen])
        counts = sp.csr_array((moves[seen], place), shape=(world.num_pairs, world.num_states))
        counts.sort_indices()
        return counts
    P = world.transitions
    return sp.csr_array((moves[seen], P.indices[seen], np.searchsorted(seen, P.indptr)), shape=P.shape)


def visits_of_moves(world: Index, moves: IntArray) -> IntArray:
    """Returns how often each pair was visited, int64 `[n]`, from counts per transition."""
    if isinstance(world, OpenIndex):
        visits = np.zeros(world.num_pairs, np.int64)
        np.add.at(visits, world.leaves[: moves.size], moves)
        return visits
    return np.add.reduceat(moves, world.transitions.indptr[:-1])


@dataclass(eq=False)
class Position:
    """The states of the chains, `[chains]`, and their random generator. It changes with every step."""

    states: IntArray
    generator: np.random.Generator


@dataclass(eq=False)
class Visits:
    """Counts of pairs `[n]` in this block, and of transitions `[nnz]` in the whole run.

    Counts are sums, so those of several workers are added. `moves` is aligned with `mdp.transitions`: entry j
    counts how often successor `indices[j]` followed. It is not cleared between blocks, because it is long and
    blocks may be short.
    """

    pairs: IntArray
    moves: IntArray
    num_steps: int  # of this block
    scores: FloatArray  # that `FlowCorrectedScore` keeps from step to step, [n]
    index: Index  # which pairs and transitions the numbers stand for

    def __add__(self, other: Visits) -> Visits:
        steps = self.num_steps + other.num_steps
        return Visits(self.pairs + other.pairs, self.moves + other.moves, steps, self.scores, self.index)

    @property
    def total(self) -> IntArray:
        """Visits of each pair in the whole run, `[n]`."""
        return visits_of_moves(self.index, self.moves)

    def next_block(self) -> None:
        """Clears the counts of the block."""
        self.pairs[:] = 0
        self.num_steps = 0

    @classmethod
    def none(cls, mdp: Index) -> Visits:
        """Returns the visits before the first step."""
        n = mdp.num_pairs
        return cls(np.zeros(n, np.int64), no_moves(mdp), 0, np.zeros(n), mdp)


class RunWorld(Protocol):
    """What a run needs of a world, whoever takes its steps."""

    num_chains: int
    next_refit: int  # the step before which the states are encoded anew; beyond all steps if never

    @property
    def problem(self) -> Problem | None:
        """The true problem; None without a model."""
        ...

    @property
    def is_foreign(self) -> Callable[[FrameType | None], bool] | None:
        """Whether a frame runs an environment's code, which may never return; None if none does."""
        ...

    def opened(self) -> AbstractContextManager[Any]:
        """Returns a context that is open during the run."""
        ...

    def start(self, spec: RunSpec) -> RunState:
        """Returns the state of a run before its first step."""
        ...

    def refit(self, now: RunState) -> bool:
        """Fits the code of the states again; returns whether it is a new one, which all is counted under."""
        ...

    def marks(self, spec: RunSpec) -> list[int]:
        """Returns the steps to report at; the last one ends the run."""
        ...

    def measure(self, counts: IntArray, num_steps: int) -> list[float]:
        """Returns a row of the trace."""
        ...

    def result(self, spec: RunSpec, runner: Runner, seconds: float) -> Any:
        """Returns the finished run."""
        ...


class World(RunWorld, Protocol):
    """A world whose steps this process takes: a simulated model, one environment, or a vector of them."""

    @property
    def batch_steps(self) -> int:
        """Steps between two checks of the clock and of Ctrl-C."""
        ...

    def follow(self, behaviour: BlockBehaviour) -> Any:
        """Returns the behaviour in the form that `advance` uses."""
        ...

    def advance(self, position: Position, act: Any, seen: Visits, num_steps: int) -> None:
        """Takes `num_steps` more steps; changes the position and adds to `seen`."""
        ...
