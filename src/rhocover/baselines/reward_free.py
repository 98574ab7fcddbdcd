"""Reward-free exploration: for every state and step a policy that reaches it, then a mixture of all of them.

Jin, Krishnamurthy, Simchowitz, Yu 2020, "Reward-free exploration for reinforcement learning" (RF-RL-Explore).
For every (s, h) an optimistic learner plays `episodes` episodes (the paper's N_0) for the reward
1{s_h = s}; the policies that it played are kept, with uniform actions at (s, h). Afterwards each episode
plays one of the kept policies, drawn uniformly. The mixture should satisfy

    d_h(s,a) >= max over policies of d_h(s)/(2SAH)        for every significant (s, h),

where (s, h) is significant if some policy reaches it with probability at least some small delta.

On the rho axis: rho = inf with mu_h(s,a) = max over policies of d_h(s): the smallest d/mu should be large.
It is not maximised, only bounded from below: the mixture is uniform over (s, h), not the best one.

What differs from the paper:

- the learner is optimistic value iteration with the Hoeffding bonus of `episodic` times `bonus`, not EULER,
  whose bonus depends on the variance of the next value. Each learner starts with all transitions observed so
  far, which are pooled over steps and targets; the learners of the paper start from nothing;
- targets take turns, one episode each, for `episodes` rounds, so that a run that ends early has treated all
  of them equally. The targets are the (s, h) of the acting model;
- after step h an episode for (s, h) has no reward left; ties then choose the least visited pair;
- N_0 is a setting. In the theorem it is of order S^2 A H^4, beyond practical budgets;
- with several chains a block has the number of steps of one episode, over all chains together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rhocover import checks
from rhocover.baselines.episodic import EpisodicWorld, episodic_world, look
from rhocover.baselines.episodic_play import EpisodicPlay, check_scale
from rhocover.checks import FloatArray, IntArray
from rhocover.exploring.belief import Belief
from rhocover.exploring.explorers import Block, State, initial_state
from rhocover.exploring.worlds import SamplePolicy, Visits

STREAM = 20_200  # the stream of random numbers for drawing from the mixture


@dataclass(frozen=True)
class RewardFree(EpisodicPlay):
    """Plays for every (s, h) in turn, `episodes` times; then mixes. `bonus` scales the optimism."""

    who: ClassVar[str] = "RewardFree"

    episodes: int = 5
    bonus: float = 0.01
    delta: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "episodes", checks.integer(self.episodes, "episodes", least=1))
        object.__setattr__(self, "bonus", check_scale(self.bonus, "bonus"))
        object.__setattr__(self, "delta", checks.probability(self.delta, "delta", open_ends=True))

    def init(self, belief: Belief) -> State:
        """Returns the state before the first step, without policies; raises for a run without episodes."""
        world = episodic_world(belief, self.who)
        return initial_state(belief, choices=np.zeros((0, world.horizon, world.num_states), np.int32))

    def policy(self, state: State) -> Block:
        """Returns an episode for the next target, or one of the mixture."""
        world, choices = episodic_world(state.belief, self.who), state.memory["choices"]
        targets = targets_of(world)
        if len(choices) < self.episodes * len(targets):
            kept, choice = len(choices), self._choice(state)
        else:
            kept = int(np.random.default_rng([STREAM, state.num_blocks]).integers(len(choices)))
            choice = choices[kept]
        return exploring_block(world, choice, targets[kept % len(targets)])

    def update(self, state: State, visits: Visits) -> State:
        """Returns the state with the visits added, and the policy that was played if it is new."""
        world, choices = episodic_world(state.belief, self.who), state.memory["choices"]
        if len(choices) == self.episodes * len(targets_of(world)):
            return state.after(visits)
        new = self._choice(state)[None].astype(np.int32)
        return state.after(visits, choices=np.concatenate([choices, new]))

    def _choice(self, state: State) -> IntArray:
        """Returns the optimistic choices `[H, S]` for the next target."""
        seen = look(state, self.who)
        targets = targets_of(seen.world)
        h, s = targets[len(state.memory["choices"]) % len(targets)]
        reward = np.zeros(seen.by_step.shape)
        reward[h, seen.world.state == s] = 1.0
        cap = (np.arange(seen.world.horizon) <= h).astype(float)
        return seen.optimistic(reward, cap, self.bonus, self.delta)


def targets_of(world: EpisodicWorld) -> IntArray:
    """Returns the (step, state) of the acting model in order, `[targets, 2]`."""
    key = np.unique(world.step * world.num_states + world.state[world.pair])
    return np.stack([key // world.num_states, key % world.num_states], axis=1)


def exploring_policy(world: EpisodicWorld, choice: IntArray, target: IntArray) -> FloatArray:
    """Returns the policy `[n]` that plays `choice`, and at the target (h, s) uniform actions."""
    state = world.state[world.pair]
    is_target = (world.step == target[0]) & (state == target[1])
    return ((choice[world.step, state] == world.pair) | is_target).astype(float)


def exploring_block(world: EpisodicWorld, choice: IntArray, target: IntArray) -> Block:
    """Returns one episode of the policy for a target."""
    return Block(SamplePolicy(exploring_policy(world, choice, target)), world.horizon, whole=True)
