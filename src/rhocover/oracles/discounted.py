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
from rhocover.oracles.improvement import first_look, improved
from rhocover.oracles.response import Question, Response

MAX_ITERATIONS = 200  # 2 to 20 are usual


def discounted(question: Question, warm: Response | None, method: str) -> Response:
    """Returns the best response over a discounted set, from the last answer or from nothing."""
    choices = question.choices
    members = choices.members
    restart = 1 - float(members.discount or 0.0)
    if warm is None:
        chosen, _ = first_look(choices, question.reward, 1 - restart)
    else:
        chosen = choices.chosen(warm.policy)
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
    exact = np.zeros(choices.num_nodes)
    while True:
        iterations += 1
        h = Factor(transitions[chosen], restart).solve(reward[chosen])
        middle = (float(h.max()) + float(h.min())) / 2
        better = improved(choices, reward - restart * middle, h - middle, 1 - restart, exact, chosen)
        if np.array_equal(better, chosen) or iterations >= MAX_ITERATIONS:
            return chosen, h, iterations
        chosen = better
