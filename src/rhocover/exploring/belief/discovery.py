"""Discovery: what was never tried is reached for on purpose, before and while coverage is optimised.

A plan on an estimated model knows nothing of what was never seen. So while some pair of a state that was
met is still untried, or states are missing, the explorer goes to a discovery target: it plays the policy that
reaches something new in the fewest expected steps (`learning.discovery`), in which a pair that was tried N
times leads to something new with probability k/(N + k), and to where it led before otherwise.

All pairs tried once is enough when every state was met. While states are missing, each pair should have been
tried log2(t) times: so each is tried again and again, whatever the weights say. That number grows when t has
doubled.

What is far away may take very long, and coverage must not wait for it. So after 256 steps per pair discovery
has the first half of the steps until t doubles; for pairs that were tried before, after 64 steps per pair,
the first quarter, unless it is known that states are missing. In between the explorer covers what is known;
its plan has the untried pairs in it, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rhocover.exploring.belief.learned import LearnedModel
from rhocover.exploring.explorers import Block, Explorer, State, begun
from rhocover.exploring.worlds import LowestScore, Visits
from rhocover.learning.evidence import find_discovery_target

LONGEST = 32  # steps between two looks at where something new may be
SHARE = 64  # or t over this, if that is less
PATIENT = 512  # or t over this, if that is more: a look takes time, too
AHEAD, LAST = 0.5, 1e9  # scores: an untried pair has 0, then comes the way to the next one, then the rest
EARLY_FIRST, EARLY = 256, 64  # steps per pair in which these two kinds of targets have all the time they need
FIRST, AGAIN = 0.5, 0.25  # of the steps until t doubles: for untried pairs, and for those tried before
FLAT = 1e-9  # of a score that visits hardly change


@dataclass(frozen=True)
class Discovering:
    """Goes to discovery targets while there are some, and leaves the rest to another explorer."""

    explorer: Explorer

    def init(self, belief: Any) -> State:
        """Returns the state before the first step; the explorer itself begins when it is asked to act."""
        if is_discovering(belief):
            return State(belief, belief.counts, 0, 0)
        return self.explorer.init(belief)

    def policy(self, state: State) -> Block:
        """Returns the way to a discovery target, or what the explorer does."""
        if is_discovering(state.belief):
            return discovery_block(state.belief)  # pyright: ignore
        return self.explorer.policy(state)

    def update(self, state: State, visits: Visits) -> State:
        """Returns the state after a block; once all targets are reached a new plan is due."""
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
    return int(belief.known.estimate.visits.min()) < trials_due(belief)


def trials_due(belief: LearnedModel) -> int:
    """Returns how often each pair must have been tried for an explorer to go on."""
    t = belief.num_steps + 2
    part = t / 2 ** math.floor(math.log2(t)) - 1  # of the steps until t doubles
    steps_a_pair = t / belief.known.pairs.size
    is_sure = belief.settings.know_states  # that states are missing, if there are
    if has_missing(belief) and (is_sure or steps_a_pair <= EARLY or part <= AGAIN):
        return math.ceil(math.log2(t))
    return 1 if steps_a_pair <= EARLY_FIRST or part <= FIRST else 0


def has_missing(belief: LearnedModel) -> bool:
    """Whether there may be states that were never met."""
    return not belief.settings.know_states or belief.known.states.size < belief.frame.world.num_states


def discovery_block(belief: LearnedModel) -> Block:
    """Returns a block that goes for something new: in each state untried pairs first, then the way there."""
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
