"""The linear program max <reward, d> over {F d = g, sum d = 1, d >= 2 eta}, solved by HiGHS.

With a floor the best member is not the occupancy of a deterministic policy: 2 eta > 0 in one state fixes
how often the others are entered, so the states are coupled and dynamic programming does not apply. The
constraints are built once; explorers keep the oracle and bring a new reward each time. The multipliers of
the flow rows are the potential h of the certificate.
"""

from __future__ import annotations

from typing import Any

from rhocover.linear_program import InfeasibleProgramError, LinearProgram
from rhocover.occupancy import Occupancies
from rhocover.oracles.choices import Choices
from rhocover.oracles.response import Question, Response

NAME = "lp"


class LPOracle:
    """Best responses by linear programming, over a set with or without a floor.

    `keep_basis=True` starts each solve from the last: faster on random models and chains, slower on
    grids, and answers may then depend on what was asked before (see `rhocover.linear_program`).
    """

    def __init__(self, members: Occupancies, *, keep_basis: bool = False) -> None:
        self.members = members
        self.choices = Choices(members)
        self.program = LinearProgram(*members.equations(), members.floor, keep_basis=keep_basis)

    def respond(self, reward: Any, *, warm: Response | None = None) -> Response:
        """Returns a best response to `reward`; `warm` is accepted and not used."""
        question = Question.of(self.choices, reward)
        try:
            solution = self.program.solve(question.reward)
        except InfeasibleProgramError:
            self.members.check_floor()  # says which floor this model allows
            raise
        d = solution.x.copy()
        policy = self.members.flatten(self.members.to_policy(d), "policy")
        potential = solution.dual[: self.choices.num_nodes].copy()
        return question.answer(d, policy, potential, solution.iterations, NAME)
