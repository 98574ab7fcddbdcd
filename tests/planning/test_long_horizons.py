"""Horizons: what no memory holds is refused at the door, and what can be reached soon stays the same."""

from __future__ import annotations

import numpy as np
import pytest

import rhocover as rc
from rhocover import checks, occupancy
from rhocover.errors import InvalidArgumentError
from rhocover.occupancy import Occupancies
from small_models import random_model

HUGE = 10**8


@pytest.mark.parametrize("ask", [
    lambda mdp: rc.plan(mdp, 2, horizon=HUGE, start=0),
    lambda mdp: rc.explore(mdp, 2, 1000, horizon=HUGE, start=0),
    lambda mdp: Occupancies.horizon(mdp, HUGE, start=0),
], ids=["plan", "explore", "occupancies"])  # fmt: skip
def test_a_horizon_that_no_memory_holds_is_refused_with_the_number_and_the_way_out(ask, monkeypatch):
    monkeypatch.setattr(checks, "memory_bytes", lambda: 2**35)
    with pytest.raises(InvalidArgumentError) as caught:
        ask(rc.envs.river_swim())
    message = str(caught.value)
    assert "`horizon` 100000000 has 1.2e+09 pairs, 12 for each step, which take about" in message
    assert "GB; there are 34.4 GB. Shorten it, or pass discount=, for example 0.99999999" in message


def test_the_limit_is_the_memory_there_is(monkeypatch):
    mdp = random_model(1)
    size = occupancy.ENTRY_BYTES * 7 * (mdp.num_pairs + mdp.transitions.nnz)
    monkeypatch.setattr(checks, "memory_bytes", lambda: size)
    assert Occupancies.horizon(mdp, 7).num_steps == 7
    with pytest.raises(InvalidArgumentError, match="`horizon` 8 has"):
        Occupancies.horizon(mdp, 8)


def test_the_memory_is_the_machines_or_what_a_limit_leaves(monkeypatch):
    resource = pytest.importorskip("resource")
    whole = checks.memory_bytes()
    assert whole > 2**26
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (2**20, 2**20))
    assert checks.memory_bytes() == 2**20


@pytest.mark.parametrize("name", ["river_swim", "wheel", "deep_sea"])
def test_what_can_be_reached_step_by_step_is_what_powers_of_the_support_say(name):
    """Mutants: stopping at the first set that repeats an earlier one but not the last; the rest left empty."""
    mdp = rc.envs.make(name)
    support = np.zeros((mdp.num_states, mdp.num_states), bool)
    for pair, state in zip(*mdp.transitions.nonzero(), strict=True):
        support[mdp.pair_state[pair], state] = True
    start = np.zeros(mdp.num_states)
    start[0] = 1.0
    reached = occupancy._reached_by_step(mdp, 40, start)
    expected = start > 0
    for row in reached:
        assert np.array_equal(row, expected)
        expected = support[expected].any(axis=0)


def test_a_set_of_states_that_stays_the_same_is_not_looked_at_again(monkeypatch):
    mdp, looks = rc.envs.river_swim(), []
    real = np.array_equal
    monkeypatch.setattr(occupancy.np, "array_equal", lambda *given: looks.append(given) or real(*given))
    occupancy._reached_by_step(mdp, 100_000, np.eye(mdp.num_states)[0])
    assert len(looks) <= mdp.num_states
