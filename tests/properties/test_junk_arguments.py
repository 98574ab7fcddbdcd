"""Junk for every argument of the public API: an answer, or an error of ours that names the argument.

Every argument of every call of `junk_calls` meets every value of `junk_values`: some 25,000 calls. Hypothesis
adds values that nobody thought of.
"""

from __future__ import annotations

import time
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from junk_calls import Call, TooLongError, calls, junk_values, names, patience, trouble
from property_tools import many

from rhocover.errors import RhocoverError
from tiers import tiered

CALLS = calls()
NUM_TRIED = sum(len(call.base) for call in CALLS) * len(junk_values())
MALFORMED = 5_000  # calls, together with the files of the fuzz tests 10,000 and more


def ident(place: int) -> str:
    call = CALLS[place]
    return f"{place}-{call.name}-{getattr(call.function, '__name__', 'made')}"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Some junk is the name of a file."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("place", tiered(range(len(CALLS)), short=12), ids=ident)
def test_junk_is_refused_by_name_or_means_something(place):
    call = CALLS[place]
    found = [
        f"{argument} = {what}: {wrong}"
        for argument in call.base
        for what, value in junk_values().items()
        if (wrong := trouble(call, argument, value))
    ]
    assert not found, "\n".join(found)


def test_thousands_of_malformed_calls_are_tried():
    assert NUM_TRIED >= 4 * MALFORMED
    refused = sum(is_refused(call, argument) for call in CALLS for argument in call.base)
    assert refused * len(junk_values()) >= MALFORMED  # most junk is junk for most arguments


def is_refused(call: Call, argument: str) -> bool:
    try:
        call.function(**call.fixed, **(call.base | {argument: object()}))
    except RhocoverError:
        return True
    return False


# Calls that must fail in any case, lest they write or run for long; what they say is known.
BOUND_TO_FAIL = {
    "load": "there is no file",
    "reproduce": "unknown reproduction",
    "collect": "`out` must be a new",
}


@pytest.mark.parametrize("place", tiered(range(len(CALLS)), short=12), ids=ident)
def test_the_calls_themselves_work(place):
    """Else the junk would be refused for another reason."""
    call = CALLS[place]
    known = BOUND_TO_FAIL.get(getattr(call.function, "__name__", ""))
    with pytest.raises(RhocoverError, match=known) if known else nullcontext():
        call.function(**call.fixed, **call.base)


anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(), st.text(max_size=5), st.binary(max_size=5),
    st.fractions(), st.decimals(), st.dates(), st.uuids(), st.lists(st.floats(), max_size=4),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2), st.sets(st.integers(), max_size=3),
    hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=7)),
    hnp.arrays(np.float64, (6, 2)), hnp.arrays(np.float64, 12), hnp.arrays(np.int64, (6, 2)), hnp.arrays(bool, 12),
    hnp.arrays(np.float64, (6, 2), elements=st.floats(0, 1e300)),
)  # fmt: skip
# Sizes and numbers of steps are left out: a million of them is no junk, only long.
LONG = ("num", "size", "length", "visits", "seeds", "horizon", "episode", "max_", "trace", "counts")
ARGUMENTS = [
    (call, argument) for call in CALLS for argument in call.base if not argument.startswith(LONG) and call.name != "reproduce"
]  # fmt: skip


@many
@given(st.lists(st.tuples(st.sampled_from(range(len(ARGUMENTS))), anything), min_size=12, max_size=12))
def test_values_that_nobody_thought_of_are_no_different(drawn):
    for (call, argument), value in ((ARGUMENTS[place], value) for place, value in drawn):
        assert not trouble(call, argument, value), (call.name, argument, value)


def test_the_harness_sees_what_is_wrong():
    """A wrong exception, a message without the name, a warning, a call that hangs."""

    def door(kind: str) -> None:
        if kind == "foreign":
            raise KeyError(kind)
        if kind == "nameless":
            raise RhocoverError("no.")
        if kind == "named":
            raise RhocoverError("`kind` must be something else.")
        np.float64(1) / np.float64(kind == "fine")

    call = Call("door", door, {"kind": "fine"}, {})
    assert trouble(call, "kind", "foreign").startswith("KeyError")
    assert "does not name" in trouble(call, "kind", "nameless")
    assert trouble(call, "kind", "warning").startswith("RuntimeWarning")
    assert not trouble(call, "kind", "named")
    assert not trouble(call, "kind", "fine")
    assert not names("`mu` is wrong.", "rho")
    with pytest.raises(TooLongError), patience(0.01):
        time.sleep(5)
