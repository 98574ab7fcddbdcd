"""Docstrings of the house come out as they are meant: code, emphasis, lists, equations, tables, examples, fields."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import pytest
from docutils.core import publish_doctree
from docutils.nodes import Element, document
from extensions import extension

docstrings = extension("docstrings")
SETTINGS = {"report_level": 1, "halt_level": 2, "file_insertion_enabled": False}  # a warning is an error


def shown(text: str) -> document:
    return publish_doctree("\n".join(docstrings.convert(text)), settings_overrides=SETTINGS)


def texts(tree: document, kind: str) -> list[str]:
    return [node.astext() for node in tree.findall() if isinstance(node, Element) and node.tagname == kind]


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("Returns `plan(mdp)`, not `x`s.", "literal", ["plan(mdp)", "x"]),
        (
            "d* and t_k, |U*| of d_ and T_, 2 * 3 * 4",
            "paragraph",
            ["d* and t_k, |U*| of d_ and T_, 2 * 3 * 4"],
        ),
        ("keeps its *relative* accuracy, d* too", "emphasis", ["relative"]),
        ("**k_delta** is not worked out", "strong", ["k_delta"]),
        ("A sum:\n\n    U = sum_i mu_i^rho", "math_block", [r"U = \sum_{i} \mu _{i}^{\rho }"]),
        (
            "A listing:\n\n    model.safetensors   the model",
            "literal_block",
            ["model.safetensors   the model"],
        ),
        ("It records:\n- `a`: one\n  and more\n- b", "list_item", ["a: one\nand more", "b"]),
        ("* `rhocover demo`  shows it\n* two", "list_item", ["rhocover demo  shows it", "two"]),
        (">>> 1 + 1\n2", "doctest_block", [">>> 1 + 1\n2"]),
        ("| a | b |\n|---|---|\n| x_ | `y` |", "entry", ["a", "b", "x_", "y"]),
    ],
)
def test_what_is_written_is_what_is_shown(text: str, kind: str, expected: list[str]) -> None:
    assert texts(shown(text), kind) == expected


class Colour(enum.Enum):
    RED = "like a *rose*"


@dataclass(frozen=True)
class Base:
    first: int  # the first
    _hidden: int  # not shown


@dataclass(frozen=True)
class Result(Base):
    """Has fields."""

    value: float | None  # a number, `nan` if there is none
    name: str


def test_fields_of_a_dataclass_have_their_comments_also_those_of_its_bases() -> None:
    assert docstrings.fields_of(Result) == [
        ("first", "int", "the first"),
        ("value", "float | None", "a number, `nan` if there is none"),
        ("name", "str", ""),
    ]
    tree = publish_doctree("\n".join(docstrings.members_table(Result)), settings_overrides=SETTINGS)
    assert texts(tree, "entry")[:4] == [
        "first",
        "int: the first",
        "value",
        "float | None: a number, nan if there is none",
    ]


def test_members_of_an_enumeration_are_shown_with_what_they_mean() -> None:
    tree = publish_doctree("\n".join(docstrings.members_table(Colour)), settings_overrides=SETTINGS)
    assert texts(tree, "entry") == ["RED", "like a rose"]
    assert docstrings.members_table(int) == []


def test_a_result_is_shown_without_its_signature_and_settings_with_it() -> None:
    import rhocover as rc

    assert docstrings.shorten(None, "class", "", rc.Plan, None, "(mdp)", None) == ("", None)
    for kept in (rc.Coverage, rc.Algorithm1, rc.EveryPair):
        assert docstrings.shorten(None, "class", "", kept, None, "(x)", None) == ("(x)", None)
    written = docstrings.shorten(
        None, "function", "", len, None, "(x)", "tuple[TypeAliasForwardRef('A'), int]"
    )
    assert written == ("(x)", "tuple[A, int]")


def test_settings_without_comments_have_no_table_beside_their_signature() -> None:
    import rhocover as rc

    assert docstrings.members_table(rc.baselines.CovGame) == []
    assert docstrings.members_table(rc.Plan) != []
