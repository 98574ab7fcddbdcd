"""Backward induction: with a horizon one sweep from the last step to the first is exact.

h_H = 0,    h_t(s) = max_a reward_t(s, a) + sum_s' P(s' | s, a) h_{t+1}(s').
"""

from __future__ import annotations

import numpy as np

from rhocover.oracles.choices import Choices
from rhocover.oracles.response import Question, Response


def backward_induction(question: Question, method: str) -> Response:
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
