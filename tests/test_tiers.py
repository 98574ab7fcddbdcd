"""The short tier has a test of every theorem and of every part of the library; the thorough tier has the rest."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from tiers import tiered

TESTS = Path(__file__).parent
THEOREMS = (TESTS.parent / "docs" / "theorems.md").read_text("utf-8")
STATEMENTS = dict(re.findall(r"^### (.+)\n((?:(?!^##).*\n?)*)", THEOREMS, re.MULTILINE))
FILES = sorted(path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py"))
FOLDERS = sorted({path.partition("/")[0] for path in FILES if "/" in path} - {"sb3"})  # that one needs torch


def is_thorough(node: ast.AST) -> bool:
    return "mark.thorough" in ast.unparse(node)


@functools.cache
def short_tests(path: str) -> set[str]:
    """Returns the tests of a file of which the short tier runs at least one set of parameters."""
    body = ast.parse((TESTS / path).read_text("utf-8")).body
    if any(isinstance(node, ast.Assign) and is_thorough(node) for node in body):
        return set()
    functions = [node for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return {node.name for node in functions if not any(map(is_thorough, node.decorator_list))}


@pytest.mark.parametrize("title", STATEMENTS)
def test_every_statement_has_a_test_in_the_short_tier(title: str) -> None:
    named = re.findall(r"`tests/([\w/]+\.py)::(\w+)`", STATEMENTS[title])
    assert any(name in short_tests(path) for path, name in named if not path.startswith("sb3/"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_folder_has_a_test_in_the_short_tier(folder: str) -> None:
    assert any(short_tests(path) for path in FILES if path.startswith(f"{folder}/"))


def marks(sets: list) -> list[bool]:
    return [
        hasattr(values, "marks") and pytest.mark.thorough.mark in [m.mark for m in values.marks]
        for values in sets
    ]


def test_all_but_the_first_or_the_named_sets_are_thorough() -> None:
    assert marks(tiered([0.0, 2.0, 8.0])) == [False, True, True]
    assert marks(tiered([0.0, 2.0, 8.0], short=2)) == [False, False, True]
    assert marks(tiered([0.0, 2.0, 8.0], short=[2.0])) == [True, False, True]
    with pytest.raises(ValueError, match="not in list"):
        tiered([0.0, 2.0], short=[3.0])


def test_a_set_keeps_its_values_its_name_and_its_marks() -> None:
    first, plain, named = tiered(
        [(1, "a"), (2, "b"), pytest.param(3, "c", id="third", marks=pytest.mark.skip)]
    )
    assert first == (1, "a")
    assert (plain.values, plain.id) == ((2, "b"), None)
    assert (named.values, named.id) == ((3, "c"), "third")
    assert [mark.name for mark in named.marks] == ["skip", "thorough"]
