"""Which conditions cannot be met, with a proof; and the best value that a policy can have.

Conditions are rows <a_k, d> <= b_k over an occupancy set D. With weights lambda >= 0 that sum to 1,

    max_{d in D}  sum_k lambda_k (b_k - <a_k, d>) / size_k  <  0

proves that no occupancy meets all of them (Farkas): a sum of quantities that must all be at least 0 is below
it. The left side is one best response, and its bound is certified by the oracle (`oracles.response`),
rounding included. So the weights may come from anywhere: a condition alone has weight 1, and a combination
gets its weights from the linear program that makes the smallest room t as large as possible,

    max t   s.t.   d in D,   (b_k - <a_k, d>) / size_k >= t   for all k.

If the best t is (almost) 0, the conditions can be met, but without any room: only the policies that are best
for one of them remain, and coverage is no longer a choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from rhocover.checks import FloatArray
from rhocover.errors import InfeasibleConditionsError
from rhocover.linear_program import LinearProgram
from rhocover.mdp import MDP, check_mdp
from rhocover.occupancy import Occupancies
from rhocover.oracles import best_response
from rhocover.planning.conditions import Sides, unit_of, values_per_entry
from rhocover.planning.groups import SideCondition
from rhocover.planning.problem import reachable_part

if TYPE_CHECKING:
    from rhocover.arguments import Start, Values

ROOM = 1e-9  # of the size of a condition: less is rounding, and the program has no interior
WEIGHTLESS = 1e-9  # multipliers sum to 1; those below this come from rounding in the linear program

# The best value.


def best(
    mdp: MDP,
    reward: Values,
    *,
    discount: float | None = None,
    horizon: int | None = None,
    start: Start | None = None,
) -> float:
    """Returns the largest value of `reward` that a policy can have.

    `reward` has one value per pair (`[S, A]` or `[n]`) or per state (`[S]`), or is a function of the model.
    The value is the average per step, in the long run or over discounted visits; with a horizon it is the
    total of an episode. These are the units of `at_least`.

    >>> import rhocover as rc
    >>> river = rc.envs.river_swim()
    >>> reward = [[0.005, 0]] + [[0, 0]] * 4 + [[0, 1]]
    >>> round(rc.best(river, reward), 6)
    0.428622
    """
    check_mdp(mdp)
    members = Occupancies.of(mdp, discount=discount, horizon=horizon, start=start)
    values = values_per_entry(members, reward, "reward")
    if members.criterion == "average":
        kept = reachable_part(mdp)
        members, values = Occupancies.average(mdp.subset(kept)[0]), values[kept]
    return unit_of(members) * best_response(members, values).value


# What cannot be met.


def conflict(members: Occupancies, sides: Sides) -> InfeasibleConditionsError | None:
    """Returns the error about conditions that cannot be met, or not with any room; None if they can be."""
    alone = [best_response(members, -row.row) for row in sides.rows]
    for k, answer in enumerate(alone):
        if answer.value <= ROOM:
            return _alone(sides, k, answer.value, is_proved=answer.upper_bound < 0)
    if len(sides.rows) < 2:
        return None
    room, weights = _most_room(members, sides.rows)
    if room > ROOM:
        return None
    involved = np.flatnonzero(weights > WEIGHTLESS)
    weights = weights[involved] / weights[involved].sum()
    total = -sum(
        weight * sides.rows[k].row for weight, k in zip(weights.tolist(), involved.tolist(), strict=True)
    )
    is_proved = best_response(members, total).upper_bound < 0
    return _together(members, sides, involved.tolist(), weights, is_proved=is_proved)


def _most_room(members: Occupancies, rows: tuple[SideCondition, ...]) -> tuple[float, FloatArray]:
    """Returns the largest t of the chapter above, and the multipliers of its rows."""
    matrix, right_side = members.equations()
    count, A = len(rows), np.array([row.row for row in rows])
    program = LinearProgram(
        sp.block_array(
            [[matrix, None, None], [sp.csr_array(A), sp.eye_array(count), np.ones((count, 1))]], format="csr"
        ),
        np.append(right_side, np.zeros(count)),
        np.append(np.zeros(A.shape[1] + count), -2.0),  # rows of A are in [-1, 1]
    )
    costs = np.zeros(A.shape[1] + count + 1)
    costs[-1] = 1.0
    solution = program.solve(costs)
    return float(solution.x[-1]), np.maximum(solution.dual[-count:], 0.0)


def _best_under(members: Occupancies, rows: list[SideCondition], reward: FloatArray) -> float:
    """Returns the largest <reward, d> of the occupancies that satisfy the rows."""
    matrix, right_side = members.equations()
    count, A = len(rows), np.array([row.row for row in rows])
    blocks = [[matrix, None], [sp.csr_array(A), sp.eye_array(count)]]
    program = LinearProgram(sp.block_array(blocks, format="csr"), np.append(right_side, np.zeros(count)), 0.0)
    return program.solve(np.append(reward, np.zeros(count))).value


def _alone(sides: Sides, k: int, room: float, *, is_proved: bool) -> InfeasibleConditionsError:
    """Returns the error about an end of a condition that no policy meets, or only the best one does."""
    source = sides.source[k]
    demand, extreme, value, change = _end(sides, k, room)
    name = sides.name(source)
    if is_proved:
        text = f"no policy has {name} {demand}: the {extreme} possible value is {value:.9g}."
        remedy = f"{change} the limit."
    else:
        text = (
            f"{name} {demand} leaves no choice: {value:.9g} is its {extreme} possible value, and only the "
            "policies that attain it meet the condition."
        )
        remedy = f"{change} the limit a little."
    return InfeasibleConditionsError(text, [source], value, [1.0], argument="subject_to", remedy=remedy)


def _together(
    members: Occupancies, sides: Sides, involved: list[int], weights: FloatArray, *, is_proved: bool
) -> InfeasibleConditionsError:
    """Returns the error about conditions that no policy meets together."""
    first, *others = involved
    row = sides.rows[first]
    room = _best_under(members, [sides.rows[k] for k in others], -row.row)
    _, extreme, value, _ = _end(sides, first, room)
    names = [f"{sides.name(sides.source[k])} {_end(sides, k, 0.0)[0]}" for k in involved]
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    under = f"with the other{'s' if len(others) > 1 else ''} the {extreme} possible value of the first"
    if is_proved:
        text = f"no policy has {listed}; {under} is {value:.9g}."
    else:
        text = f"{listed} together leave no choice; {under} is exactly its limit."
    return InfeasibleConditionsError(
        text, [sides.source[k] for k in involved], value, weights.tolist(),
        argument="subject_to", remedy="Relax one of the limits.",
    )  # fmt: skip


def _end(sides: Sides, k: int, room: float) -> tuple[str, str, float, str]:
    """Returns an end of a condition in words, which extreme it limits, that value, and how to relax it."""
    row, condition = sides.rows[k], sides.conditions[sides.source[k]]
    if row.limit == condition.high and row.values is sides.values[sides.source[k]]:
        return f"at most {condition.high:g}", "smallest", condition.high - room * row.size, "Raise"
    return f"at least {condition.low:g}", "largest", condition.low + room * row.size, "Lower"
