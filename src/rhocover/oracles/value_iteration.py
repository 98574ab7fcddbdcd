"""Value iteration: sweeps h <- h + step (max over entries of reward + K h - h), without factorisations.

For the average reward `step` < 1 adds a probability to stay, which makes every chain aperiodic without
changing gains; otherwise a cycle of two states would oscillate forever. For the discounted reward it is 1.
The upper bound needs only the sweep itself, max_s (T h - h)(s) plus the inflow term, and falls with every
sweep to the best gain, whatever the classes of the model. The lower bound is what the greedy policy
earns; it costs a solve, so it is computed when the span of T h - h is small, and at doubling sweeps. Only
differences of h matter for either criterion, so h is centred after each sweep and never grows.

With a horizon this is backward induction.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rhocover.checks import FloatArray
from rhocover.errors import SolverError
from rhocover.occupancy import Occupancies
from rhocover.oracles.evaluation import best_class
from rhocover.oracles.policy_iteration import backward_induction, visits_of
from rhocover.oracles.response import Choices, Response, ScaledReward, centred, check_warm, refuse_floor

NAME = "value_iteration"
APERIODIC_STEP = 0.9  # any value below 1 works; 0.9 is hardly slower


class ValueIteration:
    """Best responses by value iteration, over a set without a floor.

    `tol` is the gap to reach, in units of the largest |reward|.
    """

    def __init__(self, members: Occupancies, *, tol: float = 1e-9, max_sweeps: int = 1_000_000) -> None:
        refuse_floor(members, NAME)
        self.members = members
        self.choices = Choices(members)
        self.tol = tol
        self.max_sweeps = max_sweeps

    def respond(self, reward: Any, *, warm: Response | None = None) -> Response:
        """Returns a best response to `reward`; `warm` is the answer to a similar one."""
        question = ScaledReward.of(self.choices, reward)
        check_warm(self.members, warm)
        if self.members.criterion == "horizon":
            return backward_induction(question, NAME)
        h = np.zeros(self.choices.num_nodes) if warm is None else warm.potential / question.size
        return self._sweep(question, h)

    def _sweep(self, question: ScaledReward, h: FloatArray) -> Response:
        choices, check, sweep = self.choices, 64, 0
        step = 1.0 if self.members.discount is not None else APERIODIC_STEP
        while True:
            sweep += 1
            change = choices.best(question.reward + choices.onward @ h) - h
            if np.ptp(change) <= self.tol or sweep in (check, self.max_sweeps):
                answer = self._answer(question, h, sweep)
                if answer.gap <= 2 * self.tol * question.size:  # twice: rounding adds to the gap
                    return answer
                if sweep >= self.max_sweeps:
                    raise self._failure(answer.gap / question.size)
                check = max(check, 2 * sweep)
            h = centred(h + step * change)

    def _failure(self, gap: float) -> SolverError:
        return SolverError(
            f"value iteration stopped after {self.max_sweeps} sweeps with a gap of {gap:.1e} times the "
            f"largest reward, expected {self.tol:g}. Raise max_sweeps, or use method='policy_iteration'."
        )

    def _answer(self, question: ScaledReward, h: FloatArray, sweep: int) -> Response:
        choices, members = self.choices, self.members
        chosen = choices.greedy(question.reward + choices.onward @ h)
        chain = members.mdp.transitions[chosen]
        if members.discount is None:
            mass = best_class(chain, question.reward[chosen], h)
        else:
            mass = visits_of(chain, 1 - members.discount, members.inflow)
        policy = choices.one_hot(chosen)
        return question.answer(mass[choices.node] * policy, policy, h, sweep, NAME)
