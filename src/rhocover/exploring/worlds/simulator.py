"""The simulator of a model: any number of chains, sparse, fast, and repeatable to the bit.

A `Position` holds the chains' states and the random generator. It can be stored at any step, and the run
continued from there. Two uniform numbers are drawn for each step, one for the action and one for the
transition, whatever the behaviour, so two behaviours see the same random numbers as long as they agree.

The inner loops act, move and count. They are compiled, and the same source also runs as plain Python. A step
uses uniform numbers that were drawn beforehand, so compiled and interpreted runs use the same ones and give
the same bits. The successor is the first one whose cumulative probability exceeds the uniform number, found
by bisection, and by counting when few places are left. The last cumulative entry is exactly 1 and uniform
numbers are below 1, so there always is one, and one of probability zero is never taken. Several chains
advance in turn, one step each, and share the counts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from rhocover.checks import FloatArray
from rhocover.compiling import compiled
from rhocover.exploring.worlds import (
    BlockBehaviour,
    FlowCorrectedScore,
    Position,
    SamplePolicy,
    Visits,
    checked_behaviour,
    choice_cdf,
    cumulative,
    first_pairs,
    refresh,
)
from rhocover.mdp import MDP

FEW = 8  # up to this many places counting is faster than bisection: no branch on the random number


@compiled
def find(cumulative, low, high, u):
    """Returns the first place in [low, high] whose cumulative value exceeds u."""
    while high - low > FEW:
        middle = (low + high) // 2
        if u < cumulative[middle]:
            high = middle
        else:
            low = middle + 1
    place = low
    for k in range(low, high):
        place += cumulative[k] <= u
    return place


@compiled
def move(model, i, u, visits, moves):
    """Plays pair i: counts it and where it leads, and returns the next state."""
    _, indptr, successor, cumulative = model
    j = find(cumulative, indptr[i], indptr[i + 1] - 1, u)
    visits[i] += 1
    moves[j] += 1
    return successor[j]


@compiled
def act_by_policy(model, cdf, done, uniforms, seen):
    """Plays a stochastic policy; `uniforms` is `[steps, chains, 2]`; changes states, visits and moves."""
    first, (states, visits, moves, _) = model[0], seen
    for k in range(uniforms.shape[0]):
        for chain in range(states.size):
            s = states[chain]
            i = find(cdf, first[s], first[s + 1] - 1, uniforms[k, chain, 0])
            states[chain] = move(model, i, uniforms[k, chain, 1], visits, moves)


@compiled
def lowest(first, s, base, visits, done, rate, scale):
    """Returns the pair of state s with the lowest score (base + visits - done rate) scale."""
    chosen = first[s]
    least = np.inf
    for i in range(first[s], first[s + 1]):
        score = (base[i] + visits[i] - done * rate[i]) * scale[i]
        if score < least:
            least = score
            chosen = i
    return chosen


@compiled
def act_by_score(model, rule, done, uniforms, seen):
    """Plays the lowest score; `rule` is base, rate and scale, `done` the steps of the block so far."""
    first, (base, rate, scale), (states, visits, moves, _) = model[0], rule, seen
    for k in range(uniforms.shape[0]):
        for chain in range(states.size):
            i = lowest(first, states[chain], base, visits, done, rate, scale)
            states[chain] = move(model, i, uniforms[k, chain, 1], visits, moves)
            done += 1


@compiled
def act_by_corrected_score(model, rule, flow, period, done, uniforms, seen):
    """Plays the lowest score; the part that the flow forces is computed every `period` steps."""
    first, (rate, scale), (states, visits, moves, scores) = model[0], rule, seen
    for k in range(uniforms.shape[0]):
        for chain in range(states.size):
            if done % period == 0:
                refresh(flow, done, visits, scores)
            i = lowest(first, states[chain], scores, visits, done, rate, scale)
            states[chain] = move(model, i, uniforms[k, chain, 1], visits, moves)
            done += 1


Act = Callable[..., None]


def act_named(kind: str) -> Act:
    """Returns the loop of a rule: by sampling a policy, by scores, or by scores corrected for the flow."""
    if kind == "policy":
        return act_by_policy
    return act_by_corrected_score if kind == "corrected" else act_by_score


DRAWS = 1 << 16  # uniform numbers drawn at a time
BATCH_STEPS = 1 << 20  # steps between two checks of the clock and of Ctrl-C: some hundredths of a second


class Simulator:
    """Acts in a model; `start` is a distribution over its states."""

    batch_steps: int = BATCH_STEPS
    is_foreign = None  # there is no environment
    next_refit = 1 << 62  # never: the states are those of the model

    def __init__(self, mdp: MDP, start: FloatArray, num_chains: int = 1) -> None:
        self.mdp = mdp
        self.num_chains = num_chains
        self._start_cdf = np.cumsum(start)
        self._start_cdf[np.flatnonzero(start)[-1] :] = 1.0
        P, rows = mdp.transitions, mdp.transitions.indptr.astype(np.int64)
        narrow = np.int32 if P.nnz < 2**31 else np.int64  # half the memory for random access
        self.arrays = (
            first_pairs(mdp), rows.astype(narrow), P.indices.astype(narrow), cumulative(P.data, rows)
        )  # fmt: skip

    def begin(self, seed: int) -> Position:
        """Returns the first position: each chain's state drawn from the start distribution."""
        generator = np.random.Generator(np.random.PCG64(seed))
        states = np.searchsorted(self._start_cdf, generator.random(self.num_chains), side="right")
        return Position(states.astype(np.int64), generator)

    def refit(self, now: object) -> bool:
        """Does nothing: states are not encoded."""
        return False

    def follow(self, behaviour: BlockBehaviour) -> Act:
        """Returns the loop that acts in this way."""
        kind, arrays = self.rule_of(behaviour)
        return partial(act_named(kind), self.arrays, *arrays)

    def rule_of(self, behaviour: BlockBehaviour) -> tuple[str, tuple[Any, ...]]:
        """Returns the name of the loop that acts in this way, and its arrays."""
        behaviour = checked_behaviour(behaviour, self.mdp)
        if isinstance(behaviour, SamplePolicy):
            return "policy", (choice_cdf(behaviour.policy, self.mdp),)
        if isinstance(behaviour, FlowCorrectedScore):
            rule, flow = (behaviour.rate, behaviour.scale), behaviour.flow_arrays()
            return "corrected", (rule, flow, behaviour.period)
        return "score", ((behaviour.base, behaviour.rate, behaviour.scale),)

    def advance(self, position: Position, act: Act, seen: Visits, num_steps: int) -> None:
        """Takes `num_steps` more steps, counted over all chains: a multiple of their number.

        `seen` has the visits of the block so far, and the new ones are added. Uniform numbers are drawn in
        chunks from one stream, so it makes no difference where a run is interrupted.
        """
        left = num_steps // self.num_chains
        while left > 0:
            rounds = min(left, max(1, DRAWS // (2 * self.num_chains)))
            uniforms = position.generator.random((rounds, self.num_chains, 2))
            act(seen.num_steps, uniforms, (position.states, seen.pairs, seen.moves, seen.scores))
            left -= rounds
            seen.num_steps += rounds * self.num_chains
