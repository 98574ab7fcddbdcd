"""State marginal matching: visit states according to a target distribution.

Lee, Eysenbach, Parisotto, Xing, Levine and Salakhutdinov 2019, "Efficient exploration via state marginal
matching". The method looks for a mixture of policies whose state marginal d(s) = sum_a d(s,a) matches a
target,

    min over d of KL(d_state || target) = min over d, max over densities q of E_d[log q(s) - log target(s)],

and plays this zero-sum game by fictitious play: fit q to all states visited so far, find the policy with the
largest expected reward log target(s) - log q(s), play it, repeat. The result is the mixture of all policies
so far; without that average over the history the iteration does not converge.

On the axis: rho -> 0 (where D_rho/rho -> KL(d || mubar)), but on states instead of pairs. The objective does
not include how the visits of a state are divided among its actions, so coverage of pairs is a by-product.
With `target="uniform"` it is the objective of MaxEnt. With `target="mu"` the target is the state marginal of
the run's weights, pooled over steps if there is a horizon; it must be positive in every state.

What differs from the paper:

- It is tabular. q is not a fitted density model but (visits + prior)/total, so the visits of the run itself
  are the average over the history, and fictitious play is a Frank-Wolfe step of size tau/t for a block of tau
  steps.
- The best response is planned (average reward), not learned by soft actor-critic. It is taken from the
  planner in every state, including those that the response itself never visits: near the optimum all
  responses then agree on what to do there, and switching the policy costs nothing at first order. Uniform
  actions there would leave a bias of the order of 1/`episode_length` (2e-3 on RiverSwim with 20 steps).
- Soft policies try every action; best responses do not. A share `randomness`/sqrt(t) of the steps is uniform
  instead: with a learned model every pair is then tried infinitely often, and the share goes to zero.
- With a learned model the plan is made on the run's estimate; the paper's learner has no model. With a
  horizon each step has its own estimate, which takes longer to learn the longer H is.
- The variant with a mixture of skills and a discriminator (SM4) is left out: for one tabular learner the
  mixture over time already is a mixture.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, IntArray
from rhocover.errors import InvalidArgumentError, unknown_name
from rhocover.exploring.belief import Belief
from rhocover.exploring.belief.learned import LearnedModel
from rhocover.exploring.explorers import Block, State, initial_state
from rhocover.exploring.problem import Problem
from rhocover.exploring.worlds import SamplePolicy, Visits
from rhocover.oracles import make_oracle

TARGETS = ("mu", "uniform")


@dataclass(frozen=True)
class StateMarginalMatching:
    """Fictitious play for KL(d_state || target); `prior` is added to each state's visits."""

    target: str = "mu"
    episode_length: int = 100
    randomness: float = 1.0
    prior: float = 1.0

    self_reliant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.target, str) or self.target not in TARGETS:
            raise unknown_name("target", self.target, TARGETS)
        length = checks.integer(self.episode_length, "episode_length", least=1)
        object.__setattr__(self, "episode_length", length)
        object.__setattr__(self, "randomness", nonnegative(self.randomness, "randomness"))
        object.__setattr__(self, "prior", checks.positive(self.prior, "prior"))

    def init(self, belief: Belief) -> State:
        """Returns the state before the first step; raises if the target is zero in a state."""
        self._log_target(belief)
        return initial_state(belief)

    def policy(self, state: State) -> Block:
        """Returns the best response to log target - log q, mixed with some uniform actions."""
        chosen = best_policy(state.problem, self._reward(state))
        share = min(1.0, self.randomness / np.sqrt(max(state.num_steps, 1)))
        mixed = (1 - share) * chosen + share * uniform_policy(state.problem)
        return Block(SamplePolicy(mixed), self.episode_length)

    def update(self, state: State, visits: Visits) -> State:
        """Returns the state with the visits added: they are the density's data."""
        return state.after(visits)

    def _reward(self, state: State) -> FloatArray:
        """Returns log target(s) - log q(s) of each pair's state `[n]`."""
        place = callers_states(state.belief)
        visits = np.bincount(place, weights=state.counts) + self.prior
        return (self._log_target(state.belief) - np.log(visits / visits.sum()))[place]

    def _log_target(self, belief: Belief) -> FloatArray:
        """Returns log target of each of the caller's states `[S]`."""
        place = callers_states(belief)
        num_states = int(place.max()) + 1
        if self.target == "uniform":
            return np.full(num_states, -np.log(num_states))
        target = np.bincount(place, weights=belief.problem.coverage.mu_bar)
        if target.min() <= 0:
            raise InvalidArgumentError(
                f"the target must be positive in every state, got mu = 0 on all actions of state "
                f"{int(target.argmin())}: KL(d || target) is infinite.",
                argument="mu",
                remedy="Give it a small weight, or pass target='uniform'.",
            )
        return np.log(target)


def callers_states(belief: Belief) -> IntArray:
    """Returns which state of the caller's model each pair belongs to, at any step, `[n]`."""
    members = belief.frame.members if isinstance(belief, LearnedModel) else belief.problem.question.members
    if members is None:  # an environment: its states have no steps
        return belief.problem.mdp.pair_state
    return members.mdp.pair_state[members.pair]


def best_policy(problem: Problem, reward: FloatArray) -> FloatArray:
    """Returns the policy that earns most of `reward` in the long run, per pair `[n]`."""
    oracle = problem.once("best responses", lambda: make_oracle(problem.members))
    return oracle.respond(reward).policy


def uniform_policy(problem: Problem) -> FloatArray:
    """Returns the uniformly random policy, per pair `[n]`."""
    return 1 / np.bincount(problem.mdp.pair_state)[problem.mdp.pair_state]


def nonnegative(value: float, name: str) -> float:
    """Returns a finite number >= 0."""
    value = checks.number(value, name)
    if not 0 <= value < np.inf:
        raise InvalidArgumentError.of(name, "must be in [0, inf)", f"{value:g}")
    return value
