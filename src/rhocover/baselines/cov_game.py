"""CovGame: a required number of visits of each pair, as a game between weights and an optimistic planner.

Al-Marjani, Tirinzoni, Kaufmann 2023, "Active coverage for PAC reinforcement learning". Given c, episodes
are played until N_h(i) >= c_h(i) for all i; the least number of episodes is about

    phi*(c) = min over occupancies d of max_i c_i/d_i.

A forecaster has weights lambda over the pairs and lowers those of visited pairs, lambda_i in proportion to
exp(-rate x_i), x_i = N_i/c_i; the planner plays an episode that is optimal, in an optimistic model, for the
reward lambda_i/c_i. The forecaster's loss is the increase of x in an episode. With Q = sum <lambda, loss^2>
over the episodes of the round so far, its rate is sqrt(2 log(n)/Q), which balances the two terms of its
regret, log(n)/rate + rate Q/2.

On the rho axis: exactly rho = inf with mu = c. c is proportional to the weights mu of the run.
`scope="step"` requires visits of a pair at each step, as in the paper; `scope="pair"` visits of a pair at any
step, with c the largest weight that it has at a step.

What differs from the paper:

- the paper's method ends when c is reached; here the goal then doubles and a new round begins, so that a run
  may have any length. The first goal gives the pair of the smallest weight one visit. As in the paper, the
  forecaster starts again in each round, while visits and transitions are kept;
- pairs of different c play one game for min N/c; the paper groups them into levels of about equal c and
  plays one game after the other;
- the paper's forecaster (of Cesa-Bianchi, Mansour & Stoltz 2007) uses the variances of the losses instead of
  Q, and a rate of at most 1/(largest loss), which losses of either sign need. Visits are never negative, and
  exp(-x) <= 1 - x + x^2/2 for all x >= 0, so no limit is needed. With weights that differ by a factor of 100,
  the worst ratio after 8000 episodes is 1.1 to 1.7 times the best with the limit, and 1.02 to 1.07 without;
- the planner is optimistic value iteration with the Hoeffding bonus of `episodic` times `bonus`,
  transitions pooled over steps; the paper's is UCBVI with a bonus that depends on the variance of the
  next value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rhocover.baselines.episodic import episodic_world, look, value_caps
from rhocover.baselines.episodic_play import GamePlay
from rhocover.checks import FloatArray, IntArray
from rhocover.exploring.belief import Belief
from rhocover.exploring.belief.learned import LearnedModel
from rhocover.exploring.explorers import Block, State, initial_state
from rhocover.exploring.worlds import Visits


@dataclass(frozen=True)
class CovGame(GamePlay):
    """Visits in proportion to the weights, in rounds; `bonus` scales the optimism of its planner."""

    who: ClassVar[str] = "CovGame"

    def init(self, belief: Belief) -> State:
        """Returns the state before the first round; raises for a run without episodes."""
        world = episodic_world(belief, self.who)
        mu = belief.frame.mu if isinstance(belief, LearnedModel) else belief.problem.coverage.mu
        assert mu is not None  # weights by a rule are only allowed in runs without restarts
        required = self._lumped(world.table(mu / mu[mu > 0].min()), np.max)
        round_ = {"start": np.zeros(required.shape), "loss": np.zeros(1), "goal": np.ones(1)}
        return initial_state(belief, required=required, **round_)

    def policy(self, state: State) -> Block:
        """Returns one episode for the current weights."""
        seen = look(state, self.who)
        weights = self._weights(state, self._progress(state, seen.by_step))
        reward = np.broadcast_to(_divided(weights, state.memory["required"]), seen.by_step.shape)
        choice = seen.optimistic(reward, value_caps(reward.max(axis=1)), self.bonus, self.delta)
        return seen.world.block(choice)

    def update(self, state: State, visits: Visits) -> State:
        """Returns the state after an episode: with the forecaster's loss, or at the start of a new round."""
        world, memory = episodic_world(state.belief, self.who), state.memory
        old = self._progress(state, world.table(state.counts))
        new = self._progress(state, world.table(state.counts + visits.pairs))
        reached = new[memory["required"] > 0].min()
        if reached < memory["goal"][0]:
            loss = memory["loss"] + (self._weights(state, old) * (new - old) ** 2).sum()
            return state.after(visits, loss=loss)
        goal = 2.0 ** np.array([np.floor(np.log2(reached)) + 1])
        return state.after(visits, start=new, loss=np.zeros(1), goal=goal)

    def _lumped(self, table: Any, how: Callable[..., Any]) -> Any:
        """Returns a table `[H, pairs]`, or with scope "pair" its reduction over the steps, `[1, pairs]`."""
        return table if self.scope == "step" else how(table, axis=0, keepdims=True)

    def _progress(self, state: State, by_step: IntArray) -> FloatArray:
        """Returns N/c in the shape of c; 0 where c is 0."""
        return _divided(self._lumped(by_step, np.sum), state.memory["required"])

    def _weights(self, state: State, progress: FloatArray) -> FloatArray:
        """Returns the forecaster's weights in the shape of c; they sum to 1."""
        asked, gained = state.memory["required"] > 0, progress - state.memory["start"]
        loss = float(state.memory["loss"][0])
        rate = np.sqrt(2 * np.log(max(2, asked.sum())) / loss) if loss > 0 else 0.0
        weights = np.exp(-rate * (gained - gained[asked].min())) * asked
        return weights / weights.sum()


def _divided(values: Any, required: FloatArray) -> FloatArray:
    """Returns values/c; 0 where c is 0."""
    return np.divide(values, required, out=np.zeros(required.shape), where=required > 0)
