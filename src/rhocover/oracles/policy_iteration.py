"""Howard's policy iteration: evaluate the policy by one sparse solve, take better entries, repeat.

**Average reward.** Textbook policy iteration assumes that every policy has one recurrent class. Here greedy
policies have several, or almost: on a slippery grid a policy that prefers two far corners needs 1e14 steps
from one to the other, its bias is lost in rounding, and the iteration does not converge. So

- the model is perturbed: after each step, with probability 1e-13, it jumps to one state, the anchor.
  Then every policy has one recurrent class and Howard's proof holds. The anchor is the state visited most;
- an entry replaces another only if it is better by more than rounding, that of the evaluation included,
  so that neither ties nor rounding make it cycle;
- the certificate is that of the model without jumps (`ScaledReward.upper_bound`). If several classes earn
  the same, the bias in those without the anchor is rounding times 1e13: the policy is optimal, but its bias
  proves nothing. Then both are improved (`_polished`).

A cold start begins with some sweeps of value iteration, a warm one with the last policy; it is repeated cold
if a few iterations do not finish it. Models that mix fast are solved by sweeps alone (`evaluation`). The
model must be communicating (`rhocover.oracles` handles others).

**Improvement over several steps.** Howard's step takes in each state the entry that is best if the old policy
follows afterwards. So the effect of a better place spreads by one state per change of policy, and each change
costs a factorisation. A sweep of value iteration, h <- T h, also spreads it by one state, at a hundredth of
the cost. With h the value of the old policy, T h >= h, and T is monotone, so the policy that is greedy after
any number of sweeps is at least as good as the old one (Puterman and Shin 1978). On a 100×100 grid whose best
place had moved, 30 sweeps reduced 23 factorisations to 6 from the last policy, and 17 to 5 from a cold start.

**Discounted rewards**: runs that stop with probability `restart` = 1 - gamma at each step. The values of a
policy solve (I - (1 - restart) P) h = reward, whatever its classes; taking better entries makes no state
worse, so no policy occurs twice. Only differences of h are compared: a discounted value is a large constant
and small differences, and the constant costs digits. Models that mix fast are solved by sweeps before any of
this (`evaluation`).

**With a horizon** backward induction, one sweep from the last step to the first, is exact:

h_H = 0,    h_t(s) = max_a reward_t(s, a) + sum_s' P(s' | s, a) h_{t+1}(s').
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover.checks import FloatArray, IntArray, Matrix
from rhocover.errors import SolverError
from rhocover.occupancy import Occupancies
from rhocover.oracles.evaluation import (
    Factor,
    best_class,
    best_values,
    distribution,
    evaluate,
    values_by_sweeps,
    visits_by_sweeps,
)
from rhocover.oracles.response import EPSILON, Choices, Response, ScaledReward, check_warm, refuse_floor

# Improvement over several steps.

LOOK_AHEAD = 30  # sweeps; on a 100×100 grid they cost half a factorisation, and more save little
FIRST_LOOK = 100  # sweeps before a cold start


def improved(
    choices: Choices, reward: FloatArray, h: FloatArray, keep: float, noise: FloatArray, chosen: IntArray
) -> IntArray:
    """Returns better entries than the chosen ones, or the same if none is better by more than rounding.

    The operator is T h = max (reward + keep P h) over the entries of each state, h the values of
    the chosen ones, and `noise` bounds the error of h in each state.
    """
    transitions, node = choices.members.mdp.transitions, choices.node
    size = np.abs(reward) + np.abs(h)[node] + transitions @ np.abs(h)
    error = choices.num_terms * EPSILON * size + noise[node] + transitions @ noise
    better = choices.better(reward + keep * (transitions @ h) - h[node], error, chosen)
    if np.array_equal(better, chosen):
        return chosen
    h = swept(choices, reward, h, keep, LOOK_AHEAD)
    return choices.better(reward + keep * (transitions @ h) - h[node], error, better)


def first_look(choices: Choices, reward: FloatArray, keep: float) -> tuple[IntArray, FloatArray]:
    """Returns the entries that are greedy after some sweeps from zero, and the values `[S]` behind them."""
    h = swept(choices, reward, np.zeros(choices.num_nodes), keep, min(FIRST_LOOK, choices.num_nodes))
    return choices.greedy(reward + keep * (choices.members.mdp.transitions @ h)), h


def swept(choices: Choices, reward: FloatArray, h: FloatArray, keep: float, sweeps: int) -> FloatArray:
    """Returns the values `[S]` after a number of sweeps."""
    P = choices.members.mdp.transitions
    return best_values(P.indptr, P.indices, P.data, choices.first, reward, keep, h, sweeps)


# Discounted rewards.

MAX_ITERATIONS = 200  # 2 to 20 are usual


def discounted(question: ScaledReward, warm: Response | None, method: str) -> Response:
    """Returns the best response over a discounted set, from the last answer or a cold start."""
    choices = question.choices
    members = choices.members
    restart = 1 - float(members.discount or 0.0)
    first = np.zeros(choices.num_nodes) if warm is None else warm.potential / question.size
    h = values_by_sweeps(choices, question.reward, first, 1 - restart)
    if h is not None:
        chosen = choices.greedy(question.reward + choices.onward @ h)
        mass = visits_of(members.mdp.transitions[chosen], restart, members.inflow)
        return _discounted_answer(question, chosen, mass, h, 1, method)
    if warm is None:
        chosen, _ = first_look(choices, question.reward, 1 - restart)
    else:
        chosen = choices.chosen(warm.policy)
    end = settled(choices, question.reward, restart, chosen)
    mass = distribution(end.factor.solve_transposed(members.inflow))
    return _discounted_answer(question, end.chosen, mass, end.values, end.iterations, method)


def _discounted_answer(
    question: ScaledReward, chosen: IntArray, mass: FloatArray, h: FloatArray, iterations: int, method: str
) -> Response:
    policy = question.choices.one_hot(chosen)
    return question.answer(mass[question.choices.node] * policy, policy, h, iterations, method)


def visits_of(chain: Matrix, restart: float, inflow: FloatArray) -> FloatArray:
    """Returns the share of time `[S]` that runs from `inflow` spend in each state before they stop."""
    mass = visits_by_sweeps(chain, inflow, 1 - restart)
    return distribution(Factor(chain, restart).solve_transposed(inflow) if mass is None else mass)


@dataclass(frozen=True, eq=False)
class Settled:
    """The result of iterations: the entries, their values, and the factor of their equations."""

    chosen: IntArray  # [S]
    values: FloatArray  # [S]
    factor: Factor
    iterations: int


def settled(choices: Choices, reward: FloatArray, restart: float, chosen: IntArray) -> Settled:
    """Returns the best entries for runs that stop with probability `restart`."""
    transitions, iterations = choices.members.mdp.transitions, 0
    exact = np.zeros(choices.num_nodes)
    while True:
        iterations += 1
        factor = Factor(transitions[chosen], restart)
        h = factor.solve(reward[chosen])
        middle = (float(h.max()) + float(h.min())) / 2
        better = improved(choices, reward - restart * middle, h - middle, 1 - restart, exact, chosen)
        if np.array_equal(better, chosen) or iterations >= MAX_ITERATIONS:
            return Settled(chosen, h, factor, iterations)
        chosen = better


# Backward induction.


def backward_induction(question: ScaledReward, method: str) -> Response:
    """Returns the best response over a set with a horizon."""
    choices = question.choices
    members, h = choices.members, np.zeros(choices.num_nodes)
    q = question.reward.copy()
    for entries, nodes in _steps(choices):
        q[entries] += choices.onward[entries] @ h
        h[nodes] = np.maximum.reduceat(q[entries], choices.first[nodes] - entries.start)
    policy = choices.one_hot(choices.greedy(q))
    return question.answer(members.from_policy(policy), policy, h, 1, method)


def _steps(choices: Choices) -> list[tuple[slice, slice]]:
    """Returns the entries and the nodes of each step, the last step first."""
    step, num_steps = choices.members.step, choices.members.num_steps or 1
    entry = np.searchsorted(step, np.arange(num_steps + 1))
    node = np.searchsorted(choices.first, entry)
    return [(slice(entry[t], entry[t + 1]), slice(node[t], node[t + 1])) for t in reversed(range(num_steps))]


# Average reward.

NAME = "policy_iteration"
TOLERANCE = 1e-8  # of the largest |reward|: a larger gap is an error
FINISHED = 1e-11  # iterations end at this gap; rounding leaves 1e-13 to 1e-11
RESTART = 1e-13  # probability of a jump to the anchor; it changes gains by that times the bias
STOP = 1e-4  # probability that a run stops, in `_polished`: values are then accurate to 1e-12
WARM_ITERATIONS = 20  # a warm start that needs more is given up; 2 to 7 are usual
MOVED = 0.25  # an answer that may be this much below the best is not used as a start
WARM_GAP = 1e-10  # a warm start that ends above it is followed by a cold one
MAX_POLISH = 30
STALLED = 0.5  # `_polished` gives up if it leaves more of the gap than this


@dataclass(frozen=True, eq=False)
class _Stage:
    """The result of iterations."""

    chosen: IntArray  # entries, [S]
    potential: FloatArray  # [S]
    gain: float
    gap: float  # certified, rounding included
    iterations: int


class PolicyIteration:
    """Best responses by policy iteration, over a set without a floor; communicating if average."""

    def __init__(self, members: Occupancies) -> None:
        refuse_floor(members, NAME)
        self.members = members
        self.choices = Choices(members)

    def respond(self, reward: Any, *, warm: Response | None = None) -> Response:
        """Returns a best response to `reward`; `warm` is the answer to a similar one."""
        question = ScaledReward.of(self.choices, reward)
        check_warm(self.members, warm)
        if self.members.criterion == "horizon":
            return backward_induction(question, NAME)
        if self.members.criterion == "discounted":
            return discounted(question, warm, NAME)
        return _average(question, warm)


def _average(question: ScaledReward, warm: Response | None) -> Response:
    spent = 0
    stage = _swept(question, warm)
    if stage is not None:
        return _answer(question, stage)
    stage = None if warm is None else _warm(question, warm)
    if stage is not None:
        answer = _answer(question, stage)
        if answer.gap <= WARM_GAP * question.size:
            return answer
        spent = answer.iterations
    answer = _answer(question, _cold(question), spent)
    if answer.gap > TOLERANCE * question.size:
        raise SolverError(
            f"policy iteration stopped after {answer.iterations} iterations with a gap of "
            f"{answer.gap / question.size:.1e} times the largest reward, expected {TOLERANCE:g}. "
            "Use method='lp'."
        )
    return answer


def _swept(question: ScaledReward, warm: Response | None) -> _Stage | None:
    """Returns the result of sweeps alone, from the last answer or a cold start; None if they are slow."""
    choices = question.choices
    first = np.zeros(choices.num_nodes) if warm is None else warm.potential / question.size
    h = values_by_sweeps(choices, question.reward, first, 1.0)
    if h is None:
        return None
    advantage, error = question.advantage(h)
    chosen = choices.greedy(advantage)
    gain = float(advantage[chosen].min())  # every class earns that much
    gap = float((advantage + error).max()) - gain
    return _Stage(chosen, h, gain, gap, 1) if gap <= FINISHED else None


def _warm(question: ScaledReward, warm: Response) -> _Stage | None:
    """Returns the result of iterations from the last answer; None if that is far from the best."""
    choices = question.choices
    h = swept(choices, question.reward, warm.potential / question.size, 1.0, LOOK_AHEAD)
    advantage, _ = question.advantage(h)
    possible = float(advantage.max())
    if possible - float(question.reward @ warm.occupancy) > MOVED * abs(possible):
        return None
    mass = np.bincount(choices.node, warm.occupancy)
    stage = _howard(question, choices.greedy(advantage), int(np.argmax(mass)), WARM_ITERATIONS)
    return _polished(question, stage)


def _cold(question: ScaledReward) -> _Stage:
    """Returns the result of iterations from a policy that is greedy after some value iteration."""
    chosen, h = first_look(question.choices, question.reward, 1 - STOP)
    return _polished(question, _howard(question, chosen, int(np.argmax(h)), MAX_ITERATIONS))


def _howard(question: ScaledReward, chosen: IntArray, anchor: int, limit: int) -> _Stage:
    """Returns the result of policy iteration in the model with jumps to the anchor."""
    choices, iterations = question.choices, 0
    while True:
        iterations += 1
        result = evaluate(choices.chain(chosen), question.reward[chosen], anchor, RESTART)
        anchor = result.anchor
        advantage, error = question.advantage(result.bias)
        gap = float((advantage + error).max()) - result.gain
        stage = _Stage(chosen, result.bias, result.gain, gap, iterations)
        if gap <= FINISHED or iterations >= limit:
            return stage
        reward = question.reward - result.gain
        chosen = improved(choices, reward, result.bias, 1 - RESTART, result.noise, chosen)
        if np.array_equal(chosen, stage.chosen):
            return stage


def _polished(question: ScaledReward, stage: _Stage) -> _Stage:
    """Returns the stage with a policy and a potential that certify each other, if there are any.

    Value iteration would find it: its bound max (T h - h) falls with every sweep, but a class that is hardly
    ever left needs as many sweeps as steps until it is left. One implicit step replaces 1/STOP sweeps:
    h <- the value of runs that stop with probability STOP at each step and then earn the last h.
    """
    choices = question.choices
    for _ in range(MAX_POLISH):
        if stage.gap <= FINISHED:
            break
        h = stage.potential
        reward = (1 - STOP) * (question.reward - stage.gain) + STOP * h[choices.node]
        end = settled(choices, reward, STOP, stage.chosen)
        chosen, h = end.chosen, end.values
        advantage, error = question.advantage(h)
        gain = max(stage.gain, float(advantage[chosen].min()))  # every class earns that much
        gap = float((advantage + error).max()) - gain
        polished = _Stage(chosen, h, gain, gap, stage.iterations + end.iterations)
        if gap > STALLED * stage.gap:
            return min(stage, polished, key=lambda one: one.gap)
        stage = polished
    return stage


def _answer(question: ScaledReward, stage: _Stage, spent: int = 0) -> Response:
    """Returns the response whose occupancy is that of the policy's best class."""
    choices = question.choices
    mass = best_class(choices.chain(stage.chosen), question.reward[stage.chosen], stage.potential)
    policy = choices.one_hot(stage.chosen)
    occupancy = mass[choices.node] * policy
    return question.answer(occupancy, policy, stage.potential, spent + stage.iterations, NAME)
