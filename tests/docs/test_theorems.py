"""The page of statements is true: every object and every test that it names exists, and no statement is missing."""

from __future__ import annotations

import ast
import functools
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "theorems.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^### (.+)\n((?:(?!^##).*\n?)*)", PAGE, re.MULTILINE))
NUMBERED = (
    *(f"emma {k}" for k in range(1, 7)), "Theorem 1", "Algorithm 1", *(f"({k})" for k in range(1, 14)),
)  # fmt: skip
LABELS = tuple(f"E{k}" for k in range(1, 19))


def named(kind: str, text: str = PAGE) -> list[str]:
    lines = re.findall(rf"^- {kind}: (.+)$", text, re.MULTILINE)
    return [name for line in lines for name in re.findall(r"`([^`]+)`", line)]


@functools.cache
def functions_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def find(name: str) -> object:
    """Returns the object of a dotted name; a field of a dataclass counts by its annotation."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            thing: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            fields = getattr(thing, "__annotations__", {})
            thing = fields[part] if part in fields and not hasattr(thing, part) else getattr(thing, part)
        return thing
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("title", SECTIONS)
def test_every_statement_names_its_code_and_its_test(title: str) -> None:
    assert named("code", SECTIONS[title])
    assert named("test", SECTIONS[title])


@pytest.mark.parametrize("name", sorted(set(named("code"))))
def test_every_object_that_the_page_names_exists(name: str) -> None:
    assert name.startswith("rhocover.")
    assert find(name) is not None


@pytest.mark.parametrize("name", sorted(set(named("test"))))
def test_every_test_that_the_page_names_exists(name: str) -> None:
    path, _, function = name.partition("::")
    assert function in functions_of(path)


def test_what_does_not_exist_is_noticed() -> None:
    with pytest.raises(AttributeError):
        find("rhocover.Coverage.values")
    with pytest.raises(AttributeError):
        find("rhocover.planing.plan")
    assert "test_nothing" not in functions_of("tests/docs/test_theorems.py")


def test_every_numbered_statement_of_the_paper_is_there() -> None:
    """Six lemmas, one algorithm, one theorem, thirteen numbered equations; ranges are written "(9) to (12)"."""
    titles = " ".join(SECTIONS)
    for first, last in re.findall(r"\((\d+)\) to \((\d+)\)", titles):
        titles += " ".join(f"({k})" for k in range(int(first), int(last) + 1))
    assert [number for number in NUMBERED if number not in titles] == []


def test_every_erratum_is_named_and_explained() -> None:
    paper = (ROOT / "docs" / "paper.md").read_text("utf-8")
    explained = set(re.findall(r"^\| (E\d+) \|", paper, re.MULTILINE))
    assert explained == set(LABELS)
    assert explained <= set(re.findall(r"\bE\d+\b", " ".join(SECTIONS)))
