"""Policy iteration for discounted rewards: runs that stop with probability `restart` = 1 - gamma a step.

The values of a policy solve (I - (1 - restart) P) h = reward, whatever its classes; taking better entries
makes no state worse, so no policy comes twice. Only differences of h are compared: a discounted value
is a large constant and small differences, and the constant costs digits.
"""

from __future__ import annotations

import numpy as np

from rhocover.checks import FloatArray, IntArray
from rhocover.oracles.choices import Choices
from rhocover.oracles.evaluation import Factor, distribution
from rhocover.oracles.response import EPSILON, Question, Response, centred

MAX_ITERATIONS = 200  # 3 to 50 are usual
SWEEPS = 300  # of value iteration before a cold start; on a 100×100 grid each costs 1/60 of a factorisation


def discounted(question: Question, chosen: IntArray | None, method: str) -> Response:
    """Returns the best response over a discounted set, from the entries `chosen` or from nothing."""
    choices = question.choices
    members = choices.members
    restart = 1 - float(members.discount or 0.0)
    if chosen is None:
        chosen = choices.greedy(question.reward + choices.onward @ swept(question, 1.0))
    chosen, h, iterations = settled(choices, question.reward, restart, chosen)
    factor = Factor(members.mdp.transitions[chosen], restart)
    mass = distribution(factor.solve_transposed(members.inflow))
    policy = choices.one_hot(chosen)
    return question.answer(mass[choices.node] * policy, policy, h, iterations, method)


def settled(
    choices: Choices, reward: FloatArray, restart: float, chosen: IntArray
) -> tuple[IntArray, FloatArray, int]:
    """Returns the best entries for runs that stop with probability `restart`, their values, iterations."""
    transitions, iterations = choices.members.mdp.transitions, 0
    while True:
        iterations += 1
        h = centred(Factor(transitions[chosen], restart).solve(reward[chosen]))
        here, onward = h[choices.node], (1 - restart) * (transitions @ h)
        error = choices.num_terms * EPSILON * (np.abs(reward) + np.abs(here) + transitions @ np.abs(h))
        better = choices.better(reward + onward - here, error, chosen)
        if np.array_equal(better, chosen) or iterations >= MAX_ITERATIONS:
            return chosen, h, iterations
        chosen = better


def swept(question: Question, discount: float) -> FloatArray:
    """Returns the values `[rows]` after some sweeps of value iteration, a start for policy iteration."""
    choices = question.choices
    h = np.zeros(choices.num_nodes)
    for _ in range(min(SWEEPS, choices.num_nodes)):
        h = choices.best(question.reward + discount * (choices.onward @ h))
    return h
