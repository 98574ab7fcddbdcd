"""States that somebody said there are, and that the data never met, are unseen: nothing is covered there."""

from __future__ import annotations

import json
import math
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from rhocover.datasets import audit, read_tally
from rhocover.datasets import states as declared_module
from rhocover.datasets.minari.files import EpisodeColumns
from rhocover.environments.encoding import Bins
from rhocover.errors import InvalidArgumentError
from rhocover.report.pages.audit import page_of_audit
from rhocover.report.pages.rendering import page_html
from written_sets import write_minari

# Three states in a ring, both actions in each of them twice: 6 pairs, all alike.
RING = ([0, 1, 2] * 4, [0, 0, 0, 1, 1, 1] * 2, [1, 2, 0] * 4, [False] * 12)
LISTED = [declared_module.MOST_LISTED, 1]  # with 1 no state that was never met has a row


@pytest.fixture(params=LISTED, ids=["listed", "unlisted"])
def most_listed(request, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(declared_module, "MOST_LISTED", request.param)
    return request.param


def test_what_was_declared_and_never_met_is_missing(most_listed: int) -> None:
    found = audit(RING, num_states=6, num_actions=2)
    assert (found.num_pairs, found.num_missing) == (12, 6)
    assert found.worst_ratio == found.divergence == math.inf
    assert found.visited_worst_ratio == 1
    assert not found.is_complete
    assert not found.meets(worst_ratio=1e300)
    assert found.verdict == (
        "Covers 6 of 12 pairs (3 of 6 states were met); 6 were never tried: collect (3, 0), (3, 1), (4, 0) and 3 "
        "more first."
    )
    assert str(found.certificate).startswith("some pairs with a weight were never visited")
    assert [pair.name for pair in found.thin[:3]] == ["(3, 0)", "(3, 1)", "(4, 0)"]
    assert "best achievable" not in str(found)  # the best of half of the pairs is none


@pytest.mark.parametrize(("rho", "nats"), [(0, 1), (0.25, 1 / 3), (0.5, 1), (0.75, 3), (1, math.inf)])
def test_below_one_the_divergence_counts_them_and_is_finite(
    rho: float, nats: float, most_listed: int
) -> None:
    """Visits spread evenly over half of the pairs: D_rho = rho/(1 - rho) log 2; at 0, KL(d || mubar) = log 2."""
    found = audit(RING, rho, num_states=6)
    assert found.divergence == pytest.approx(nats * math.log(2), rel=1e-12)
    assert found.worst_ratio == math.inf


def test_a_number_that_no_table_could_hold_is_counted_all_the_same() -> None:
    found = audit(RING, num_states=2 * 10**9)
    assert found.num_missing == 4 * 10**9 - 6
    assert "3 of 2,000,000,000 states were met" in found.verdict
    assert found.counts.shape == (3, 2)
    assert json.loads(json.dumps(found.summary()))["num_states"] == 2 * 10**9


def test_a_rule_without_a_say_on_what_is_not_listed_gives_no_number(most_listed: int) -> None:
    found = audit(RING, 0.5, "model_error", num_states=6)
    assert found.num_missing == 6
    assert found.worst_ratio == math.inf
    assert math.isnan(found.divergence) == (most_listed == 1)
    assert audit(RING, 2.0, "model_error", num_states=6).divergence == math.inf


def test_what_a_met_state_lacks_comes_before_states_that_may_be_out_of_reach(most_listed: int) -> None:
    """Action 1 was never tried in state 2, state 0 was never met: the first can be had, of the other nobody knows."""
    found = audit(([1, 1, 2], [0, 1, 0], [1, 2, 1], [False] * 3), num_states=3)
    assert [pair.name for pair in found.thin[:3]] == ["(2, 1)", "(0, 0)", "(0, 1)"]
    assert found.verdict.endswith("3 were never tried: collect (2, 1), (0, 0), (0, 1) first.")


def test_only_what_was_met_is_judged_where_that_is_asked_for() -> None:
    found = audit(RING, num_states=6, met_only=True)
    assert found.is_complete
    assert found.worst_ratio == 1
    assert found.verdict.startswith("Covers all 6 pairs of the 3 of 6 states that were met; ")


def test_a_state_that_is_only_an_end_asks_for_nothing() -> None:
    """0 and 1 are acted in, 2 is where episodes end; 3 was never met."""
    rows = ([0, 1, 0, 1], [0, 0, 0, 0], [1, 2, 1, 2], [False, True, False, True])
    assert audit(rows, num_states=3).is_complete
    assert audit(rows, num_states=4).num_missing == 1


@pytest.mark.parametrize("code", [None, Bins(6, low=-0.5, high=5.5)])
def test_weights_over_all_that_was_declared_decide_what_matters(code) -> None:
    states = RING[0] if code is None else np.array(RING[0], float)[:, None]
    after = RING[2] if code is None else np.array(RING[2], float)[:, None]
    rows = (states, RING[1], after, RING[3])
    options = {"num_states": 6} if code is None else {"states": code}
    mu = np.ones((6, 2))
    assert audit(rows, mu=mu, **options).num_missing == 6
    mu[3:] = 0
    found = audit(rows, mu=mu, **options)
    assert found.is_complete
    assert found.verdict.startswith("Covers all 6 pairs; ")
    assert found.counts.shape == (6, 2)


def test_weights_for_another_number_of_states_than_was_said_are_refused() -> None:
    for rows in (3, 4, 7):
        with pytest.raises(InvalidArgumentError) as refused:
            audit(RING, mu=np.ones((rows, 2)), num_states=6)
        assert (
            f"`mu` must have shape (6, 2), one row for each of the `num_states` states, got shape ({rows}, 2)"
            in str(refused.value)
        )


def test_bins_are_counted_n_of_all() -> None:
    rows = (np.array([[0.1], [0.6], [0.1]]), [0, 0, 1], np.array([[0.6], [0.1], [0.6]]), [False] * 3)
    grid = Bins(4, low=0, high=1, names=["speed"])
    found = audit(rows, states=grid)
    assert (found.num_pairs, found.num_missing) == (8, 5)
    assert "(2 of 4 bins were met)" in found.verdict
    assert [pair.name for pair in found.thin[:3]] == [
        "((speed 0.50..0.75), 1)", "((speed 0.25..0.50), 0)", "((speed 0.25..0.50), 1)",
    ]  # fmt: skip
    assert found.layout is not None
    assert len(found.layout.positions) == 4
    assert "2 bins were never met. If they cannot be reached, met_only=True" in found.observed_note
    assert (
        "of the 2 of 4 bins" not in audit(rows, states=grid, met_only=True).verdict
    )  # a pair is missing still
    assert "(2 of 4 bins were met)" in audit(rows, states=grid, met_only=True).verdict


def test_the_space_of_a_minari_data_set_is_how_its_states_are_labelled(tmp_path: Path) -> None:
    """Taxi has 500 labels and 404 states: what is covered is of those in the data, and said to be."""
    flags = np.zeros(12, bool)
    cut = flags.copy()
    cut[-1] = True
    seen = np.array([*RING[0], 0])
    episode = EpisodeColumns(seen, np.array(RING[1]), np.zeros(12), flags, cut)
    write_minari(
        tmp_path / "ring", "test/ring/own-v0", [episode], observation_space=gym.spaces.Discrete(5),
        action_space=gym.spaces.Discrete(2), metadata={},
    )  # fmt: skip
    found = audit(tmp_path / "ring")
    assert (found.num_pairs, found.num_missing) == (6, 0)
    assert found.verdict.startswith("Covers all 6 pairs of the 3 states in the data; ")
    asked = audit(tmp_path / "ring", num_states=6)
    assert (asked.num_missing, asked.worst_ratio) == (6, math.inf)
    assert "(3 of 6 states were met)" in asked.verdict
    assert audit(tmp_path / "ring", num_states=6, met_only=True).is_complete
    assert read_tally(tmp_path / "ring").num_states == 3  # a tally has what was met


def test_tallies_that_are_added_keep_what_was_declared() -> None:
    more = read_tally(([3], [1], [3], [False]), num_actions=2)
    for whole in (read_tally(RING, num_states=6) + more, more + read_tally(RING, num_states=6)):
        found = audit(whole)
        assert found.num_pairs == 12
        assert found.num_missing == 5
    assert audit(read_tally(RING, num_states=2 + 1) + more).num_pairs == 8  # the data has more than was said


def test_summary_and_page_say_how_many_were_met() -> None:
    found = audit(RING, num_states=6)
    numbers = json.loads(json.dumps(found.summary(), allow_nan=False))
    assert (numbers["num_states"], numbers["num_states_met"], numbers["num_missing"]) == (6, 3, 6)
    assert (numbers["worst_ratio"], numbers["best_num_pairs"]) == ("inf", 6)
    page = page_html(page_of_audit(found))
    assert "Coverage is incomplete" in page
    assert "3 of 6 states met" in page
