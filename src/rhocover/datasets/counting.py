"""The compiled loop that counts rows of transitions, and the table of transitions that it fills.

One pass over the rows (s, a, s', ended, closed) counts everything that a tally has: visits of the current
batch, ends, starts, cuts, jumps and transitions. A transition is one number, pair * 2^28 + s', its *code*,
with pair = s*A + a.

Most pairs lead to few states. So every pair has room for its first four next states and their counts beside
each other, 32 bytes in all: as a walk goes on in states near the last one, they are usually in the
processor's cache. All other transitions are in a table with open addressing: the entry of a code is its own,
or the first free one, from `hash(code)` on. The table is at most half full, so memory is that of the distinct
transitions, however many rows there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rhocover.checks import BoolArray, IntArray
from rhocover.compiling import compiled

SHIFT = 28  # bits of a state's number
MOST_STATES = 2**SHIFT
FREE = -1  # an entry of the table without a code; also room without a next state
LEAST = 2**10  # entries of a table
ONE, TWO, THREE = np.uint64(1), np.uint64(2), np.uint64(3)
NEAR = np.uint64(4)  # next states of a pair that are counted beside it
WIDTH = np.uint64(8)  # numbers per pair: next states, and their counts
FULL = 2**31 - 1  # the largest such count; from there on the table counts
LED_TO, IS_CLOSED, TRUNCATED, JUMPS, USED = range(5)  # places in the array of what a loop hands to the next
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: neighbouring codes get far entries
HIGH = np.uint64(33)  # of its bits, the high ones are kept: they depend on all bits of the code


@compiled
def entry_of(codes: Any, code: Any) -> Any:
    """Returns the entry of a code: its own, or the free one where it belongs."""
    mask = codes.size - 1
    place = np.int64((np.uint64(code) * SPREAD) >> HIGH) & mask
    while codes[place] != code and codes[place] != FREE:
        place = (place + 1) & mask
    return place


@compiled
def put_all(codes: Any, counts: Any, new_codes: Any, new_counts: Any) -> None:
    """Adds counts of distinct codes to a table that has room for them."""
    for k in range(new_codes.size):
        place = entry_of(codes, new_codes[k])
        codes[place] = new_codes[k]
        counts[place] += new_counts[k]


@compiled
def bounds(values: Any) -> Any:
    """Returns the least and the largest of some values, of which there is at least one."""
    least = largest = values[0]
    for k in range(values.size):
        least, largest = min(least, values[k]), max(largest, values[k])
    return least, largest


@compiled
def place_of(near: Any, first: Any, state: Any) -> Any:
    """Returns the place of a state among the four from `first` on, 0 if it is not there.

    There are no branches, because a processor cannot predict which next state comes.
    """
    is_1, is_2, is_3 = near[first + ONE] == state, near[first + TWO] == state, near[first + THREE] == state
    return np.uint64(is_1) + TWO * np.uint64(is_2) + THREE * np.uint64(is_3)


@compiled
def count_other(near: Any, codes: Any, counts: Any, pair: Any, after: Any) -> Any:
    """Counts a transition that has no room beside its pair yet; returns how many entries this has taken."""
    first = pair * WIDTH
    for k in range(first, first + NEAR):
        if near[k] == FREE:
            near[k], near[k + NEAR] = after, 1
            return 0
    code = (np.int64(pair) << SHIFT) | after
    place = entry_of(codes, code)
    counts[place] += 1
    if codes[place] == code:
        return 0
    codes[place] = code
    return 1


@compiled
def count_rows(
    s: Any, a: Any, s_next: Any, ended: Any, closed: Any, marks: Any, num_actions: Any, t: Any, stop: Any,
    begins: Any, visits: Any, near: Any, ends: Any, starts: Any, is_end: Any, codes: Any, counts: Any,
    carried: Any,
) -> Any:  # fmt: skip
    """Counts the rows t..stop-1; returns the row at which it stopped, earlier if the table is half full.

    `marks` says which rows begin an episode; if it is empty, a row does whose state is not the next state
    of the row before. They are marked in `begins`, which is all False, unless it is empty; `carried` has
    what the next rows need (the names of its places are above).
    """
    led_to, is_closed = carried[LED_TO], carried[IS_CLOSED] != 0
    truncated, jumps, used = carried[TRUNCATED], carried[JUMPS], carried[USED]
    is_marked, is_kept, most = marks.size > 0, begins.size > 0, codes.size // 2
    while t < stop and used < most:
        state, after = s[t], s_next[t]
        pair = np.uint64(state * num_actions + a[t])
        if is_closed or (marks[t] if is_marked else state != led_to):
            truncated += not is_closed
            jumps += not (is_closed or is_marked)
            starts[state] += 1
            if is_kept:
                begins[t] = True
        visits[pair] += 1
        led_to, is_closed = after, closed[t]
        if is_closed and ended[t]:
            ends[pair] += 1
            is_end[after] = True
        else:
            truncated += is_closed
            place = pair * WIDTH + place_of(near, pair * WIDTH, after)
            if near[place] == after and near[place + NEAR] < FULL:
                near[place + NEAR] += 1
            else:
                used += count_other(near, codes, counts, pair, after)
        t += 1
    carried[LED_TO], carried[IS_CLOSED] = led_to, is_closed
    carried[TRUNCATED], carried[JUMPS], carried[USED] = truncated, jumps, used
    return t


def room_for(num_pairs: int) -> Any:
    """Returns empty room for the first next states of this many pairs and their counts, int32 `[8 n]`."""
    room = np.zeros((num_pairs, 2, int(NEAR)), np.int32)
    room[:, 0] = FREE
    return room.ravel()


def near_items(room: Any) -> tuple[IntArray, IntArray]:
    """Returns the codes of the transitions in such room, and their counts."""
    states, counts = np.moveaxis(room.reshape(-1, 2, int(NEAR)), 1, 0)
    pairs, places = np.nonzero(counts)
    return (pairs << SHIFT) | states[pairs, places], counts[pairs, places].astype(np.int64)


class Transitions:
    """The table of all other transitions; it doubles when it is half full."""

    def __init__(self, least: int = LEAST) -> None:
        size = LEAST
        while size < least:
            size *= 2
        self.codes, self.counts = np.full(size, FREE, np.int64), np.zeros(size, np.int64)

    @classmethod
    def of(cls, codes: IntArray, counts: IntArray) -> Transitions:
        """Returns the table of these distinct codes, at most a quarter full."""
        table = cls(4 * codes.size + 4)
        put_all(table.codes, table.counts, codes, counts)
        return table

    def items(self) -> tuple[IntArray, IntArray]:
        """Returns the codes in ascending order, and their counts."""
        kept = np.flatnonzero(self.codes != FREE)
        codes = self.codes[kept]
        order = np.argsort(codes)
        return codes[order], self.counts[kept[order]]

    def grown(self) -> Transitions:
        """Returns the same table with twice the entries."""
        return Transitions.of(*self.items())


NONE: BoolArray = np.empty(0, bool)  # no marks, or no wish to know where episodes begin
