"""Counting a stream of transitions: exact, and the same however the stream is cut."""

from __future__ import annotations

import numpy as np
import pytest
from data_streams import Stream, count_by_hand, random_stream
from hypothesis import given, settings
from hypothesis import strategies as st

from rhocover.datasets import Tallier, Tally
from rhocover.datasets.tally import MOST, BatchCounts
from rhocover.errors import InvalidArgumentError, InvalidDataError


def tally_of(stream: Stream, cuts: list[int] = [], **options) -> Tally:  # noqa: B006
    tallier = Tallier(**options)
    ends = [*sorted(cuts), stream.s.size]
    for begin, end in zip([0, *ends[:-1]], ends, strict=True):
        tallier.add(*stream[begin:end])
    return tallier.tally()


def same(a: Tally, b: Tally) -> bool:
    numbers = ("keys", "num_actions", "num_steps", "num_episodes", "num_truncated", "num_jumps", "end_keys")
    arrays = ("ends", "starts", "counts")
    return (
        all(getattr(a, name) == getattr(b, name) for name in (*numbers, "batch_length"))
        and all(np.array_equal(getattr(a, name), getattr(b, name)) for name in arrays)
        and np.array_equal(a.moves.toarray(), b.moves.toarray())
        and np.array_equal(a.batches.toarray(), b.batches.toarray())
    )


streams = st.builds(
    random_stream,
    st.integers(0, 2**32 - 1),
    st.integers(1, 300),
    st.integers(1, 5),
    st.integers(1, 3),
    scale=st.sampled_from([1, 7, 10**9]),
)


@settings(deadline=None, max_examples=60)
@given(streams)
def test_a_tally_is_what_counting_by_hand_gives(stream: Stream) -> None:
    tally, hand = tally_of(stream), count_by_hand(stream)
    A = tally.num_actions
    moves = tally.moves.toarray()
    for state, key in enumerate(tally.keys):
        assert tally.starts[state] == hand.starts[key]
        for action in range(A):
            assert tally.counts[state, action] == hand.visits[key, action]
            assert tally.ends[state * A + action] == hand.ends[key, action]
            for after, next_key in enumerate(tally.keys):
                assert moves[state * A + action, after] == hand.moves[key, action, next_key]
    assert tally.num_steps == stream.s.size == tally.counts.sum()
    assert tally.num_episodes == sum(hand.starts.values())
    assert (tally.num_truncated, tally.num_jumps) == (hand.num_truncated, hand.num_jumps)


@settings(deadline=None, max_examples=60)
@given(streams, st.lists(st.integers(0, 300), max_size=12))
def test_a_tally_does_not_depend_on_the_pieces_in_which_the_stream_came(
    stream: Stream, cuts: list[int]
) -> None:
    assert same(tally_of(stream, [min(cut, stream.s.size) for cut in cuts]), tally_of(stream))


@settings(deadline=None, max_examples=30)
@given(streams, streams)
def test_tallies_add_up_like_their_streams(a: Stream, b: Stream) -> None:
    """A new data set begins a new episode, so the streams are joined where the first one ended."""
    a.terminated[-1] = True
    A = 3
    both = Stream(*(np.concatenate(pair) for pair in zip(a[:], b[:], strict=True)))
    added, whole = tally_of(a, num_actions=A) + tally_of(b, num_actions=A), tally_of(both, num_actions=A)
    added = added.over(whole.keys)
    for name in ("counts", "ends", "starts"):
        assert np.array_equal(getattr(added, name), getattr(whole, name))
    assert np.array_equal(added.moves.toarray(), whole.moves.toarray())
    assert (added.num_steps, added.num_episodes) == (whole.num_steps, whole.num_episodes)
    assert set(added.end_keys) == set(whole.end_keys)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2000), st.lists(st.integers(1, 400), min_size=1, max_size=20), st.integers(0, 10**6))
def test_stretches_are_32_to_63_of_equal_length_and_in_order(
    num_steps: int, sizes: list[int], seed: int
) -> None:
    pairs = np.random.default_rng(seed).integers(0, 5, num_steps)
    batches = BatchCounts(5)
    done = 0
    while done < num_steps:
        size = sizes[done % len(sizes)]
        batches.add(pairs[done : done + size])
        done += size
    found, L = batches.matrix().toarray(), batches.length
    assert len(found) == num_steps // L < MOST
    assert len(found) >= MOST // 2 or L == 1
    expected = [np.bincount(pairs[k * L : (k + 1) * L], minlength=5) for k in range(len(found))]
    assert np.array_equal(found, np.array(expected).reshape(len(found), 5))
    known = BatchCounts(5, num_steps)
    known.add(pairs)
    assert known.length == L
    assert np.array_equal(known.matrix().toarray(), found)


@pytest.mark.parametrize("num_states", [3, 3000])
def test_many_moves_are_counted_like_few(num_states: int) -> None:
    """3000 states have 27 million possible moves: these are kept as runs, not in a table."""
    rng = np.random.default_rng(0)
    s, s_next = rng.integers(0, num_states, (2, 40_000))
    stream = Stream(s, rng.integers(0, 3, s.size), s_next, rng.random(s.size) < 0.1, np.zeros(s.size, bool))
    tally, hand = tally_of(stream, list(range(1000, 40_000, 1700))), count_by_hand(stream)
    moves = tally.moves.tocoo()
    pair, after = moves.coords
    found = {
        (tally.keys[p // 3], p % 3, tally.keys[q]): n
        for p, q, n in zip(pair.tolist(), after.tolist(), moves.data.tolist(), strict=True)
    }
    assert found == dict(hand.moves)


def test_a_state_that_only_ended_episodes_is_no_state() -> None:
    tally = tally_of(Stream(*map(np.array, ([0, 1], [0, 0], [1, 9], [False, True], [False, False]))))
    assert tally.keys == (0, 1)
    assert tally.end_keys == (9,)


def test_a_state_reached_at_a_time_limit_is_a_state_that_nobody_tried() -> None:
    tally = tally_of(Stream(*map(np.array, ([0, 1], [0, 0], [1, 9], [False, False], [False, True]))))
    assert tally.keys == (0, 1, 9)
    assert tally.counts[2].sum() == 0
    assert tally.num_truncated == 1


def test_over_more_keys_changes_nothing_but_the_numbers() -> None:
    tally = tally_of(random_stream(3, 200))
    wide = tally.over([8, 2, 0, 1, 3, 7])
    assert wide.counts.sum() == tally.num_steps
    for key in tally.keys:
        assert np.array_equal(wide.counts[wide.number_of[key]], tally.counts[tally.number_of[key]])
    assert np.array_equal(wide.over(wide.keys).counts, wide.counts)
    with pytest.raises(InvalidArgumentError, match="missing: 1"):
        tally.over([0, 2, 3])


def test_counts_at_hand_make_a_tally() -> None:
    first = tally_of(random_stream(1, 100))
    again = Tally.from_counts(
        first.keys, first.num_actions, first.moves, first.ends, first.starts,
        num_truncated=first.num_truncated, num_jumps=first.num_jumps, end_keys=first.end_keys,
        batches=first.batches, batch_length=first.batch_length,
    )  # fmt: skip
    assert same(first, again)
    with pytest.raises(InvalidArgumentError, match="`ends` must hold counts"):
        Tally.from_counts([0], 1, [[1]], [-1], [1])
    with pytest.raises(InvalidArgumentError, match="`moves` must have shape"):
        Tally.from_counts([0], 2, [[1]], [0, 0], [1])


def test_arrays_of_a_tally_cannot_be_written_to() -> None:
    tally = tally_of(random_stream(1, 50))
    for array in (tally.counts, tally.ends, tally.starts, tally.moves.data, tally.batches.data):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (([0.5], [0], [0], [False]), {}, "`states` must be one whole number per row"),
        (([[0]], [0], [0], [False]), {}, "`states` must be one whole number per row"),
        (([-1], [0], [0], [False]), {}, "`states` must be whole numbers from 0, got -1 in row 0"),
        (([0], [4], [0], [False]), {"num_actions": 4}, "`actions` must be whole numbers from 0 to 3, got 4"),
        (([0], [0], [5], [False]), {"num_keys": 5}, "`next_states` must be whole numbers from 0 to 4, got 5"),
    ],
)
def test_what_is_no_number_is_refused(rows, options, message: str) -> None:
    with pytest.raises(InvalidDataError, match=message):
        Tallier(**options).add(*rows)


def test_more_pairs_than_memory_are_refused() -> None:
    with pytest.raises(InvalidDataError, match="2001 states with 524289 actions each are more than"):
        Tallier().add([0, 2000], [2**19, 0], [0, 0], [False, False])


def test_nothing_counted_is_no_tally() -> None:
    with pytest.raises(InvalidDataError, match="zero rows"):
        Tallier().tally()
    a, b = tally_of(random_stream(0, 50)), tally_of(random_stream(0, 50), num_actions=9)
    with pytest.raises(InvalidDataError, match="3 and 9 actions"):
        a + b
