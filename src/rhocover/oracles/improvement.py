"""Policy improvement that looks further than one step.

Howard's step takes in each state the entry that is best if the old policy goes on afterwards. News of a
better place then travels one change of policy at a time, and each costs a factorisation. Sweeps of value
iteration, h <- T h, carry it one state further each and cost a hundredth. With h the value of the old
policy, T h >= h, and T is monotone, so the policy that is greedy after any number of sweeps is at
least as good as the old one (Puterman and Shin 1978). On a 100×100 grid whose best place had moved, 30
sweeps reduced 23 factorisations to 6 from the last policy, and 17 to 5 from nothing.
"""

from __future__ import annotations

import numpy as np

from rhocover.checks import FloatArray, IntArray
from rhocover.oracles.choices import EPSILON, Choices
from rhocover.oracles.kernels import best_values

LOOK_AHEAD = 30  # sweeps; on a 100×100 grid they cost half a factorisation, and more save little
FIRST_LOOK = 100  # sweeps before a cold start


def improved(
    choices: Choices, reward: FloatArray, h: FloatArray, keep: float, noise: FloatArray, chosen: IntArray
) -> IntArray:
    """Returns better entries than the chosen ones, or the same if none is better by more than rounding.

    The operator is T h = max (reward + keep P h) over the entries of each state, h the values of
    the chosen ones, and `noise` what h may be off by in each state.
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
    """Returns the values `[S]` after so many sweeps."""
    P = choices.members.mdp.transitions
    return best_values(P.indptr, P.indices, P.data, choices.first, reward, keep, h, sweeps)
