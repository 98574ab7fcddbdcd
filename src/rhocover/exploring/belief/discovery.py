"""Discovery: going to pairs never tried and states never met, before and while coverage is optimised.

A plan on an estimated model cannot contain what was never seen. Therefore, while some pair of a met state is
untried, or states are missing, the explorer goes to a discovery target: it plays the policy that reaches
something new in the fewest expected steps (`learning.evidence`). In that computation a pair that was tried N
times leads to something new with probability k/(N + k), and otherwise to where it led before. An environment
whose states are codes, too many, or forbid actions is searched step by step instead (`learning.search`): that
costs little per step, but where outcomes are random and some states are far, targets need half of the steps.

If every state was met, it is enough that every pair was tried once. While states are missing, each pair
should have been tried log2(t) times, so every pair is tried again and again, whatever its weight; this number
grows by one each time t doubles.

A target that is far away may take very long to reach, and coverage must not wait for it. So after 256 steps
per pair, discovery gets only the first half of the steps until t doubles next. For pairs that were tried
before this begins after 64 steps per pair, and discovery gets the first quarter, unless states are known to
be missing. In the remaining steps the explorer covers what is known; its plan includes the untried pairs.

Where states are codes of observations, one of them may hide a way out that balanced actions never find: their
moves cancel. There discovery gets the first eighth of the steps until t doubles, whatever was tried.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rhocover.exploring.belief.learned import LearnedModel
from rhocover.exploring.explorers import Block, Explorer, State, begun
from rhocover.exploring.worlds import LowestScore, OpenIndex, SeekNew, Visits
from rhocover.learning.evidence import find_discovery_target

LONGEST = 32  # steps of a discovery block: then the target is computed again
SHARE = 64  # t over this, if that is less
TARGETED = 4096  # pairs of an environment: with more, targets take longer to compute than a search does
SEARCHED = 16  # t over this are the steps of a block in an environment, whose search is never out of date
PATIENT = 512  # t over this, if that is more: computing a target takes time, too
AHEAD, LAST = 0.5, 1e9  # scores: 0 for an untried pair, then the policy towards the target, then the rest
EARLY_FIRST, EARLY = 256, 64  # steps per pair without a limit: for untried pairs, and those tried before
FIRST, AGAIN = 0.5, 0.25  # of the steps until t doubles: for untried pairs, and for those tried before
ALWAYS = 0.125  # of the steps until t doubles, where states are codes: however often all pairs were tried
FLAT = 1e-9  # scale of a score that visits hardly change


@dataclass(frozen=True)
class Discovering:
    """Goes to discovery targets while there are any; otherwise another explorer acts."""

    explorer: Explorer

    def init(self, belief: Any) -> State:
        """Returns the state before the first step; the other explorer begins when it first acts."""
        if is_discovering(belief):
            return State(belief, belief.counts, 0, 0)
        return self.explorer.init(belief)

    def policy(self, state: State) -> Block:
        """Returns a block towards a discovery target, or the other explorer's block."""
        if is_discovering(state.belief):
            return discovery_block(state.belief)  # pyright: ignore
        return self.explorer.policy(state)

    def update(self, state: State, visits: Visits) -> State:
        """Returns the state after a block; when all targets are reached, a new plan is due."""
        if not is_discovering(state.belief):
            return self.explorer.update(state, visits)
        after = replace(state.after(visits), num_blocks=state.num_blocks)
        if is_discovering(after.belief):
            return after
        return replace(after, belief=after.belief.outdated())  # pyright: ignore

    def renew(self, state: State) -> State:
        """Returns the state for a new problem."""
        return state if is_discovering(state.belief) else begun(self.explorer, state)


def is_discovering(belief: Any) -> bool:
    """Whether some pair of the states met so far was tried too rarely."""
    if not isinstance(belief, LearnedModel):
        return False
    world, t = belief.frame.world, belief.num_steps + 2
    if isinstance(world, OpenIndex) and world.is_coded and _since_doubling(t) <= ALWAYS:
        return True
    return int(belief.known.estimate.visits.min()) < trials_due(belief)


def trials_due(belief: LearnedModel) -> int:
    """Returns how often each pair must have been tried before discovery ends."""
    t = belief.num_steps + 2
    part = _since_doubling(t)
    steps_per_pair = t / belief.known.pairs.size
    is_sure = belief.settings.know_states  # then missing states are known to be missing
    if has_missing(belief) and (is_sure or steps_per_pair <= EARLY or part <= AGAIN):
        return math.ceil(math.log2(t))
    return 1 if steps_per_pair <= EARLY_FIRST or part <= FIRST else 0


def _since_doubling(t: int) -> float:
    """Returns how far t is from one power of 2 to the next, 0 to 1."""
    return t / 2 ** math.floor(math.log2(t)) - 1


def has_missing(belief: LearnedModel) -> bool:
    """Whether there may be states that were never met."""
    return not belief.settings.know_states or belief.known.states.size < belief.frame.world.num_states


def _is_searched(world: Any) -> bool:
    """Whether a step-by-step search replaces targets: where states may hide something, or are many."""
    if not isinstance(world, OpenIndex):
        return False
    return world.is_coded or world.allowed is not None or world.num_pairs > TARGETED


def discovery_block(belief: LearnedModel) -> Block:
    """Returns a block towards something new: untried pairs of a state first, then the target's policy."""
    if _is_searched(belief.frame.world):
        return Block(SeekNew(), max(1, belief.num_steps // SEARCHED), in_world=True)
    known, n = belief.known, belief.frame.world.num_pairs
    estimate = known.estimate
    target = find_discovery_target(estimate.counts, estimate.pair_state, new_states=has_missing(belief))
    untried = estimate.visits == 0
    way = (target.policy > 0) & ~untried
    base, scale = np.zeros(n), np.ones(n)
    base[known.pairs] = np.where(untried, 0.0, np.where(way, AHEAD / FLAT, LAST))
    scale[known.pairs[way]] = FLAT
    length = max(1, min(LONGEST, belief.num_steps // SHARE), belief.num_steps // PATIENT)
    return Block(LowestScore(base, np.zeros(n), scale), length, in_world=True)
