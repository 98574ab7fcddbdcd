"""What is stored comes back as it was, and no changed document is taken for something that it does not say."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import rhocover as rc
from rhocover.datasets.collection.manifest import Part
from rhocover.documents import (
    ADDED_LATER,
    LEFT_OUT,
    Family,
    RowFamily,
    TextNumber,
    from_document,
    plain,
    to_document,
)
from rhocover.environments.encoding import ACTION_CODE, STATE_CODE, Levels, ListedActions, StoredFunction
from rhocover.environments.encoding.bins import StoredBins
from rhocover.environments.encoding.discrete import WholeNumber, WholeNumbers
from rhocover.errors import FileFormatError
from rhocover.experiments.question import StoredExplorer, StoredQuestion
from rhocover.exploring.explorers.registry import EXPLORER, explorer_names, make_explorer
from rhocover.exploring.runs.checkpoint import StoredSettings, StoredState
from rhocover.exploring.runs.stopping import STOP
from rhocover.layout import Ruler
from rhocover.learning.rules import RULE, ErrorRule, StdRule, UniformRule
from rhocover.mdp import StoredModel

quick = settings(
    max_examples=25, deadline=None, derandomize=True, database=None, phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
INF = math.inf

# Every value that is stored.

whole, sizes, texts = st.integers(), st.integers(1, 10**6), st.text(max_size=5)
numbers, shares = st.floats(allow_nan=False, allow_infinity=False), st.floats(1e-6, 0.5)
orders = st.one_of(st.floats(0, 40), st.just(INF))


def several(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values, max_size=3).map(tuple)


def perhaps(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values)


schedules = st.one_of(
    st.builds(rc.Quadratic, sizes), st.builds(rc.Constant, sizes), st.builds(rc.Doubling, sizes),
    st.builds(rc.LineSearch, sizes), st.builds(rc.Power, sizes, st.floats(0, 16)),
)  # fmt: skip
explorers = st.one_of(
    st.sampled_from(explorer_names()).map(make_explorer),
    st.builds(rc.Algorithm1, schedules, st.one_of(st.just("without_plan"), perhaps(shares)), shares),
)
stops = st.one_of(
    st.builds(rc.EveryPair, sizes), st.builds(rc.CertifiedGap, shares, shares),
    st.builds(rc.SmallModelError, shares, shares),
)  # fmt: skip
rules = st.one_of(
    st.just(UniformRule()), st.builds(StdRule, st.booleans(), shares), st.builds(ErrorRule, st.booleans())
)
models = st.one_of(st.just("known"), st.builds(rc.Learned, st.floats(1.01, 9), shares, sample=st.booleans()))
edges = st.lists(numbers, min_size=2, max_size=4)
rulers = st.one_of(
    st.builds(Ruler, texts, edges.map(tuple)),
    st.builds(Ruler, texts, edges.map(lambda inner: (-INF, *inner, INF))),
)
documents = st.dictionaries(texts, perhaps(whole), max_size=2)
run_arguments = {
    "num_steps": whole, "model": models, "discount": perhaps(numbers), "horizon": perhaps(whole),
    "restrict": st.booleans(), "num_chains": whole, "trace_points": whole,
}  # fmt: skip
STORED: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "explorer": (EXPLORER, explorers),
    "stop": (STOP, stops),
    "rule": (RULE, rules),
    "discrete states": (STATE_CODE, st.builds(WholeNumber, sizes, whole)),
    "several discrete states": (STATE_CODE, st.lists(st.tuples(sizes, whole), min_size=1, max_size=3).map(lambda rows: WholeNumbers(*zip(*rows, strict=True)))),
    "function": (STATE_CODE, st.builds(StoredFunction, texts)),
    "levels": (ACTION_CODE, st.builds(Levels, several(several(numbers)))),
    "listed actions": (ACTION_CODE, st.builds(ListedActions, several(several(numbers)))),
    "bins": (
        STATE_CODE,
        st.builds(
            StoredBins, several(several(numbers)), several(st.tuples(perhaps(numbers), perhaps(numbers))),
            several(texts), st.one_of(texts, perhaps(several(whole))),
        ),
    ),
    "part": (Part, st.builds(
        Part, st.just("part-0000-000001.parquet"), st.integers(0, 9), st.integers(0, 9), sizes, st.integers(0, 2**53), sizes, texts
    )),
    "standing": (
        StoredState,
        st.builds(StoredState, whole, whole, whole, whole, st.booleans(), texts, texts, whole),
    ),
    "mdp": (
        StoredModel,
        st.builds(StoredModel, whole, whole, perhaps(several(texts)), perhaps(several(texts)), texts, texts,
                  several(rulers)),
    ),
    "settings": (
        StoredSettings,
        st.builds(
            StoredSettings, **run_arguments, seed=whole, rho=orders, until=perhaps(stops),
            rule=st.one_of(documents, perhaps(texts)), explorer=st.one_of(documents, texts), fingerprint=texts,
        ),
    ),
    "question": (
        StoredQuestion,
        st.builds(
            StoredQuestion, **run_arguments, envs=several(texts), fingerprints=several(texts),
            mu=several(st.one_of(documents, perhaps(texts))), rho=several(orders), explorers=several(texts),
            explorer_settings=several(perhaps(st.builds(StoredExplorer, texts, documents))),
            seeds=several(whole), start=st.one_of(whole, perhaps(several(numbers))),
        ),
    ),
}  # fmt: skip


def written(kind: Any, value: Any) -> Any:
    """Returns the document of a value as a file gives it back."""
    return json.loads(json.dumps(kind.write(value) if isinstance(kind, Family) else to_document(value)))


@pytest.mark.parametrize("name", STORED)
@quick
@given(data=st.data())
def test_what_is_stored_comes_back_to_the_bit(name: str, data: st.DataObject) -> None:
    kind, values = STORED[name]
    value = data.draw(values)
    document = written(kind, value)
    again = from_document(kind, document, "it")
    assert again == value
    assert json.dumps(written(kind, again)) == json.dumps(document)  # 1 and 1.0 have different digests


# Damage.

OTHERS: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    10**400,
    0.5,
    math.nan,
    INF,
    -INF,
    "",
    "text",
    [],
    [None],
    {},
    {"more": 1},
)


def places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Yields every part of a document, as what holds it and its key there."""
    keys = list(document) if isinstance(document, dict) else range(len(document))
    for key in keys:
        yield document, key
        if isinstance(document[key], dict | list):
            yield from places(document[key])


def damaged(document: Any) -> Iterator[Any]:
    """Yields the document with one part taken out, put in twice under another name, or replaced."""
    for number in range(len(list(places(document)))):
        for change in ("remove", "double", *range(len(OTHERS))):
            one = copy.deepcopy(document)
            holder, key = list(places(one))[number]
            if change == "remove":
                del holder[key]
            elif change == "double":
                holder.update(more=1) if isinstance(holder, dict) else holder.append(holder[key])
            else:
                holder[key] = OTHERS[change]
            yield one
    yield from OTHERS


def compared(document: Any) -> Any:
    """Returns a document to be compared: true is not 1, NaN is NaN; without what files of earlier versions may lack."""
    if isinstance(document, dict):
        return {key: compared(part) for key, part in document.items() if key not in MAY_BE_ABSENT}
    if isinstance(document, list):
        return [compared(part) for part in document]
    return repr(document) if isinstance(document, bool) or document != document else document


MAY_BE_ABSENT = ("note", "rulers", "size")


@pytest.mark.parametrize("name", STORED)
@settings(quick, max_examples=3)
@given(data=st.data())
def test_a_changed_document_is_refused_or_is_that_of_another_value(name: str, data: st.DataObject) -> None:
    kind, values = STORED[name]
    for document in damaged(written(kind, data.draw(values))):
        with suppress(FileFormatError):  # and no other error
            value = from_document(kind, document, "the thing")
            assert compared(written(kind, value)) == compared(document)


# The codec by itself.


@dataclass(frozen=True)
class Point:
    """A field of each kind."""

    x: float
    tag: Literal["a", "b"] = "a"
    of: tuple[int, str] | None = None
    rho: TextNumber = 2.0
    at: Annotated[Any, RowFamily("a schedule", {"constant": rc.Constant})] | None = None
    later: str = field(default="old", metadata=ADDED_LATER)
    size: int = field(default=3, metadata=LEFT_OUT)
    length: float = field(init=False, default=0.0)


WHOLE = {"x": 1, "tag": "b", "of": [1, "z"], "rho": "inf", "at": ["constant", [7]], "later": "new"}


def test_each_type_has_its_place_in_a_document() -> None:
    point = Point(1, "b", (1, "z"), INF, rc.Constant(7), "new")
    assert to_document(point) == WHOLE
    assert to_document(Point(1.5, size=4)) == {
        "x": 1.5, "tag": "a", "of": None, "rho": "2.0", "at": None, "later": "old", "size": 4,
    }  # fmt: skip
    assert from_document(Point, WHOLE, "the point") == point
    del (old := dict(WHOLE))["later"]
    assert from_document(Point, old, "the point").later == "old"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": "1"}, "`x` must be a number, got '1'"),
        ({"x": math.nan}, "`x` must be a number, got nan"),
        ({"x": True}, "`x` must be a number, got True"),
        ({"tag": "c"}, "`tag` must be 'a' or 'b', got 'c'"),
        ({"of": [1]}, r"`of` must be a list of 2, got \[1\]"),
        ({"of": [1.0, "z"]}, r"`of\[0\]` must be a whole number, got 1.0"),
        ({"of": 3}, "`of` must be a list or null, got 3"),
        ({"rho": "two"}, "`rho` must be a number as text, got 'two'"),
        ({"rho": 2.0}, "`rho` must be a number as text, got 2.0"),
        ({"at": ["never", []]}, r"`at\[0\]` must be one of constant, got 'never'"),
        ({"at": ["constant", []]}, r"`at\[1\]` must be \[tau\], got \[\]"),
        ({"at": ["constant", [0]]}, "`at`: `tau` must be at least 1, got 0"),
        ({"more": 1}, "it must be an object with the keys x, tag, of, rho, at, later, size, got .*'more'"),
    ],
)
def test_a_refusal_names_the_key_and_what_was_expected_and_what_came(change: Any, message: str) -> None:
    with pytest.raises(FileFormatError, match=f"^the point cannot be read: {message}"):
        from_document(Point, WHOLE | change, "the point")


def test_a_key_that_is_missing_is_named() -> None:
    with pytest.raises(
        FileFormatError, match=r"`settings\.delta` is missing: expected an object with the keys"
    ):
        from_document(STOP, {"name": "certified_gap", "settings": {"gap": 0.1}}, "the rule")


def test_what_no_document_holds_is_not_written() -> None:
    class Own:
        def length(self, k: int, num_steps: int) -> int:
            return 1

    with pytest.raises(TypeError, match="no document holds a Own as a schedule"):
        to_document(rc.Algorithm1(schedule=Own()))
    with pytest.raises(TypeError, match="no document holds a Point as a stopping rule"):
        STOP.write(Point(1))


def test_figures_are_json_that_every_reader_takes() -> None:
    import numpy as np

    given = {"a": (INF, -INF, math.nan), "b": [np.float64(1.5), np.int64(2), np.float32("inf")], "c": "text"}
    assert plain(given) == {"a": ["inf", "-inf", None], "b": [1.5, 2, "inf"], "c": "text"}
