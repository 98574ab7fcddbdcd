"""plan(subject_to=...): conditions hold, their prices are slopes, and what cannot be met is refused with a proof."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import rhocover as rc
from rhocover.errors import InfeasibleConditionsError, InvalidArgumentError
from rhocover.oracles import best_response
from rhocover.planning.conditions import read_sides
from rhocover.planning.feasibility import conflict
from tiers import tiered

inf = float("inf")
RIVER = rc.envs.river_swim()
RIGHT = np.array([[0.0, 1.0]] * 6)
REWARD = np.zeros((6, 2))
REWARD[0, 0], REWARD[5, 1] = 0.005, 1.0


@pytest.mark.parametrize(
    ("limit", "rho", "expected"),
    [
        (0.5, 1.0, 0.341036375), (0.5, 2.0, 0.586659695), (0.5, inf, 1.044707024),
        (0.4, 1.0, 0.518404987), (0.4, 2.0, 0.805155821), (0.4, inf, 1.267850575),
        (1.0, 1.0, 0.148958613), (1.0, 2.0, 0.293000580), (1.0, inf, 0.652993087),
    ],
)  # fmt: skip
def test_a_budget_has_the_known_divergence(limit: float, rho: float, expected: float) -> None:
    found = rc.plan(RIVER, rho, subject_to=rc.at_most(RIGHT, limit))
    assert found.divergence == pytest.approx(expected, abs=1e-8)
    assert found.gap <= 1e-8
    assert found.occupancy[:, 1].sum() <= limit + 1e-9
    assert found.conditions[0].value == pytest.approx(found.occupancy[:, 1].sum(), abs=1e-14)


@pytest.mark.parametrize(
    ("share", "rho", "expected"),
    [(0.5, 1.0, 0.405868833), (0.5, 2.0, 0.726788320), (0.5, inf, 1.238889687),
     (0.9, 1.0, 1.503559043), (0.9, 2.0, 2.269313572), (0.9, inf, 2.848327619)],
)  # fmt: skip
def test_a_return_that_is_kept_has_the_known_divergence(share: float, rho: float, expected: float) -> None:
    """The known digits belong to a return that is 1e-9 above this share of the best one: prices are up to 23."""
    best = rc.best(RIVER, REWARD)
    found = rc.plan(RIVER, rho, subject_to=rc.at_least(REWARD, share * best + 1e-9))
    assert found.divergence == pytest.approx(expected, abs=1e-8)
    assert found.gap <= 1e-8


def test_the_best_value_is_known_in_closed_form() -> None:
    """0.42862243 is the return of always right; two steps from the last state earn 1 + 0.6 with right."""
    assert rc.best(RIVER, REWARD) == pytest.approx(0.42862243, abs=1e-8)
    assert rc.best(RIVER, [0, 0, 0, 0, 0, 1], horizon=1, start=5) == 1.0
    assert rc.best(RIVER, REWARD, horizon=2, start=5) == pytest.approx(1.6, abs=1e-12)
    assert rc.best(RIVER, REWARD, discount=0.5, start=5) == pytest.approx(
        best_response(rc.Occupancies.discounted(RIVER, 0.5, start=5), REWARD).value, abs=1e-12
    )


def test_a_component_out_of_reach_has_no_best_value() -> None:
    P = np.zeros((3, 2, 3))
    P[0, 0, 0] = P[0, 1, 1] = P[1, :, 1] = P[2, :, 2] = 1
    assert rc.best(rc.MDP(P), [0, 1, 5]) == 5
    assert rc.best(rc.MDP(P, start=0), [0, 1, 5]) == 1


@pytest.mark.parametrize("rho", tiered([0.0, 0.3, 1.0, 2.0, 8.0, inf], short=[2.0]))
@pytest.mark.parametrize("cover", ["pairs", "states", "transitions"])
def test_a_price_is_the_slope_of_the_optimum(rho: float, cover: str) -> None:
    def at(limit: float) -> rc.Plan:
        return rc.plan(RIVER, rho, cover=cover, subject_to=rc.at_most(RIGHT, limit), tol=1e-11, throw=False)

    step = 1e-4
    slope = (at(0.45 - step).divergence - at(0.45 + step).divergence) / (2 * step)
    assert at(0.45).conditions[0].price == pytest.approx(slope, rel=1e-4)


def test_a_condition_that_does_not_bind_has_no_price() -> None:
    found = rc.plan(RIVER, 2.0, subject_to=[rc.at_most(RIGHT, 0.99), rc.at_most(RIGHT, 2.0)])
    assert [one.price for one in found.conditions] == [0.0, 0.0]
    assert [one.name for one in found.conditions] == ["cost 1", "cost 2"]
    assert found.divergence == pytest.approx(rc.plan(RIVER, 2.0).divergence, abs=2e-8)


def test_both_ends_of_a_range_can_bind() -> None:
    free = rc.plan(RIVER, 2.0).occupancy[:, 1].sum()
    low = rc.plan(RIVER, 2.0, subject_to=rc.within(RIGHT, free + 0.02, free + 0.05)).conditions[0]
    high = rc.plan(RIVER, 2.0, subject_to=rc.within(RIGHT, free - 0.05, free - 0.02)).conditions[0]
    assert low.value == pytest.approx(free + 0.02, abs=1e-8)
    assert high.value == pytest.approx(free - 0.02, abs=1e-8)
    assert low.price > 0 < high.price
    assert low.demand.startswith("from ")


def test_a_condition_on_an_episode_is_about_its_total() -> None:
    """Five moves to the right are needed for the last state; a budget of six for ten steps allows few detours."""
    found = rc.plan(RIVER, 2.0, cover="states", horizon=10, start=0, subject_to=rc.at_most(RIGHT, 6.0))
    assert found.conditions[0].value == pytest.approx(10 * found.occupancy[..., 1].sum(), rel=1e-12)
    assert found.conditions[0].value <= 6 + 1e-8
    per_step = rc.plan(RIVER, 2.0, cover="states", discount=0.9, start=0, subject_to=rc.at_most(RIGHT, 0.6))
    assert per_step.conditions[0].value == pytest.approx(per_step.occupancy[:, 1].sum(), rel=1e-12)
    assert per_step.conditions[0].value <= 0.6 + 1e-9


def test_values_per_state_per_pair_and_of_a_function_are_the_same() -> None:
    ends = np.array([1.0, 0, 0, 0, 0, 1])
    ways = [ends, np.repeat(ends, 2), np.repeat(ends[:, None], 2, axis=1), lambda mdp: ends]
    found = [rc.plan(RIVER, 2.0, subject_to=rc.at_least(way, 0.5)).divergence for way in ways]
    assert len(set(found)) == 1
    members = rc.Occupancies.average(RIVER)
    assert len(read_sides(members, (rc.at_most(ends, 2.0),)).rows) == 0  # it cannot be missed


# --- what cannot be met -----------------------------------------------------------------------------


def refused(asked: object, **arguments: object) -> InfeasibleConditionsError:
    with pytest.raises(InfeasibleConditionsError) as caught:
        rc.plan(RIVER, **({"rho": 2.0, "subject_to": asked} | arguments))
    return caught.value


@pytest.mark.parametrize("rho", tiered([0.0, 0.5, 1.0, 2.0, inf], short=[2.0]))
def test_a_condition_that_no_policy_meets_is_refused_with_the_best_value(rho: float) -> None:
    error = refused(rc.at_least(REWARD, 0.5), rho=rho)
    assert error.conditions == (0,)
    assert error.best == pytest.approx(rc.best(RIVER, REWARD), abs=1e-9)
    assert "no policy has reward at least 0.5: the largest possible value is 0.428622434." in str(error)
    assert error.argument == "subject_to"


def test_a_cost_that_no_policy_avoids_is_refused_with_the_least_value() -> None:
    in_the_first = [1, 0, 0, 0, 0, 0]
    error = refused([rc.at_most(RIGHT, 0.99), rc.at_most(in_the_first, 1e-4)])
    least = -rc.best(RIVER, [-v for v in in_the_first])
    assert error.conditions == (1,)
    assert error.best == pytest.approx(least, abs=1e-9)
    assert "smallest possible value" in str(error)


def test_conditions_that_contradict_each_other_are_named_with_multipliers_that_prove_it() -> None:
    asked = [rc.at_most([1, 1, 0, 0, 0, 0], 0.9), rc.at_least(REWARD, 0.3, name="return"),
             rc.at_most(RIGHT, 0.5, name="right")]  # fmt: skip
    error = refused(asked)
    assert error.conditions == (1, 2)
    assert "return at least 0.3 and right at most 0.5" in str(error)
    members = rc.Occupancies.average(RIVER)
    rows = [read_sides(members, (asked[k],)).rows[0] for k in error.conditions]
    total = -sum(weight * row.row for weight, row in zip(error.multipliers, rows, strict=True))
    assert best_response(members, total).upper_bound < 0
    under = rc.plan(RIVER, 2.0, subject_to=[rc.at_most(RIGHT, 0.5), rc.at_least(REWARD, error.best - 1e-3)])
    assert under.gap <= 1e-8
    assert refused([rc.at_most(RIGHT, 0.5), rc.at_least(REWARD, error.best + 1e-3)]).conditions == (0, 1)


def test_conditions_that_leave_no_choice_are_refused_as_such() -> None:
    assert "leaves no choice" in str(refused(rc.at_least(REWARD, rc.best(RIVER, REWARD))))
    assert "leaves no choice" in str(refused(rc.at_most(RIGHT, 0.0)))
    members, together = rc.Occupancies.average(RIVER), (rc.at_most(RIGHT, 0.5), rc.at_least(RIGHT, 0.5))
    error = conflict(members, read_sides(members, together))
    assert error is not None
    assert "cost at most 0.5 and reward at least 0.5 together leave no choice" in str(error)


def test_a_range_of_no_width_is_met_all_the_same() -> None:
    found = rc.plan(RIVER, 2.0, subject_to=[rc.at_most(RIGHT, 0.5), rc.at_least(RIGHT, 0.5)])
    assert found.conditions[0].value == pytest.approx(0.5, abs=1e-8)
    assert found.divergence == pytest.approx(0.586659695, abs=1e-7)


@pytest.mark.parametrize("share", tiered([0.99, 0.999, 0.9999], short=[0.999]))
@pytest.mark.parametrize("rho", tiered([0.5, 1.0, 2.0, 8.0, inf], short=[2.0]))
def test_conditions_with_little_room_are_met(share: float, rho: float) -> None:
    found = rc.plan(RIVER, rho, subject_to=rc.at_least(REWARD, share * rc.best(RIVER, REWARD)))
    assert found.gap <= 1e-6
    assert found.conditions[0].slack >= -1e-9


def test_the_error_passes_between_processes() -> None:
    error = refused([rc.at_least(REWARD, 0.3), rc.at_most(RIGHT, 0.5)])
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), vars(again)) == (str(error), vars(error))


# --- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rc.at_most(RIGHT, inf), "limit` must be finite"),
        (lambda: rc.at_most(0.5, 1.0), "one value per state or per pair"),
        (lambda: rc.at_most([np.nan] * 6, 1.0), "cost"),
        (lambda: rc.at_most("cost", 1.0), "cost"),
        (lambda: rc.at_least(REWARD, 0.1, name=3), "name` must be text"),
        (lambda: rc.within(RIGHT, 0.5, 0.5), "high` must be above low=0.5"),
        (lambda: rc.plan(RIVER, subject_to=0.5), "a condition or a list of them, got float"),
        (lambda: rc.plan(RIVER, subject_to=[rc.at_most(RIGHT, 1), 3]), "got int"),
        (lambda: rc.plan(RIVER, subject_to=rc.at_most(np.ones(7), 1)), "subject_to` must have shape"),
        (lambda: rc.plan(RIVER, subject_to=rc.at_most(RIGHT, 0.5), eta=0.01), "eta` cannot be combined"),
        (lambda: rc.best(RIVER, np.ones(7)), "reward` must have shape"),
    ],
)
def test_what_is_no_condition_is_refused(make, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make()
