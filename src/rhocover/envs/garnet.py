"""Garnet: random models with a given number of successors.

Generic average-reward models without structure (Archibald, McKinnon and Thomas 1995; the name is
Bhatnagar et al.'s): nothing in them can be exploited by accident. The draw, with one
`numpy.random.default_rng(seed)` and n = S·A pairs in the order s*A + a:

1. successors, a uniform b-subset of the states for each pair by Floyd's method: for j = S-b, ..., S-1
   draw t uniform on 0..j for all pairs at once; a pair that has t already takes j instead;
2. cut points, b-1 uniforms on [0, 1) for each pair, sorted; the b gaps between 0, the cuts and 1 are
   the probabilities of the successors in the order drawn.
"""

from __future__ import annotations

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, IntArray
from rhocover.envs.outcomes import outcome_matrix
from rhocover.errors import InvalidArgumentError
from rhocover.mdp import MDP


def garnet(
    *,
    num_states: int = 50,
    num_actions: int = 4,
    num_successors: int = 5,
    seed: int = 0,
    self_loop: float = 0.0,
) -> MDP:
    """Returns a Garnet: `num_successors` random successors for each pair, random probabilities.

    `self_loop` mixes in a stay: P becomes (1 - self_loop)·P + self_loop·[stay], usually 0.001 to rule
    out periods. The draw is not repaired: the model is communicating with high probability, not for
    sure. About S·exp(-A·b) states have no way in, so keep A·b well above log S.
    No start and no layout: neither would be natural.
    """
    num_states = checks.size(num_states, "num_states", least=2)
    num_actions = checks.size(num_actions, "num_actions", least=1)
    num_successors = _checked_successors(num_successors, num_states)
    self_loop = checks.probability(self_loop, "self_loop")
    rng = np.random.default_rng(checks.seed(seed))
    states, actions = np.divmod(np.arange(num_states * num_actions), num_actions)
    successors = _subsets(rng, states.size, num_states, num_successors)
    gaps = _gaps(rng, states.size, num_successors)
    outcomes = [
        (states[:, None], actions[:, None], successors, (1 - self_loop) * gaps),
        (states, actions, states, self_loop),
    ]
    rows = outcome_matrix(num_states, num_actions, outcomes)
    return MDP(rows, num_actions=num_actions, name="garnet")


def _checked_successors(num_successors: int, num_states: int) -> int:
    num_successors = checks.size(num_successors, "num_successors", least=1)
    if num_successors > num_states:
        raise InvalidArgumentError(
            f"`num_successors` must be at most num_states={num_states}, got {num_successors}."
        )
    return num_successors


def _subsets(rng: np.random.Generator, num_rows: int, num_states: int, size: int) -> IntArray:
    """Returns a uniform subset of the states for each row, `[num_rows, size]`, without S×n memory."""
    chosen = np.empty((num_rows, size), np.int64)
    for k, last in enumerate(range(num_states - size, num_states)):
        drawn = rng.integers(0, last + 1, size=num_rows)
        taken = (chosen[:, :k] == drawn[:, None]).any(axis=1)
        chosen[:, k] = np.where(taken, last, drawn)
    return chosen


def _gaps(rng: np.random.Generator, num_rows: int, size: int) -> FloatArray:
    """Returns the lengths into which sorted uniforms cut [0, 1], `[num_rows, size]`."""
    cuts = np.sort(rng.random((num_rows, size - 1)), axis=1)
    return np.diff(cuts, axis=1, prepend=0.0, append=1.0)
