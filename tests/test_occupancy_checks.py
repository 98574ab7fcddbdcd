"""What occupancy sets refuse and measure: arguments, residuals, floors, potentials, and the layout of entries."""

from __future__ import annotations

import numpy as np
import pytest

from rhocover import MDP, Occupancies, envs
from rhocover import occupancy as module
from rhocover.errors import InfeasibleFloorError, InvalidArgumentError
from small_models import random_model

SETS = {"average": {}, "discounted": {"discount": 0.8}, "horizon": {"horizon": 3}}


@pytest.fixture(params=SETS)
def members(request):
    return Occupancies.of(random_model(1), **SETS[request.param])


def uniform(members: Occupancies) -> np.ndarray:
    return 1 / np.bincount(members.node)[members.node]


# --- doors ----------------------------------------------------------------------------------------------


def test_a_start_without_restarts_and_two_criteria_at_once_are_refused():
    mdp = random_model(1)
    with pytest.raises(InvalidArgumentError, match="`start` is for `discount` or `horizon` only"):
        Occupancies.of(mdp, start=0)
    with pytest.raises(InvalidArgumentError, match="cannot be combined"):
        Occupancies.of(mdp, discount=0.9, horizon=3)


@pytest.mark.parametrize("options", SETS.values(), ids=SETS)
def test_a_set_of_what_is_no_model_is_refused(options):
    with pytest.raises(InvalidArgumentError, match="`mdp`"):
        Occupancies.of(np.ones((2, 2, 2)) / 2, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("eta", [-1e-9, 0.5, 0.7, np.nan])
def test_a_floor_outside_zero_to_one_half_is_refused(eta):
    with pytest.raises(InvalidArgumentError, match="eta"):
        Occupancies.average(random_model(1), eta=eta)


def test_a_floor_just_below_one_half_is_a_floor():
    assert Occupancies.average(random_model(1), eta=0.4999).floor == 0.9998


def test_an_episode_needs_a_step_and_as_many_entries_as_can_be_numbered(monkeypatch):
    mdp = random_model(1)
    assert np.iinfo(np.int32).max == module.MAX_ENTRIES
    assert Occupancies.horizon(mdp, 1).num_steps == 1
    with pytest.raises(InvalidArgumentError, match="horizon"):
        Occupancies.horizon(mdp, 0)
    monkeypatch.setattr(module, "MAX_ENTRIES", 3 * mdp.num_pairs)
    assert Occupancies.horizon(mdp, 3).num_steps == 3
    with pytest.raises(InvalidArgumentError, match="at most 3 "):
        Occupancies.horizon(mdp, 4)


def test_a_policy_with_a_negative_entry_is_refused_though_it_sums_to_one(members):
    policy = uniform(members)
    twin = np.flatnonzero(members.node == members.node[np.flatnonzero(np.diff(members.node) == 0)[0]])[:2]
    policy[twin[0]], policy[twin[1]] = policy[twin].sum() + 0.1, -0.1
    with pytest.raises(InvalidArgumentError, match="`policy` must be non-negative"):
        members.from_policy(policy)


def test_a_policy_may_miss_one_by_rounding_and_is_divided_by_its_sum(members):
    exact = members.from_policy(uniform(members))
    np.testing.assert_allclose(members.from_policy(uniform(members) * (1 + 9e-9)), exact, rtol=1e-12)
    with pytest.raises(
        InvalidArgumentError, match=r"must sum to 1 in every state, got 1\.0000000[12] in state 0"
    ):
        members.from_policy(uniform(members) * (1 + 1.5e-8))


def test_only_episodes_have_steps(members):
    expected = np.arange(members.num_pairs) * 0 if members.criterion != "horizon" else members.step
    np.testing.assert_array_equal(members.step, expected)
    assert set(members.step) == set(range(members.num_steps or 1))


# --- residuals ------------------------------------------------------------------------------------------


def test_the_flow_error_is_relative_to_what_flows_through_a_row(members):
    d = members.from_policy(uniform(members))
    assert members.flow_error(d) < 1e-14
    d[0] += 0.01
    flow = members.flow.toarray()
    expected = np.abs(flow @ d - members.inflow) / (np.abs(flow) @ d + np.abs(members.inflow))
    assert members.flow_error(d) == pytest.approx(expected.max(), rel=1e-13)


def test_a_row_that_nothing_flows_through_is_no_error():
    members = Occupancies.average(random_model(1))
    assert members.flow_error(np.zeros(members.num_pairs)) == 0.0


def test_membership_is_four_numbers_that_vanish_for_members(members):
    d = members.from_policy(uniform(members))
    found = members.membership(d)
    assert max(found.flow, found.mass, found.negativity, found.floor_shortage) < 1e-14
    assert found.negativity == found.floor_shortage == 0.0
    floored = Occupancies.of(members.mdp, eta=0.1, **SETS[members.criterion])
    assert floored.membership(d).floor_shortage == pytest.approx(0.2 - d.min(), rel=1e-13)
    assert members.membership(1.5 * d).mass == pytest.approx(0.5, rel=1e-12)
    assert members.membership(0.5 * d).mass == pytest.approx(0.5, rel=1e-12)
    d[3] = -0.25
    assert members.membership(d).negativity == 0.25


def test_a_tolerance_of_membership_counts_for_each_residual(members):
    d = members.from_policy(uniform(members))
    assert members.contains(d)
    assert members.contains(d * (1 + 5e-10))
    assert not members.contains(d * (1 + 5e-9))
    assert Occupancies.average(MDP(np.ones((1, 1, 1)))).contains(
        [1.0], tol=0.0
    )  # exactly one is within nothing
    assert members.contains(d * (1 + 1e-7), tol=2e-7)


# --- the largest floor ----------------------------------------------------------------------------------


def test_a_floor_at_the_largest_one_passes_and_one_above_does_not():
    mdp = envs.river_swim()
    t_star, d = Occupancies.average(mdp).max_floor()
    assert d.min() == pytest.approx(t_star, rel=1e-9)
    Occupancies.average(mdp, eta=t_star / 2).check_floor()
    with pytest.raises(InfeasibleFloorError) as caught:
        Occupancies.average(mdp, eta=t_star / 2 * (1 + 5e-9)).check_floor()
    assert caught.value.eta_max == pytest.approx(t_star / 2, rel=1e-12)


def test_without_a_floor_nothing_is_solved(monkeypatch):
    monkeypatch.setattr(Occupancies, "max_floor", lambda self: pytest.fail("no program is needed"))
    Occupancies.average(envs.river_swim()).check_floor()


# --- potentials and layout ------------------------------------------------------------------------------


def test_the_unit_potential_prices_every_entry_at_one(members):
    if members.criterion == "average":
        with pytest.raises(InvalidArgumentError, match="has no potential"):
            members.unit_potential()
    else:
        np.testing.assert_allclose(members.flow.T @ members.unit_potential(), 1.0, rtol=1e-12)


def test_the_equations_are_the_flow_and_the_mass_where_the_flow_does_not_imply_it(members):
    matrix, right = members.equations()
    d = members.from_policy(uniform(members))
    np.testing.assert_allclose(matrix @ d, right, atol=1e-14)
    rows = members.flow.shape[0] + (members.criterion == "average")
    assert matrix.shape == (rows, members.num_pairs)
    np.testing.assert_array_equal(matrix.toarray()[: members.flow.shape[0]], members.flow.toarray())


def test_a_pair_that_hardly_ever_leaves_keeps_its_digits():
    tiny = 1e-15
    P = np.array([[[1 - tiny, tiny]], [[0.5, 0.5]]])
    flow = Occupancies.average(MDP(P)).flow.toarray()
    np.testing.assert_array_equal(flow, [[tiny, -0.5], [-tiny, 0.5]])
    flow = Occupancies.discounted(MDP(P, start=0), 0.5).flow.toarray()
    np.testing.assert_allclose(flow, [[0.5 + 0.5 * tiny, -0.25], [-0.5 * tiny, 0.75]], rtol=1e-15)


def test_one_number_fills_every_place_and_places_without_a_pair_hold_the_fill(members):
    table = members.table(2.0, fill=-1.0)  # type: ignore[arg-type]
    assert table.shape == members.shape
    assert (table == 2.0).sum() == members.num_pairs
    assert (table == -1.0).sum() == table.size - members.num_pairs
    assert members.table(np.ones(members.num_pairs)).sum() == members.num_pairs
    with pytest.raises(InvalidArgumentError, match="`d`"):
        members.table(np.ones(members.num_pairs + 1))


def test_values_are_read_as_entries_as_a_table_or_per_pair(members):
    values = np.arange(members.num_pairs) + 1.0
    np.testing.assert_array_equal(members.flatten(values, "v"), values)
    np.testing.assert_array_equal(members.flatten(members.table(values), "v"), values)
    per_pair = np.arange(members.mdp.num_pairs) + 1.0
    np.testing.assert_array_equal(members.flatten(per_pair, "v"), per_pair[members.pair])
    np.testing.assert_array_equal(members.flatten(members.mdp.table(per_pair), "v"), per_pair[members.pair])
    with pytest.raises(InvalidArgumentError, match="`v`"):
        members.flatten(np.ones(members.num_pairs + 1), "v")
