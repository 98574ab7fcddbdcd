"""No test is judged by a clock: what is bounded is work, and waiting ends only what hangs."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from patience import PATIENCE
from tiers import tiered

TESTS = Path(__file__).parent
PROJECT = tomllib.loads((TESTS.parent / "pyproject.toml").read_text("utf-8"))
FILES = sorted(path.relative_to(TESTS) for path in TESTS.rglob("*.py"))
LEAST = 300  # seconds; a limit below would end a test that is only slow, on a machine with other work
CLOCKS = r"seconds|perf_counter|monotonic|process_time|time\.time\b|elapsed|\btook\b"


def hurries(source: str) -> Iterator[str]:
    """Yields what in a test fails because of the time that something took."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.keyword) and node.arg == "timeout" and is_short(node.value):
            yield f"line {node.value.lineno}: {ast.unparse(node)}"
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "pytest.mark.timeout":
            yield f"line {node.lineno}: a limit of its own; pyproject.toml has one for all"
        if isinstance(node, ast.Assert) and any(is_race(part) for part in ast.walk(node.test)):
            yield f"line {node.lineno}: {ast.unparse(node)}"


def is_short(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float) and value.value < LEAST


def is_race(node: ast.AST) -> bool:
    """Whether a time is asked to be below a number: `took < 5`, `5 > took`."""
    if not isinstance(node, ast.Compare):
        return False
    terms = [node.left, *node.comparators]
    for left, how, right in zip(terms, node.ops, terms[1:], strict=False):
        low, high = (left, right) if isinstance(how, ast.Lt | ast.LtE) else (right, left)
        is_order = isinstance(how, ast.Lt | ast.LtE | ast.Gt | ast.GtE)
        if is_order and isinstance(high, ast.Constant) and re.search(CLOCKS, ast.unparse(low)):
            return True
    return False


@pytest.mark.parametrize("path", tiered(FILES), ids=lambda path: path.as_posix())
def test_no_test_is_judged_by_a_clock(path: Path) -> None:
    assert list(hurries((TESTS / path).read_text("utf-8"))) == []


@pytest.mark.parametrize(
    "line",
    [
        "subprocess.run(line, timeout=60)",
        "@pytest.mark.timeout(5)\ndef f(): ...",
        "pytestmark = pytest.mark.timeout(5)",
        "assert 0 < plan.seconds < 60",
        "assert 30 > time.perf_counter() - began",
        "assert is_fine and took <= 2.5",
    ],
)
def test_the_test_of_clocks_sees_each_of_them(line: str) -> None:
    assert list(hurries(line))
    assert not list(hurries("assert 0 < plan.seconds <= clock() - began\nrun(line, timeout=PATIENCE)"))


def test_a_hang_is_ended_first_where_it_is_and_then_by_the_limit_of_all_tests() -> None:
    assert LEAST < PATIENCE < PROJECT["tool"]["pytest"]["ini_options"]["timeout"]


def test_no_property_test_has_a_deadline_or_is_refused_for_being_slow() -> None:
    assert settings.default is not None
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check
    assert settings.default.derandomize
