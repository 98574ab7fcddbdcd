"""Howard's policy iteration: evaluate the policy by one sparse solve, then take better entries, repeat.

**Average reward.** Textbook policy iteration assumes that every policy has one recurrent class. Here greedy
policies have many, or nearly: on a slippery grid a policy that likes two far corners needs 1e14 steps
from one to the other, its bias is lost in rounding, and the iteration wanders about. So the model is
perturbed. After each step, with probability `restart`, it jumps back to one state, the anchor. Then
every policy has one recurrent class, Howard's proof holds, and the restart is made small in two stages,
from 1e-4 (biases up to 1e4, accurate to 1e-12) to 1e-13, where it changes gains by 1e-13 times the bias.
The anchor moves to the state visited most.

An entry replaces another only if it is better by more than rounding, so ties never cycle. A warm start
goes straight to the last stage, and falls back on a cold one if a few iterations do not finish it.

The certificate is that of the model without restarts (`Question.upper_bound`), so nothing rests on
the perturbation being small. Where several classes earn the same, the bias is rounding times 1e13 in those
without the anchor: the policy is optimal, its bias proves nothing. Then the potential is polished
(`_polished`).

The model must be communicating (see `components` for those that are not). **Discounted reward** needs
none of this, and **horizon** is backward induction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rhocover.checks import FloatArray, IntArray
from rhocover.errors import SolverError
from rhocover.occupancy import Occupancies
from rhocover.oracles.backward import backward_induction
from rhocover.oracles.choices import Choices
from rhocover.oracles.evaluation import Factor, best_class, distribution, evaluate
from rhocover.oracles.response import EPSILON, Question, Response, centred, refuse_floor

NAME = "policy_iteration"
TOLERANCE = 1e-8  # of the largest |reward|: an answer with a larger gap is an error, not an answer
FINISHED = 1e-11  # iterations end at this gap; rounding leaves 1e-13 to 1e-11
COARSE, FINE = 1e-4, 1e-13  # restart probabilities
SWEEPS = 300  # of value iteration before a cold start; each costs 1/60 of a factorisation
MAX_ITERATIONS = 200  # of a stage; 3 to 50 are usual
WARM_ITERATIONS = 8  # a warm start that needs more is slower than a cold one
WARM_GAP = 1e-10  # a warm start that ends above it is followed by a cold one
MAX_POLISH = 30


@dataclass(frozen=True, eq=False)
class _Stage:
    """Where iterations ended."""

    chosen: IntArray  # entries, [S]
    potential: FloatArray  # [S]
    gain: float
    anchor: int  # for the next stage
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
        question = Question.of(self.choices, reward)
        if self.members.criterion == "horizon":
            return backward_induction(question, NAME)
        chosen = None if warm is None else self.choices.chosen(warm.policy)
        if self.members.criterion == "discounted":
            return _discounted(question, chosen)
        return _average(question, chosen, warm)


def _average(question: Question, chosen: IntArray | None, warm: Response | None) -> Response:
    spent = 0
    if chosen is not None and warm is not None:
        mass = np.bincount(question.choices.node, warm.occupancy)
        stage = _howard(question, chosen, int(np.argmax(mass)), FINE, WARM_ITERATIONS)
        answer = _answer(question, _polished(question, stage), stage.iterations)
        if answer.gap <= WARM_GAP * question.size:
            return answer
        spent = stage.iterations
    coarse, fine = _cold(question)
    answer = _answer(question, fine, spent + coarse.iterations + fine.iterations)
    if answer.gap > TOLERANCE * question.size:
        raise SolverError(
            f"policy iteration stopped after {answer.iterations} iterations with a gap of "
            f"{answer.gap / question.size:.1e} times the largest reward, expected {TOLERANCE:g}. "
            "Use method='lp'."
        )
    return answer


def _cold(question: Question) -> tuple[_Stage, _Stage]:
    """Returns both stages, from a policy that is greedy after some value iteration."""
    h = _swept(question, min(SWEEPS, question.choices.num_nodes), 1 - COARSE)
    chosen = question.choices.greedy(question.reward + question.choices.onward @ h)
    coarse = _howard(question, chosen, int(np.argmax(h)), COARSE)
    fine = _howard(question, coarse.chosen, coarse.anchor, FINE)
    return coarse, _polished(question, fine)


def _howard(
    question: Question, chosen: IntArray, anchor: int, restart: float, limit: int = MAX_ITERATIONS
) -> _Stage:
    """Returns where policy iteration ends in the model that restarts at the anchor."""
    choices, iterations = question.choices, 0
    while True:
        iterations += 1
        result = evaluate(choices.chain(chosen), question.reward[chosen], anchor, restart)
        anchor = result.anchor
        advantage, error = question.advantage(result.bias)
        perturbed = advantage - restart * (choices.onward @ result.bias)
        noise = choices.onward @ result.noise + result.noise[choices.node]
        better = _better(choices, perturbed, error + noise, chosen)
        done = float((advantage + error).max()) - result.gain <= FINISHED
        if done or iterations >= limit or np.array_equal(better, chosen):
            break
        chosen = better
    gap = float((advantage + error).max()) - result.gain
    return _Stage(chosen, result.bias, result.gain, result.likeliest(), gap, iterations)


def _polished(question: Question, stage: _Stage) -> _Stage:
    """Returns the stage with a policy and a potential that certify each other, if there are any.

    Value iteration would find it: its bound max (T h - h) falls with every sweep, but a class that is
    hardly ever left takes as many sweeps as that takes. One implicit step is worth 1/COARSE of them:
    h <- the value of runs that end with probability COARSE a step and are then paid the last h.
    """
    choices, chosen, h, gap = question.choices, stage.chosen, stage.potential, stage.gap
    for _ in range(MAX_POLISH):
        if gap <= FINISHED:
            break
        reward = (1 - COARSE) * (question.reward - stage.gain) + COARSE * h[choices.node]
        chosen, h, _ = _settled(choices, reward, COARSE, chosen)
        advantage, error = question.advantage(h)
        gap = float((advantage + error).max()) - stage.gain
    return replace(stage, chosen=chosen, potential=h, gap=gap)


def _better(choices: Choices, advantage: FloatArray, error: FloatArray, chosen: IntArray) -> IntArray:
    """Returns the best entry of each node where it beats the chosen one by more than rounding."""
    best = choices.greedy(advantage)
    certain = advantage[best] - error[best] > advantage[chosen] + error[chosen]
    return np.where(certain, best, chosen)


def _swept(question: Question, sweeps: int, discount: float) -> FloatArray:
    """Returns the values after some sweeps of value iteration, `[rows]`."""
    choices = question.choices
    h = np.zeros(choices.num_nodes)
    for _ in range(sweeps):
        h = choices.best(question.reward + discount * (choices.onward @ h))
    return h


def _answer(question: Question, stage: _Stage, iterations: int) -> Response:
    """Returns the response whose occupancy is that of the policy's best class."""
    choices = question.choices
    mass = best_class(choices.chain(stage.chosen), question.reward[stage.chosen], stage.potential)
    policy = choices.one_hot(stage.chosen)
    return question.answer(mass[choices.node] * policy, policy, stage.potential, iterations, NAME)


def _discounted(question: Question, chosen: IntArray | None) -> Response:
    choices = question.choices
    members = choices.members
    restart = 1 - float(members.discount or 0.0)
    if chosen is None:
        h = _swept(question, min(SWEEPS, choices.num_nodes), 1.0)
        chosen = choices.greedy(question.reward + choices.onward @ h)
    chosen, h, iterations = _settled(choices, question.reward, restart, chosen)
    factor = Factor(members.mdp.transitions[chosen], restart)
    mass = distribution(factor.solve_transposed(members.inflow))
    policy = choices.one_hot(chosen)
    return question.answer(mass[choices.node] * policy, policy, h, iterations, NAME)


def _settled(
    choices: Choices, reward: FloatArray, restart: float, chosen: IntArray
) -> tuple[IntArray, FloatArray, int]:
    """Returns the best policy for rewards that stop with probability `restart` a step, and its values."""
    transitions, iterations = choices.members.mdp.transitions, 0
    while True:
        iterations += 1
        h = Factor(transitions[chosen], restart).solve(reward[chosen])
        c = centred(h)  # a constant changes no comparison, and costs digits
        here, onward = c[choices.node], (1 - restart) * (transitions @ c)
        error = choices.num_terms * EPSILON * (np.abs(reward) + np.abs(here) + transitions @ np.abs(c))
        better = _better(choices, reward + onward - here, error, chosen)
        if np.array_equal(better, chosen) or iterations >= MAX_ITERATIONS:
            return chosen, h, iterations
        chosen = better
