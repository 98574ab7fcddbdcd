"""The mutation tool makes the mistakes that it says, puts them where it says, and notices what tests notice."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from patience import PATIENCE
from tools.mutation.__main__ import all_mutants, sample
from tools.mutation.grafting import graft
from tools.mutation.mutants import mutants_of

ROOT = Path(__file__).parents[2]


def texts(source: str) -> set[str]:
    source = textwrap.dedent(source)
    return {mutant.applied(source.encode()).decode() for mutant in mutants_of("a.py", source.encode())}


@pytest.fixture(scope="module")
def core():
    return all_mutants(ROOT / "src" / "rhocover")


@pytest.mark.parametrize(
    ("line", "mutated"),
    [
        ("x = a + b", {"x = a - b"}),
        ("x = a ** b", {"x = a * b"}),
        ("x = a < b", {"x = a <= b", "x = a >= b"}),
        ("x = a is None", {"x = a is not None"}),
        ("x = a and b or c", {"x = a or b or c", "x = a and b and c"}),
        ("x = not a", {"x = (a)"}),
        ("x = -a", {"x = (a)"}),
        ("x = 3", {"x = 4", "x = 2"}),
        ("x = 0.5", {"x = 1.5", "x = 5.0", "x = (-0.5)"}),
        ("x = True", {"x = False"}),
        ("x = y.max()", {"x = y.min()"}),
        ("x = np.log1p(y)", {"x = np.log(y)"}),
        ("x = np.abs(y)", {"x = (y)"}),
        ("x = y.copy()", {"x = y"}),
        ("x += y", {"x -= y", "pass"}),
        ("x[a:b] = y", {"x[a + 1:b] = y", "x[a:b + 1] = y", "pass"}),
        ("x = y[k]", {"x = y[k - 1]"}),
        ("f(x)", {"pass"}),
        ("x = range(n)", {"x = range(n - 1)"}),
        ("x = a if f(b) else c", {"x = a if not (f(b)) else c"}),
    ],
)
def test_a_line_has_these_mutants(line, mutated):
    assert texts(line) == mutated


def test_what_is_written_for_readers_has_no_mutants():
    assert not texts(
        '''
        """A chapter of 3 + 4."""
        from typing import TYPE_CHECKING
        __all__ = ["a", "b"][:1]
        if TYPE_CHECKING:
            x = 1
        class A:
            """Not 1."""
            size: Literal[3]
            def __repr__(self) -> str:
                return "A" + str(self.size + 1)
        @njit(cache=True, boundscheck=1)
        def f(a: Literal[2]) -> Literal[1]:
            """Returns 1 + 1."""
            return f"{a + 1}"
        '''
    )


def test_a_raise_may_go_but_its_message_stays():
    assert texts("if bad:\n    raise ValueError(1 + 2)") == {
        "if not (bad):\n    raise ValueError(1 + 2)",
        "if bad:\n    pass",
    }


def test_only_assignments_that_leave_the_name_bound_are_removed():
    found = texts("def f(a):\n    b = a\n    a = b\n    b = a\n    return b")
    assert found == {
        "def f(a):\n    b = a\n    pass\n    b = a\n    return b",
        "def f(a):\n    b = a\n    a = b\n    pass\n    return b",
    }


def test_default_values_have_mutants():
    assert texts("def f(a, *, b=2): ...") == {"def f(a, *, b=3): ...", "def f(a, *, b=1): ..."}


def test_a_name_stays_when_something_is_written_above():
    function = b"def f(a):\n    return a + 1\n"
    names = [mutant.name for mutant in mutants_of("a.py", function)]
    above = b"LIMIT = 3\n\n\ndef g(a):\n    return a + 2\n\n\n"
    assert [mutant.name for mutant in mutants_of("a.py", above + function) if mutant.function == "f"] == names


@pytest.mark.thorough
def test_the_mutants_of_the_core_compile_and_have_names_of_their_own(core):
    every = [mutant for mutants in core.values() for mutant in mutants]
    assert len({mutant.name for mutant in every}) == len(every) > 4000
    for mutant in sample(core, 150, 1):
        source = (ROOT / "src" / "rhocover" / mutant.path).read_bytes()
        assert mutant.applied(source) != source
        compile(mutant.applied(source), mutant.path, "exec")


@pytest.mark.thorough
def test_a_sample_has_the_same_share_of_every_file_and_holds_smaller_ones(core):
    small, large = sample(core, 200, 0), sample(core, 500, 0)
    assert small == sample(core, 200, 0) != sample(core, 200, 1)
    assert set(small) < set(large)
    total = sum(map(len, core.values()))
    for path, mutants in core.items():
        assert 0 <= sum(m.path == path for m in large) - 500 * len(mutants) / total < 1


# --- grafting -------------------------------------------------------------------------------------------

SMALL = """
from functools import cache
from numba import njit

LIMIT = 3

def plain(a, b=2):
    return a + b

def limit():
    return LIMIT

@cache
def cached():
    return 1

class Box:
    SIDES = 6

    def __init__(self, side):
        self.side = side

    @property
    def area(self):
        return self.side * self.side

@njit
def inner(x):
    return x + 1

@njit
def outer(x):
    return inner(x) * 2
"""
USES = {
    "plain": lambda m: m.plain(5),
    "limit": lambda m: (m.limit(), m.LIMIT),
    "cached": lambda m: m.cached(),
    "Box": lambda m: (m.Box.SIDES, m.Box(3).area),
    "inner": lambda m: m.inner(4),
    "outer": lambda m: m.outer(4),
}


@pytest.mark.parametrize(
    ("function", "old", "new", "changed"),
    [
        ("plain", "a + b", "a - b", {"plain": 3}),
        ("plain", "b=2", "b=3", {"plain": 8}),
        ("<module>", "LIMIT = 3", "LIMIT = 4", {"limit": (4, 4)}),
        ("cached", "return 1", "return 2", {"cached": 2}),
        ("Box", "SIDES = 6", "SIDES = 7", {"Box": (7, 9)}),
        ("Box.area", "self.side * self", "self.side / self", {"Box": (6, 1)}),
        ("inner", "x + 1", "x - 1", {"inner": 3, "outer": 6}),
        ("outer", "* 2", "* 3", {"outer": 15}),
    ],
)
def test_a_grafted_mutant_is_what_every_caller_sees(tmp_path, monkeypatch, function, old, new, changed):
    monkeypatch.syspath_prepend(tmp_path)
    name = f"small_{abs(hash((function, new)))}"
    (tmp_path / f"{name}.py").write_text(SMALL)
    module = importlib.import_module(name)
    usual = {use: call(module) for use, call in USES.items() if use != "cached"} | {"cached": 1}
    assert SMALL.count(old) == 1
    graft(module, SMALL.replace(old, new).encode(), function)
    assert {use: call(module) for use, call in USES.items()} == usual | changed


# --- running --------------------------------------------------------------------------------------------

DRIVER = """
import sys
from pathlib import Path
import pytest
from tools.mutation.mutants import mutants_of
from tools.mutation.running import Server

source = Path("tiny")
mutants = mutants_of("core.py", (source / "core.py").read_bytes())
server = Server(source.resolve(), mutants, Path("r.jsonl"), Path("l.jsonl"), budget=9, processes=2)
sys.exit(pytest.main(["test_tiny.py", "-q", "-p", "no:cacheprovider"], plugins=[server]))
"""


@pytest.mark.thorough
def test_a_mutant_is_killed_by_a_failure_or_a_hang_and_else_survives(tmp_path):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "__init__.py").touch()
    (tmp_path / "tiny" / "core.py").write_text(
        "def total(n):\n    s = 0\n    while n > 0:\n        s += n\n        n -= 1\n    return s\n"
    )
    (tmp_path / "test_tiny.py").write_text(
        "from tiny.core import total\n\ndef test_total():\n    assert total(3) == 6\n\n"
        "def test_wrong():\n    assert total(3) == 7\n"
    )
    path = {"PYTHONPATH": f"{ROOT}:{tmp_path}", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        cwd=tmp_path,
        env=path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert "1 tests do not pass without a mutant" in done.stdout, done.stdout + done.stderr
    rows = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    killer = {(row["change"], row["line"]): row["killer"] for row in rows}
    assert killer["no augassign", 5] == killer["-= to +=", 5] == "signal SIGPROF"  # for ever
    assert killer["+= to -=", 4] == killer["> to <=", 3] == "test_tiny.py::test_total"
    assert killer["> to >=", 3] == ""  # adds zero
    assert len(rows) == len(killer) == 12
