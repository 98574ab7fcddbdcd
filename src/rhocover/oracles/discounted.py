"""Policy iteration for discounted rewards: runs that stop with probability `restart` = 1 - gamma a step.

The values of a policy solve (I - (1 - restart) P) h = reward, whatever its classes; taking better entries
makes no state worse, so no policy comes twice. Only differences of h are compared: a discounted value
is a large constant and small differences, and the constant costs digits. Models that mix fast are settled
by sweeps before any of this (`sweeping`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rhocover.checks import FloatArray, IntArray, Matrix
from rhocover.oracles.choices import Choices
from rhocover.oracles.evaluation import Factor, distribution
from rhocover.oracles.improvement import first_look, improved
from rhocover.oracles.response import Question, Response
from rhocover.oracles.sweeping import values_by_sweeps, visits_by_sweeps

MAX_ITERATIONS = 200  # 2 to 20 are usual


def discounted(question: Question, warm: Response | None, method: str) -> Response:
    """Returns the best response over a discounted set, from the last answer or from nothing."""
    choices = question.choices
    members = choices.members
    restart = 1 - float(members.discount or 0.0)
    first = np.zeros(choices.num_nodes) if warm is None else warm.potential / question.size
    h = values_by_sweeps(choices, question.reward, first, 1 - restart)
    if h is not None:
        chosen = choices.greedy(question.reward + choices.onward @ h)
        mass = visits_of(members.mdp.transitions[chosen], restart, members.inflow)
        return _answer(question, chosen, mass, h, 1, method)
    if warm is None:
        chosen, _ = first_look(choices, question.reward, 1 - restart)
    else:
        chosen = choices.chosen(warm.policy)
    end = settled(choices, question.reward, restart, chosen)
    mass = distribution(end.factor.solve_transposed(members.inflow))
    return _answer(question, end.chosen, mass, end.values, end.iterations, method)


def _answer(
    question: Question, chosen: IntArray, mass: FloatArray, h: FloatArray, iterations: int, method: str
) -> Response:
    policy = question.choices.one_hot(chosen)
    return question.answer(mass[question.choices.node] * policy, policy, h, iterations, method)


def visits_of(chain: Matrix, restart: float, inflow: FloatArray) -> FloatArray:
    """Returns the share of time `[S]` that runs from `inflow` spend in each state before they stop."""
    mass = visits_by_sweeps(chain, inflow, 1 - restart)
    return distribution(Factor(chain, restart).solve_transposed(inflow) if mass is None else mass)


@dataclass(frozen=True, eq=False)
class Settled:
    """Where iterations ended: the entries, their values, and the factor behind those."""

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
