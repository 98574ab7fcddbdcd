"""The model that data shows: frequencies, restarts, and what is left out."""

from __future__ import annotations

import numpy as np
import pytest
from data_streams import Stream, random_stream, walk
from hypothesis import given, settings
from hypothesis import strategies as st

from rhocover.chains import is_communicating
from rhocover.datasets import Tallier, Tally, observed_model
from rhocover.errors import InvalidDataError
from small_models import random_model


def tally_of(stream: Stream, **options) -> Tally:
    tallier = Tallier(**options)
    tallier.add(*stream[:])
    return tallier.tally()


def stream_of(s, a, s_next, terminated, truncated=None) -> Stream:
    truncated = np.zeros(len(s), bool) if truncated is None else truncated
    return Stream(*map(np.array, (s, a, s_next, terminated, truncated)))


def test_rows_are_frequencies_and_ends_lead_to_the_starts() -> None:
    """From 0 half of the moves end; episodes begin in 0 twice and in 1 once."""
    seen = observed_model(
        tally_of(
            stream_of([0, 1, 0, 0, 1], [0, 0, 0, 0, 0], [1, 0, 5, 5, 0], [False, False, True, True, False])
        )
    )
    start = np.array([2, 1]) / 3
    assert seen.mdp.start == pytest.approx(start)
    assert seen.mdp.transitions.toarray() == pytest.approx(
        np.array([[0, 1 / 3], [1, 0]]) + np.outer([2 / 3, 0], start)
    )
    assert seen.note == ""


def test_a_time_limit_is_no_end() -> None:
    """State 1 is where the limit struck; it was also left once, so the move to it stays a move."""
    stream = stream_of([0, 0, 1], [0, 0, 0], [1, 1, 0], [False] * 3, [True, False, False])
    assert observed_model(tally_of(stream)).mdp.dense()[0, 0].tolist() == [0, 1]


def test_what_led_to_a_state_that_nobody_tried_leads_to_a_new_start() -> None:
    stream = stream_of([0, 0, 1, 0], [0, 0, 0, 0], [1, 1, 0, 7], [False] * 4, [True, False, False, True])
    seen = observed_model(tally_of(stream))
    assert seen.mdp.dense()[0, 0] == pytest.approx([1 / 3, 2 / 3])
    assert seen.note.startswith("1 state only met where an episode was truncated: 7;")


def test_what_cannot_come_again_is_left_out_and_named() -> None:
    """State 0 was left once and never seen again; 1 and 2 go on for ever."""
    stream = stream_of([0, 1, 2, 1], [1, 0, 0, 0], [1, 2, 1, 2], [False] * 4)
    seen = observed_model(tally_of(stream))
    assert seen.mdp.num_states == 2
    assert seen.mdp.state_labels == ("1", "2")
    assert seen.pairs.tolist() == [2, 4]
    assert (
        seen.note
        == "1 tried pair with 0.25 of the visits cannot be visited in the long run in the observed model: (0, 1)."
    )


def test_the_component_with_the_most_visits_is_kept() -> None:
    """Two loops that never meet, as from two data sets: 3 visits against 5."""
    loops = stream_of(
        [0, 1, 0, 5, 6, 5, 6, 5], [0] * 8, [1, 0, 1, 6, 5, 6, 5, 6], [False] * 8, [0, 0, 1, 0, 0, 0, 0, 0]
    )
    assert observed_model(tally_of(loops)).mdp.state_labels == ("5", "6")


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10**9), st.integers(1, 200), st.integers(1, 6))
def test_an_observed_model_is_communicating_and_holds_only_what_was_tried(
    seed: int, rows: int, states: int
) -> None:
    tally = tally_of(random_stream(seed, rows, states))
    seen = observed_model(tally)
    assert is_communicating(seen.mdp)
    assert (tally.counts.ravel()[seen.pairs] > 0).all()
    assert [tally.pair_name(pair) for pair in seen.pairs] == [
        seen.mdp.pair_name(i) for i in range(seen.pairs.size)
    ]


def test_long_data_shows_the_model_itself() -> None:
    """An entry is off by more than 4/sqrt(N) with probability 2 exp(-32) (Hoeffding); for all of 75 entries and
    each N up to 40 000 together that is below 1e-7."""
    mdp = random_model(2, 5, 3)
    uniform = mdp.table(np.ones(mdp.num_pairs))
    tally = tally_of(walk(mdp, uniform, 40_000, seed=5), num_actions=3)
    seen = observed_model(tally)
    assert seen.mdp.num_pairs == mdp.num_pairs
    visits = tally.counts.ravel()[seen.pairs]
    error = np.abs(seen.mdp.transitions.toarray() - mdp.transitions.toarray())
    assert (error <= 4 / np.sqrt(visits)[:, None]).all()


def test_restarts_from_everywhere_to_everywhere_are_refused_not_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rhocover.datasets.empirical_model.MOST_ENTRIES", 3)
    stream = stream_of([0, 1, 2], [0] * 3, [9] * 3, [True] * 3)
    with pytest.raises(InvalidDataError, match="ends episodes in 3 pairs and begins them in 3 states"):
        observed_model(tally_of(stream))
