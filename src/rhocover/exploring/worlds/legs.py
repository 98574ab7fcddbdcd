"""Legs: the steps that one of several workers takes by itself, without asking anyone.

A round is one leg of every worker. All legs of a round follow the same behaviour and are of the same length;
then their counts are added, and only then does the explorer decide again. A leg depends on its arguments
alone: its random numbers come from (seed, slot, round), where `slot` is the number of the worker, and a round
is named by the steps that were taken before it. So a leg may run anywhere, in any order, and twice if need
be: it returns the same counts and the same last state.

**Shares.** A behaviour that makes up for a deficit f does so with every step of a leg. If each of W workers
made up for all of it, the visits would exceed it W-fold. So each has 1/W of it,

    score_i = (f_i/W + u_i - 1/2 + visits_i - k rate_i) scale_i,

with its own visits and steps k. Visits are whole numbers, and f_i/W is often a small part of one. Without u
all workers in the same state would round alike, and their errors would add up to W times that of one. So
every leg draws u_i uniformly from [0, 1): what is played has the right frequency over the workers, and the
errors add up like sqrt(W). A behaviour that leads somewhere, like that of discovery, is no deficit and not
shared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from rhocover.checks import FloatArray, IntArray
from rhocover.exploring.worlds import Behaviour, BlockBehaviour, FlowCorrectedScore, LowestScore, SamplePolicy
from rhocover.exploring.worlds.simulator import DRAWS, act_named

Rule = tuple[str, tuple[Any, ...]]  # a loop of the simulator by name, and its arrays


class Round(NamedTuple):
    """What all legs of a round have in common."""

    model: tuple[Any, ...]  # arrays of the simulator
    rule: Rule
    is_shared: bool  # whether the scores are a deficit, which is rounded by chance
    seed: int
    number: int  # the steps that were taken before it, by all workers
    num_steps: int  # of each leg


class Leg(NamedTuple):
    """What a leg has counted: transition `places[j]` was seen `times[j]` times."""

    state: int  # the last one
    places: IntArray
    times: IntArray


def share_of(behaviour: Behaviour, workers: int) -> Behaviour:
    """Returns the behaviour of one of several workers: each makes up for its part of what is missing."""
    if isinstance(behaviour, SamplePolicy):
        return behaviour
    if isinstance(behaviour, FlowCorrectedScore):
        return replace(behaviour, offset=behaviour.offset / workers, moved=behaviour.moved / workers)
    return replace(behaviour, base=behaviour.base / workers)


def leg_generator(seed: int, slot: int, number: int) -> np.random.Generator:
    """Returns the random numbers of one leg, which no other leg has."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(slot, number))))


def leg_seed(seed: int, slot: int, number: int) -> int:
    """Returns the seed of a leg's environment, of 31 bits, which every environment accepts."""
    return int(np.random.SeedSequence(seed, spawn_key=(slot, number, 1)).generate_state(1)[0] >> 1)


def take_leg(round_: Round, slot: int, state: int) -> Leg:
    """Returns what one worker counts in a round that it begins in this state."""
    generator = leg_generator(round_.seed, slot, round_.number)
    num_pairs, num_moves = int(round_.model[0][-1]), round_.model[2].size
    kind, arrays = round_.rule
    if round_.is_shared:
        arrays = rounded_by_chance(kind, arrays, generator)
    states, moves = np.array([state]), np.zeros(num_moves, np.int64)
    seen = (states, np.zeros(num_pairs, np.int64), moves, np.zeros(num_pairs))
    for done in range(0, round_.num_steps, DRAWS // 2):
        steps = min(DRAWS // 2, round_.num_steps - done)
        act_named(kind)(round_.model, *arrays, done, generator.random((steps, 1, 2)), seen)
    places = np.flatnonzero(moves)
    return Leg(int(states[0]), places, moves[places])


def rounded_by_chance(kind: str, arrays: tuple[Any, ...], generator: np.random.Generator) -> tuple[Any, ...]:
    """Returns the arrays of a rule with u - 1/2 added to what is missing of each pair."""
    if kind == "score":
        ((base, rate, scale),) = arrays
        return ((base + _phases(base, generator), rate, scale),)
    if kind == "corrected":
        rule, flow, period = arrays
        *before, offset, moved, rate, weight, inverse = flow
        offset = offset + _phases(offset, generator)
        return rule, (*before, offset, moved, rate, weight, inverse), period
    return arrays


def phased(behaviour: BlockBehaviour, generator: np.random.Generator) -> BlockBehaviour:
    """Returns the behaviour with u - 1/2 added to what is missing of each pair."""
    if isinstance(behaviour, LowestScore):
        return replace(behaviour, base=behaviour.base + _phases(behaviour.base, generator))
    if isinstance(behaviour, FlowCorrectedScore):
        return replace(behaviour, offset=behaviour.offset + _phases(behaviour.offset, generator))
    return behaviour


def _phases(values: FloatArray, generator: np.random.Generator) -> FloatArray:
    return generator.random(values.size) - 0.5
