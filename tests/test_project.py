"""What the project says about itself is true: its rooms, its locks, its prose and its version."""

from __future__ import annotations

import ast
import doctest
import graphlib
import importlib
import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import rhocover
from prose import check_examples, commands, run_blocks
from tiers import tiered

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "rhocover"
MODULES = sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

# A module may import what stands above its room in this list, and its own room.
ROOMS = (
    "_version", "arguments", "printing", "errors", "plugins", "checks", "progress", "compiling", "executors", "engines", "documents", "folders", "files", "showing", "layout",
    "transitions", "mdp", "linalg", "chains", "coverage", "weights", "linear_program", "occupancy", "oracles",
    "planning", "theory", "learning", "exploring", "baselines", "envs",
    "datasets.tally", "datasets.columns", "environments.stepping", "environments.encoding", "datasets.states",
    "environments", "datasets", "report", "collecting", "experiments", "diagnosis", "cli", "__main__",
)  # fmt: skip
HEAVY = {
    "numba", "highspy", "matplotlib", "typer", "rich", "safetensors", "scipy.sparse.linalg", "gymnasium",
    "pydantic",
}  # fmt: skip
LOCKS = {
    "run": (),
    "test": ("test",),
    "bench": ("bench", "fast", "parquet"),
    "ray": ("ray",),
}  # lock file: the extras it holds


# Rooms.


def room_of(path: Path) -> str:
    return layer_of(path.with_suffix("").parts)


def layer_of(names: Sequence[str]) -> str:
    """Returns the layer of a module by the parts of its name: its own where it has one, or its package's."""
    own = ".".join(names[:2])
    return own if own in ROOMS else names[0]


def rooms_imported(source: str, path: Path) -> Iterator[tuple[int, str]]:
    """Yields (line, room) for each import at run time, at the top or inside a function."""
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        for name in imported_names(node, path):
            head, _, rest = name.partition(".")
            if head == "rhocover":
                yield getattr(node, "lineno", 0), first_room(rest)


def imported_names(node: ast.AST, path: Path) -> list[str]:
    """Returns the full dotted names that one statement or call imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        package = ("rhocover", *path.parent.parts)
        base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
        module = ".".join(filter(None, (base, node.module)))
        return [f"{module}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and re.search(r"\b(import_module|__import__)$", ast.unparse(node.func)):
        text = node.args[0] if node.args else None
        text = text.values[0] if isinstance(text, ast.JoinedStr) and text.values else text
        return [text.value] if isinstance(text, ast.Constant) and isinstance(text.value, str) else []
    return []


def first_room(rest: str) -> str:
    """Returns the room of `rest`, a dotted name below rhocover; a public name counts as its home."""
    name = rest.partition(".")[0]
    if name == "__version__":
        return "_version"
    return layer_of(rhocover._HOME.get(name, f"rhocover.{rest}").split(".")[1:])


def test_layers() -> None:
    """A module imports only its own room and the rooms above it; every module has a room."""
    wrong = []
    for path in MODULES:
        if path == Path("__init__.py"):
            continue
        if room_of(path) not in ROOMS:
            wrong.append(f"{path}: not in ROOMS; say there what it may import")
            continue
        above = ROOMS[: ROOMS.index(room_of(path)) + 1]
        for line, room in rooms_imported((SOURCE / path).read_text("utf-8"), path):
            if room not in above:
                wrong.append(f"{path}:{line}: imports {room or 'rhocover itself'}, which is not above it")
    assert not wrong, "\n".join(wrong)


def modules_imported_first(path: Path) -> set[str]:
    """Returns the modules that must be there before a module is: its imports at the top, with their packages."""
    names = {
        ".".join(("rhocover", *other.with_suffix("").parts)).removesuffix(".__init__") for other in MODULES
    }
    own, found = ".".join(("rhocover", *path.with_suffix("").parts)).removesuffix(".__init__"), set()
    for node in ast.parse((SOURCE / path).read_text("utf-8")).body:
        for name in imported_names(node, path):
            parts = name.split(".")
            found |= {".".join(parts[:k]) for k in range(2, len(parts) + 1)} & names
    return {name for name in found if name != own and not own.startswith(f"{name}.")}


def test_every_module_can_be_imported_first() -> None:
    """No circle of imports at the top of modules; a package is there before its modules are."""
    order = graphlib.TopologicalSorter(
        {
            ".".join(("rhocover", *path.with_suffix("").parts)).removesuffix(
                ".__init__"
            ): modules_imported_first(path)
            for path in MODULES
        }
    )
    order.prepare()  # raises CycleError, which names the circle


@pytest.mark.parametrize(
    ("line", "room"),
    [
        ("import rhocover", ""),
        ("from rhocover import plan", "planning"),
        ("from rhocover import cli, errors", "cli"),
        ("from .. import cli", "cli"),
        ("from .solver import solve", "planning"),
        ("def f():\n    from rhocover.report.pages import page", "report"),
        ("importlib.import_module(f'rhocover.envs.{name}')", "envs"),
        ("if TYPE_CHECKING:\n    import rhocover.datasets\nelse:\n    import rhocover.cli", "cli"),
        ("from rhocover import __version__", "_version"),
    ],
)
def test_the_layer_test_sees_an_import_in_every_spelling(line: str, room: str) -> None:
    found = [room for _, room in rooms_imported(line, Path("planning/x.py"))]
    assert room in found
    assert "data" not in found


# Shapes.

MOST_ARGUMENTS = 7  # what one takes in at a glance; more of them are values that belong together
NOT_YET = (
    "exploring/",
    "collecting/",
    "planning/problem.py",
    "environments/counts.py",
    "datasets/reading.py",
)


def definitions() -> Iterator[tuple[Path, str, ast.ClassDef | ast.FunctionDef]]:
    """Yields (path, class around it or "", definition) for each class, function and method."""
    for path in MODULES:
        if path.as_posix().startswith(NOT_YET):
            continue
        waiting = [("", node) for node in ast.parse((SOURCE / path).read_text("utf-8")).body]
        while waiting:
            around, node = waiting.pop()
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                yield path, around, node
                name = node.name if isinstance(node, ast.ClassDef) else ""
                waiting += [(name, child) for child in node.body]


def flat_names() -> set[tuple[str, str]]:
    """Returns (module, name) of what rhocover and its packages export, with base classes, and of commands."""
    from rhocover.cli.app import app

    packages = {path.parts[0] for path in MODULES if path.name == "__init__.py" and len(path.parts) > 1}
    modules = [rhocover, *(importlib.import_module(f"rhocover.{name}") for name in sorted(packages))]
    exported = [getattr(module, name) for module in modules for name in getattr(module, "__all__", ())]
    commands = [command.callback for command in app.registered_commands]
    found = [base for x in [*exported, *commands] for base in getattr(x, "__mro__", (x,))]
    return {(getattr(x, "__module__", ""), getattr(x, "__name__", "")) for x in found}


def num_arguments(node: ast.FunctionDef) -> int:
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def test_no_function_inside_takes_more_than_seven_arguments() -> None:
    """Exported functions, public methods of exported classes, commands and compiled loops are flat."""
    flat, wrong = flat_names(), []
    for path, around, node in definitions():
        if isinstance(node, ast.ClassDef) or num_arguments(node) <= MOST_ARGUMENTS:
            continue
        module = ".".join(("rhocover", *path.with_suffix("").parts))
        is_private = around and re.match(r"_(?!_init__$)", node.name)
        is_compiled = any(ast.unparse(d).startswith("compiled") for d in node.decorator_list)
        if not is_compiled and (is_private or (module, around or node.name) not in flat):
            wrong.append(f"{path}:{node.lineno}: {node.name} takes {num_arguments(node)} arguments")
    assert not wrong, "make values of what belongs together:\n" + "\n".join(wrong)


def test_a_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = {}
    for path, _, node in definitions():
        if isinstance(node, ast.ClassDef):
            places.setdefault(node.name, []).append(path.as_posix())
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_module_is_named_like_one_of_the_standard_library() -> None:
    found = [path for path in MODULES if not path.as_posix().startswith(NOT_YET)]
    shadows = sys.stdlib_module_names - {"__main__"}  # `python -m rhocover` needs that one
    assert [str(path) for path in found if {path.stem, *path.parts[:-1]} & shadows] == []


def test_nothing_is_unpickled_or_evaluated() -> None:
    """Files and texts are data: loading one can never run code."""
    wrong = [
        f"{path}:{getattr(node, 'lineno', '?')}: {ast.unparse(node)}"
        for path in MODULES
        for node in ast.walk(ast.parse((SOURCE / path).read_text("utf-8")))
        if runs_foreign_code(node)
    ]
    assert not wrong, "\n".join(wrong)


def runs_foreign_code(node: ast.AST) -> bool:
    words: list[str] = []
    if isinstance(node, ast.Import | ast.ImportFrom):
        words = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
    elif isinstance(node, ast.Attribute):
        words = [node.attr]
    elif isinstance(node, ast.keyword):
        refused = isinstance(node.value, ast.Constant) and node.value.value is False
        words = [] if refused else [node.arg or ""]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("eval", "exec", "compile", "__import__")
    return any(re.search(r"pickle|\b(dill|joblib|marshal|shelve)\b", word) for word in words)


@pytest.mark.parametrize(
    "line",
    ["import pickle", "from dill import load", "load(f, allow_pickle=True)", "pd.read_pickle(f)", "eval(x)"],
)
def test_the_pickle_test_sees_each_way_in(line: str) -> None:
    assert any(runs_foreign_code(node) for node in ast.walk(ast.parse(line)))
    assert not any(runs_foreign_code(node) for node in ast.walk(ast.parse("np.load(f, allow_pickle=False)")))


def test_loops_are_compiled_through_compiling_alone() -> None:
    """There the folder for compiled code is chosen, and what to do where there is none."""
    wrong = [
        f"{path}:{getattr(node, 'lineno', '?')}"
        for path in MODULES
        if path != Path("compiling.py")
        for node in ast.walk(ast.parse((SOURCE / path).read_text("utf-8")))
        if re.search(r"\b(njit|jit|vectorize|cfunc|stencil)\b", written_name(node))
    ]
    assert not wrong, f"use rhocover.compiling.compiled: {', '.join(wrong)}"


def written_name(node: ast.AST) -> str:
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("numba"):
        return " ".join(alias.name for alias in node.names)
    return ast.unparse(node) if isinstance(node, ast.Attribute) and "numba" in ast.unparse(node) else ""


def test_importing_rhocover_is_light() -> None:
    """Names load on first use, so the import brings in none of the heavy packages."""
    code = "import json, sys, rhocover; print(json.dumps(sorted(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & set(json.loads(result.stdout))


# Locks.


def lock_text(name: str) -> str:
    return (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")


def pins(name: str) -> dict[str, str]:
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", lock_text(name), re.MULTILINE)
    return {canonicalize_name(package): version for package, version in found}


CONSTRAINTS = ("-c requirements/run.txt", "-c requirements/test.txt")  # what a lock agrees with


@pytest.mark.parametrize("name", [*LOCKS, "sb3"])
def test_a_lock_names_no_place(name: str) -> None:
    """A lock says what, not from where: no host, no index option, no path of the machine that made it."""
    places = r"://|^-(?!-hash=)|\bfile:/|[\w-]+\.(org|com|net|io|dev)\b|(^|[\s\"'=@(])(/|~/|[A-Za-z]:\\)"
    lines = [line.strip().removeprefix("#").strip() for line in lock_text(name).splitlines()]
    assert [line for line in lines if re.search(places, line) and line not in CONSTRAINTS] == []


@pytest.mark.parametrize("name", [*LOCKS, "sb3"])
def test_a_lock_pins_every_package_with_hashes(name: str) -> None:
    logical = lock_text(name).replace("\\\n", " ").splitlines()
    packages = [line for line in logical if line.strip() and not line.lstrip().startswith("#")]
    assert packages
    for line in packages:
        assert re.match(r"[\w.-]+==\S+( ; [^#]*)?(\s+--hash=sha256:[0-9a-f]{64})+\s*$", line), line[:80]


@pytest.mark.parametrize(("name", "extras"), LOCKS.items())
def test_a_lock_satisfies_what_the_project_declares(name: str, extras: tuple[str, ...]) -> None:
    pinned = pins(name)
    declared = [*PROJECT["dependencies"], *(r for e in extras for r in PROJECT["optional-dependencies"][e])]
    for requirement in map(Requirement, declared):
        version = pinned.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement} is not in requirements/{name}.txt. Run: make lock"
        assert requirement.specifier.contains(version, prereleases=True), f"{requirement}, pinned {version}"


def test_the_lock_of_ray_agrees_with_what_is_tested() -> None:
    """It is installed on top: what both have is the same."""
    tested = pins("test")
    assert {name: tested.get(name, version) for name, version in pins("ray").items()} == pins("ray")


@pytest.mark.parametrize("name", ["test", "bench"])
def test_locks_agree_with_the_runtime_lock(name: str) -> None:
    """What is tested and measured is what is run."""
    assert pins("run").items() <= pins(name).items()
    assert "torch" not in pins(name)


def test_the_lock_of_stable_baselines_pins_it_and_not_torch() -> None:
    """torch comes apart, as a CPU build; what it stands on is in the other locks."""
    requirement = Requirement(PROJECT["optional-dependencies"]["sb3"][0])
    assert requirement.specifier.contains(pins("sb3")[canonicalize_name(requirement.name)])
    assert "torch" not in pins("sb3")


# Prose.


PAGES = ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", tiered(PAGES, short=["docs/start.md"]))
def test_everything_in_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    run_blocks((ROOT / page).read_text("utf-8"))


def test_the_readme_test_notices_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    good = "```python\nx = 1\n```\ntext\n```python\nassert x == 1\n```\n```pycon\n>>> x + 1\n2\n```\n"
    assert run_blocks(good) == 3
    with pytest.raises(AssertionError, match="Expected"):
        run_blocks(good.replace("\n2\n", "\n3\n"))
    with pytest.raises(NameError):
        run_blocks("```python\ny\n```\n")
    assert commands("$ rhocover a \\\n  b\nout 1\n\nout 2\n$ make\n") == [
        ("rhocover a    b", "out 1\n\nout 2\n"),
        ("make", ""),
    ]


@pytest.mark.parametrize(
    "path", [p for p in MODULES if ">>>" in (SOURCE / p).read_text("utf-8")], ids=lambda p: p.as_posix()
)
def test_docstring_examples_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = path.with_suffix("").parts
    module = importlib.import_module(".".join(("rhocover", *parts)).removesuffix(".__init__"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    tests = [test for test in doctest.DocTestFinder().find(module) if test.examples]
    assert tests, f"{path} shows `>>>` where nothing runs it: move the example into a public docstring"
    for test in tests:
        check_examples(test)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md", ".ci/run"])
def test_prose_names_only_targets_that_the_makefile_has(name: str) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = re.findall(r"(?:`|^|\$ )make ([a-z]+)", (ROOT / name).read_text("utf-8"), re.MULTILINE)
    assert set(named) <= targets


# Version.


def test_the_version_is_the_same_everywhere() -> None:
    """If it is not, the installed metadata is stale: `make test` reinstalls when the version changes."""
    assert importlib.metadata.version("rhocover") == rhocover.__version__
    assert PROJECT["dynamic"] == ["version"]


def test_the_changelog_tells_about_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    sections = re.findall(r"^## \[?([^\]\s]+)\]?.*\n((?:(?!## ).*\n?)*)", text, re.MULTILINE)
    told = {name for name, body in sections if re.search(r"^- \S", body, re.MULTILINE)}
    assert told & {"Unreleased", rhocover.__version__}
