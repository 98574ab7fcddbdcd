"""Runs the tests that a mutant could fail, in a process of its own.

pytest collects the tests once. Then, for each mutant, this process forks; the child grafts the mutant and
runs the tests that go through the mutated line, first one of each test function, fastest first, until one
fails. So a mutant costs what its tests cost, and no import. A test that takes five times its usual processor
time (and two seconds more, eight to compile) ends the child: the mutant hangs, and is killed.

Lines are known from one run of every test under `coverage`. For lines that it cannot see, compiled ones and
those of the module itself, these are the tests that enter the module or whose file holds something of it.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import json
import os
import resource
import signal
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import coverage
import pytest
from _pytest.runner import runtestprotocol
from numba.core.dispatcher import Dispatcher

from tools.mutation.grafting import graft
from tools.mutation.mutants import Mutant

MEMORY = 8 << 30  # bytes a mutant may ask for


class Server:
    """A pytest plugin that runs mutants in place of tests."""

    def __init__(
        self, source: Path, mutants: list[Mutant], results: Path, lines: Path, **options: Any
    ) -> None:
        self.source, self.mutants, self.results, self.lines = source, mutants, results, lines
        self.budget, self.processes = options["budget"], options["processes"]
        self.files = [str(source / path) for path in options.get("files", {m.path for m in mutants})]
        self._marks: dict[Path, str] = {}
        self.prepare: Callable[[], Any] = options.get("prepare", lambda: None)  # before the first fork

    def pytest_configure(self) -> None:
        """Makes property tests repeatable, and short when they fail: nobody reads their examples."""
        from hypothesis import Phase, settings

        phases = [Phase.explicit, Phase.generate]
        settings.register_profile("mutation", derandomize=True, database=None, phases=phases)
        settings.load_profile("mutation")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measures the tests that are not known yet, and then runs every mutant."""
        items = {item.nodeid: item for item in session.items}
        self._test_files = {item.nodeid.split("::")[0]: item.module for item in session.items}
        known = self._known(items)
        missing = [item for nodeid, item in items.items() if nodeid not in known]
        if missing:
            count = self.processes
            shares = [missing[k::count] for k in range(count)]
            children = {self._fork(lambda share=share: self._measure(share)): None for share in shares}
            while children:
                self._wait(children)
            known = self._known(items)
        failing = [nodeid for nodeid in items if nodeid not in known]
        if failing:
            print(f"\n{len(failing)} tests do not pass without a mutant and are left out: {failing[:3]} ...")
        self.prepare()
        gc.freeze()  # what is there stays there: children copy fewer pages
        running: dict[int, Any] = {}
        for number, mutant in enumerate(self.mutants):
            tests = self._tests_of(mutant, known)
            print(f"\r{number + 1}/{len(self.mutants)} {mutant.name} ({len(tests)} tests)\x1b[K", flush=True)
            if len(running) >= self.processes:
                self._wait(running)
            chosen = [(items[test], seconds) for test, seconds in tests]
            running[self._fork(lambda m=mutant, t=chosen: self._try(m, t))] = mutant
        while running:
            self._wait(running)
        return True

    # Which tests.

    def _known(self, items: dict) -> dict[str, Any]:
        """Returns {test: [seconds, {file: lines}]} of the tests measured with the files that there are."""
        if not self.lines.exists():
            return {}
        marks = {nodeid: self._mark(item.path) for nodeid, item in items.items()}
        rows = [json.loads(line) for line in self.lines.read_text().splitlines()]
        found = {}
        for test, mark, seconds, files in rows:
            same = all(self._mark(self.source / file) == then for file, (then, _) in files.items())
            if same and marks.get(test) == mark:
                found[test] = [seconds, {file: lines for file, (_, lines) in files.items()}]
        return found

    def _mark(self, path: Path) -> str:
        """Returns what changes when a file does."""
        if path not in self._marks:
            self._marks[path] = hashlib.sha1(path.read_bytes()).hexdigest()[:8] if path.exists() else ""
        return self._marks[path]

    def _measure(self, items: list[pytest.Item]) -> None:
        """Writes down which lines each test runs through, and its processor time."""
        data = Path(f"{self.lines}.{os.getpid()}")
        watch = coverage.Coverage(data_file=str(data), include=self.files, config_file=False)
        watch.start()
        seconds = {}
        for item in items:
            watch.switch_context(item.nodeid)
            began = time.process_time()
            if _passes(item):
                seconds[item.nodeid] = time.process_time() - began
        watch.stop()
        found: dict[str, dict] = defaultdict(dict)
        for file in map(Path, watch.get_data().measured_files()):
            for line, tests in watch.get_data().contexts_by_lineno(str(file)).items():
                for test in tests:
                    row = found[test].setdefault(str(file.relative_to(self.source)), (self._mark(file), []))
                    row[1].append(line)
        measured = [item for item in items if item.nodeid in seconds]
        rows = [(i.nodeid, self._mark(i.path), seconds[i.nodeid], found[i.nodeid]) for i in measured]
        _append(self.lines, rows)
        data.unlink(missing_ok=True)

    def _tests_of(self, mutant: Mutant, known: dict[str, Any]) -> list[tuple[str, float]]:
        """Returns the tests of a mutant with their seconds, within the budget; one of each function first."""
        users = self._users(mutant.path)
        inside = [t for t, (_, lines) in known.items() if mutant.path in lines or t.split("::")[0] in users]
        through = [test for test in inside if mutant.line in known[test][1].get(mutant.path, ())]
        definition = getattr(self._module(mutant.path), mutant.function.split(".")[0], None)
        chosen = inside if isinstance(definition, Dispatcher) or not through else through
        rank: dict[str, int] = defaultdict(int)
        order = []
        for test in sorted(chosen, key=lambda test: known[test][0]):
            order.append((rank[test.split("[")[0]], test))
            rank[test.split("[")[0]] += 1
        result, spent = [], 0.0
        for _, test in sorted(order, key=lambda pair: (pair[0], known[pair[1]][0])):
            spent += known[test][0]
            if spent <= self.budget:
                result.append((test, known[test][0]))
        return result

    def _users(self, path: str) -> set[str]:
        """Returns the test files that hold the module or something of it, such as a compiled function."""
        name = self._module(path).__name__
        held = {f: vars(module).values() for f, module in self._test_files.items()}
        return {f for f, values in held.items() if any(name in (_name(v), _home(v)) for v in values)}

    def _module(self, path: str) -> ModuleType:
        name = f"{self.source.name}.{path[:-3].replace('/', '.')}"
        return importlib.import_module(name.removesuffix(".__init__"))

    # Processes.

    def _fork(self, work) -> int:
        child = os.fork()
        if child == 0:
            try:
                work()
            finally:
                os._exit(0)
        return child

    def _wait(self, running: dict[int, Any]) -> None:
        """Waits for one child; one that died by a signal killed its mutant that way."""
        child, status = os.wait()
        mutant = running.pop(child)
        end = signal.Signals(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else None
        if mutant is not None and end not in (None, signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            self._write(mutant, f"signal {end.name}", 0)

    def _try(self, mutant: Mutant, tests: list[tuple[pytest.Item, float]]) -> None:
        """Grafts the mutant and writes down the first test that fails, or that none does."""
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, 30)
        module = self._module(mutant.path)
        try:
            graft(module, mutant.applied((self.source / mutant.path).read_bytes()), mutant.function)
        except Exception as error:
            return self._write(mutant, f"import: {type(error).__name__}", len(tests))
        for item, seconds in tests:
            signal.setitimer(signal.ITIMER_PROF, 2 + 5 * seconds + 6 * ("compiled" in vars(module)))
            if not _passes(item):
                return self._write(mutant, item.nodeid, len(tests))
        return self._write(mutant, "", len(tests))

    def _write(self, mutant: Mutant, killer: str, tests: int) -> None:
        _append(self.results, [{**vars(mutant), "killer": killer, "tests": tests}])


def _append(path: Path, rows: list) -> None:
    """Appends rows as lines in one write, so that those of several processes do not mix."""
    with path.open("ab", buffering=0) as file:
        file.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())


def _passes(item: pytest.Item) -> bool:
    reports = runtestprotocol(item, log=False, nextitem=None)
    return not any(report.failed for report in reports)


def _name(value: Any) -> Any:
    return value.__name__ if isinstance(value, ModuleType) else None


def _home(value: Any) -> Any:
    return getattr(value, "__module__", None)
