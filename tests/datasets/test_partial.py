"""Partial tallies: ranges of a stream merge to the tally of one pass, to the bit, whatever the ranges."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from data_streams import Stream, random_stream
from hypothesis import given, settings
from hypothesis import strategies as st

from rhocover.datasets import PartialTally, Tallier, Tally, counting, merged
from rhocover.datasets.partial import Merger
from rhocover.errors import InvalidArgumentError, InvalidDataError

streams = st.builds(
    random_stream, st.integers(0, 2**32 - 1), st.integers(1, 900), st.integers(1, 40), st.integers(1, 3),
    scale=st.sampled_from([1, 7, 10**9]),
)  # fmt: skip
cut_lists = st.lists(st.integers(0, 900), max_size=19)


def partials(stream: Stream, cuts: list[int], first: np.ndarray | None = None, **options) -> list:
    """Returns the counts of each range, as they come back from another process."""
    ends = sorted({0, stream.s.size, *(cut for cut in cuts if cut < stream.s.size)})
    found = []
    for begin, end in itertools.pairwise(ends):
        tallier = Tallier(first_row=begin, **options)
        tallier.add(*stream[begin:end], first=None if first is None else first[begin:end])
        found.append(pickle.loads(pickle.dumps(tallier.partial())))
    return found


def whole(stream: Stream, first: np.ndarray | None = None) -> Tally:
    tallier = Tallier()
    tallier.add(*stream[:], first=first)
    return tallier.tally()


@settings(deadline=None, max_examples=80)
@given(streams, cut_lists, st.randoms(use_true_random=False), st.booleans(), st.booleans())
def test_ranges_merge_to_the_tally_of_one_pass_in_any_split_and_order(
    stream: Stream, cuts: list[int], chance, is_marked: bool, is_known: bool
) -> None:
    first = np.random.default_rng(len(cuts)).random(stream.s.size) < 0.2 if is_marked else None
    parts = partials(stream, cuts, first, num_steps=stream.s.size if is_known else 0)
    chance.shuffle(parts)
    expected = whole(stream, first)
    assert merged(parts).tally().digest() == expected.digest()
    merger = Merger()
    for part in parts:
        merger.add(part)
    assert merger.num_steps == stream.s.size
    assert merger.result().tally().digest() == expected.digest()


@settings(deadline=None, max_examples=30)
@given(streams, cut_lists)
def test_merging_is_associative(stream: Stream, cuts: list[int]) -> None:
    parts = partials(stream, cuts)
    one_by_one = parts[0]
    for part in parts[1:]:
        one_by_one = merged([one_by_one, part])
    from_the_end = parts[-1]
    for part in reversed(parts[:-1]):
        from_the_end = merged([from_the_end, part])
    assert one_by_one.tally().digest() == from_the_end.tally().digest() == whole(stream).digest()


def test_a_merged_stream_continues_an_episode_where_a_sum_begins_one() -> None:
    """Rows 0 -> 1 and 1 -> 2 of one stream are one episode; as two data sets they are two."""
    one, two = Tallier(1), Tallier(1, first_row=1)
    one.add([0], [0], [1], [False])
    two.add([1], [0], [2], [False])
    later = Tallier(1)
    later.add([1], [0], [2], [False])
    assert merged([one.partial(), two.partial()]).tally().num_episodes == 1
    assert (one.tally() + later.tally()).num_episodes == 2


@pytest.mark.parametrize(("rows", "words"), [((0, 3, 5, 9), "rows 3 to 4 are missing"),
                                             ((0, 4, 3, 9), "row.* 3 to 3 would be counted twice")])  # fmt: skip
def test_rows_that_are_missing_or_counted_twice_are_refused(rows: tuple[int, ...], words: str) -> None:
    stream = random_stream(0, 9)
    parts = [*partials(stream, [rows[1]])[:1], *partials(stream, [rows[2]])[1:]]
    with pytest.raises(InvalidDataError, match=words):
        merged(parts)


def test_only_a_whole_stream_has_a_tally() -> None:
    part = partials(random_stream(0, 9), [4])[1]
    with pytest.raises(InvalidArgumentError, match="rows from 4 on, not a whole stream"):
        part.tally()
    with pytest.raises(InvalidArgumentError, match="no range to merge"):
        merged([])


def test_ranges_of_different_streams_are_refused() -> None:
    """One of them marks the first rows of episodes, the other does not."""
    stream = random_stream(0, 9)
    parts = [partials(stream, [4])[0], partials(stream, [4], np.zeros(9, bool))[1]]
    with pytest.raises(InvalidDataError, match="only one marks"):
        merged(parts)


def test_counts_beyond_the_room_beside_a_pair_go_to_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transition that occurs 2^31 times fills its room; here the room is almost full from the start."""
    tallier = Tallier(1)
    tallier.add([0], [0], [0], [False])
    tallier._near[int(counting.NEAR)] = counting.FULL - 1
    tallier.add([0] * 5, [0] * 5, [0] * 5, [False] * 5)
    assert tallier.tally().moves.toarray().tolist() == [[counting.FULL + 4]]


def test_a_tally_stays_as_it_is_when_counting_continues() -> None:
    """Batches are views of arrays that grow where they are, until they are handed out."""
    stream = random_stream(1, 4000, 30)
    tallier = Tallier()
    tallier.add(*stream[:1000])
    early, digest = tallier.tally(), tallier.tally().digest()
    tallier.add(*stream[1000:])
    assert early.digest() == digest
    assert tallier.tally().digest() == whole(stream).digest()


def test_a_digest_depends_on_every_count() -> None:
    base: dict[str, Any] = {
        "keys": [0, 1],
        "num_actions": 1,
        "moves": [[1, 2], [0, 0]],
        "ends": [0, 1],
        "starts": [1, 0],
    }
    others = [
        {"keys": [0, 2]}, {"moves": [[2, 1], [0, 0]]}, {"ends": [1, 0]}, {"starts": [0, 1]},
        {"num_truncated": 1}, {"end_keys": (7,)}, {"num_jumps": 1}, {"batches": np.array([[1, 0]])}, {"batch_length": 2},
    ]  # fmt: skip
    digests = {Tally.from_counts(**{**base, **other}).digest() for other in [{}, *others]}
    assert len(digests) == len(others) + 1
    assert Tally.from_counts(**base, source="another name").digest() in digests


def test_a_partial_tally_holds_what_is_distinct_not_rows() -> None:
    few, many = (partials(random_stream(2, size), [])[0] for size in (5_000, 50_000))
    assert isinstance(many, PartialTally)
    assert many.codes.size == few.codes.size
    assert many.batches.nnz <= 64 * many.batches.shape[1]
