"""Frank-Wolfe steps played in one trajectory, which five of the baselines share.

Episode k takes the visits so far, d_hat, computes the occupancy psi that gains most to first order,
psi = argmax over D of <gradient(d_hat), d>, and plays its policy for tau_k = tau_1 k^2 steps. The visits
are then the mixture (1 - beta_k) d_hat + beta_k psi_hat with beta_k in [1/k, 3/k): the trajectory itself
carries out the step, and no mixture of policies has to be stored. The methods differ in the gradient, and in
whether D has a floor; the objective is not part of this module.

Plans use the current model: the true one, or the estimate of all transitions up to the end of the last
episode, smoothed so that a pair that was never tried may lead anywhere. The papers use optimistic models from
a confidence set, or a separate exploration phase, in order to prove their results.

The noise of each pair is estimated from the same transitions, or read from the model if it is known and
`estimate_noise=False`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.checks import FloatArray
from rhocover.coverage import Coverage
from rhocover.errors import Call, InvalidArgumentError
from rhocover.exploring.belief import Belief, KnownModel
from rhocover.exploring.belief.learned import LearnedModel
from rhocover.exploring.explorers import Block, State, initial_state
from rhocover.exploring.explorers.algorithm1 import SHARE, Quadratic, frank_wolfe_gap
from rhocover.exploring.worlds import SamplePolicy, Visits
from rhocover.learning.estimate import Estimate, exact_estimate
from rhocover.learning.rules import Rule, evaluated
from rhocover.mdp import MDP
from rhocover.occupancy import Occupancies
from rhocover.oracles import Oracle, Response, make_oracle

UNVISITED = 0.5  # visits that are assumed for a pair before its first one
FLOOR = 0.1  # default of 2 eta, as a fraction of t*, the largest possible floor


@dataclass(frozen=True)
class FrankWolfePlay:
    """Episodes of tau_1 k^2 steps; a method adds `policy`, which computes the answer to play."""

    tau_1: int = 1

    self_reliant: ClassVar[bool] = True
    keep_memory: ClassVar[bool] = True
    in_environments: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau_1", checks.integer(self.tau_1, "tau_1", least=1))

    def init(self, belief: Belief) -> State:
        """Returns the state before the first step; it stores transitions if the belief does not."""
        if not isinstance(belief, KnownModel):
            return initial_state(belief)
        return initial_state(belief, moves=np.zeros(belief.problem.mdp.transitions.nnz, np.int64))

    def update(self, state: State, visits: Visits) -> State:
        """Returns the state with the episode's visits added."""
        if "moves" not in state.memory:
            return state.after(visits)
        return state.after(visits, moves=visits.moves.copy())

    def episode(self, state: State, answer: Response, gap: float) -> Block:
        """Returns the block that plays the answer's policy for as long as episode k lasts."""
        k = state.num_blocks + 1
        length = Quadratic(self.tau_1).length(k, state.num_steps)
        return Block(SamplePolicy(answer.policy), length, answer.occupancy, gap)


@dataclass(frozen=True)
class CoveragePlay(FrankWolfePlay):
    """Maximises U_rho over D_eta with weights by a rule from the estimate; `delta` is the rule's level."""

    eta: float | None = None
    estimate_noise: bool = True
    delta: float = 0.1

    rho: ClassVar[float]
    rule: ClassVar[type]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eta is not None:
            object.__setattr__(self, "eta", _checked_eta(self.eta))
        check_noise_settings(self.estimate_noise, self.delta)

    def init(self, belief: Belief) -> State:
        """Returns the state before the first step; raises if the model does not allow the floor or noise."""
        state = super().init(belief)
        oracle_now(state, has_floor=True, eta=self.eta)
        check_noise(state, self.rule(), self.estimate_noise)
        return state

    def policy(self, state: State) -> Block:
        """Returns one episode: the policy of the linear program over D_eta."""
        weights = evaluated(self.rule(delta=self.delta), noise_estimate(state, self.estimate_noise))
        coverage, d = Coverage(self.rho, weights), positive_shares(state)
        answer = oracle_now(state, has_floor=True, eta=self.eta).respond(coverage.reward(d))
        return self.episode(state, answer, frank_wolfe_gap(coverage, d, answer.occupancy))


def model_now(state: State) -> MDP:
    """Returns the model to plan on: the true one, or the current estimate."""
    belief = state.belief
    return belief.known.estimate.model if isinstance(belief, LearnedModel) else state.problem.mdp


def oracle_now(state: State, *, has_floor: bool = False, eta: float | None = None) -> Oracle:
    """Returns the best responses over D, or over D_eta; made once if the model is known."""

    def build() -> Oracle:
        model = model_now(state)
        if not has_floor:
            return make_oracle(Occupancies.average(model))
        return make_oracle(floored(model, eta, isinstance(state.belief, LearnedModel)))

    if isinstance(state.belief, LearnedModel):
        return build()
    return state.problem.once(f"frank_wolfe_play {has_floor} {eta}", build)


def floored(model: MDP, eta: float | None, is_estimate: bool) -> Occupancies:
    """Returns D_eta; if an estimate does not allow the floor yet that the true model does, it is lowered."""
    free = Occupancies.average(model)
    if eta == 0:
        return free
    if eta is not None and not is_estimate:
        members = Occupancies.average(model, eta=eta)
        members.check_floor()
        return members
    t_star = free.max_floor()[0]
    return Occupancies.average(model, eta=FLOOR * t_star / 2 if eta is None else min(eta, SHARE * t_star / 2))


def shares(state: State) -> FloatArray:
    """Returns d_hat = T/(t-1) `[n]`; uniform before the first step."""
    if state.num_steps == 0:
        return np.full(state.counts.size, 1 / state.counts.size)
    return state.counts / state.num_steps


def positive_shares(state: State) -> FloatArray:
    """Returns max(T, 1/2)/(t-1) `[n]`, for gradients that are infinite at 0."""
    return np.maximum(shares(state), UNVISITED / state.num_steps if state.num_steps else 0.0)


def noise_estimate(state: State, estimate_noise: bool) -> Estimate:
    """Returns the estimate that gives the noise of the pairs: of the transitions, or of the known model."""
    if isinstance(state.belief, LearnedModel):
        return state.belief.known.estimate
    mdp = state.problem.mdp
    if not estimate_noise:
        return exact_estimate(mdp)
    P = mdp.transitions
    counts = sp.csr_array((state.memory["moves"], P.indices, P.indptr), shape=P.shape)
    return Estimate(counts, mdp.pair_state, mdp.pair_action, mdp.num_actions, np.array([0]))


def entropy_gradient(d: FloatArray, sigma: float) -> FloatArray:
    """Returns the gradient of -sum d log(d + sigma), which is finite at 0, shape of `d`."""
    return -np.log(d + sigma) - d / (d + sigma)


def check_noise(state: State, rule: Rule, estimate_noise: bool) -> None:
    """Raises if the noise is to be read from a known model that has none."""
    if estimate_noise or not isinstance(state.belief, KnownModel):
        return
    if not np.any(rule(exact_estimate(state.problem.mdp))):
        raise InvalidArgumentError(
            "`estimate_noise=False` needs a model with noise: every pair of this one is deterministic.",
            argument="explorer",
            remedy=(Call("Pass estimate_noise=True, or use", "Use"), " another explorer."),
        )


def check_noise_settings(estimate_noise: Any, delta: Any) -> None:
    """Raises if `estimate_noise` is not a bool or `delta` is not a probability."""
    if not isinstance(estimate_noise, bool):
        raise InvalidArgumentError.of("estimate_noise", "must be True or False", repr(estimate_noise))
    checks.probability(delta, "delta", open_ends=True)


def _checked_eta(eta: Any) -> float:
    eta = checks.number(eta, "eta")
    if not 0 <= eta < 0.5:
        raise InvalidArgumentError.of("eta", "must be None or in [0, 1/2)", f"{eta:g}")
    return eta
