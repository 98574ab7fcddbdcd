"""Command line of `mutation`: draws mutants, runs them in a copy of the tree, writes the results."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tools.mutation import page
from tools.mutation.mutants import Mutant, mutants_of

ROOT = Path(__file__).parents[2]
CORE = ("coverage.py", "occupancy.py", "linalg", "oracles", "planning")
TESTS = (
    "test_coverage.py", "test_coverage_derivatives.py", "test_occupancy.py", "test_occupancy_checks.py",
    "test_oracles.py", "test_oracle_parts.py", "planning",
)  # fmt: skip
WORK = ROOT / "out" / "mutation"


def main() -> None:
    """Runs what the arguments ask for, and writes `results.json` and the page."""
    args = _arguments()
    if not args.page:
        WORK.mkdir(parents=True, exist_ok=True)
        results = WORK / "results.jsonl"
        every = all_mutants(ROOT / "src" / "rhocover")
        drawn = sample(every, args.sample, args.seed)
        done = page.last_rows(results)
        wanted = [
            m for m in drawn if _is_open(m, done, args) and any(m.path.startswith(f) for f in args.files)
        ]
        random.Random(args.seed).shuffle(wanted)  # what an interruption leaves is a sample, too
        _run(wanted, list(every), results, args)
        compact = page.compacted(page.last_rows(results), every, drawn, args.seed, ROOT / "src" / "rhocover")
        page.RESULTS.write_text(json.dumps(compact, indent=1, ensure_ascii=False) + "\n")
    page.PAGE.write_text(page.rendered(*page.read()))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=__doc__)
    parser.add_argument("--sample", type=int, default=800, help="how many mutants to draw")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--files", nargs="+", default=[""], help="run only those of paths that begin so")
    parser.add_argument("--budget", type=float, default=30.0, help="seconds of tests for one mutant")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="run survivors once more")
    parser.add_argument("--page", action="store_true", help="only write the page again")
    return parser.parse_args()


def all_mutants(source: Path) -> dict[str, list[Mutant]]:
    """Returns the mutants of every file of the core, by path."""
    files = [f for name in CORE for f in sorted((source / name).rglob("*.py")) or [source / name]]
    paths = {str(file.relative_to(source)): file.read_bytes() for file in files}
    return {path: mutants_of(path, text) for path, text in paths.items()}


def sample(every: dict[str, list[Mutant]], size: int, seed: int) -> list[Mutant]:
    """Returns a random sample, the same share of every file's; a larger one holds the smaller."""
    total = sum(map(len, every.values()))
    drawn = []
    for path, mutants in every.items():
        order = random.Random(f"{seed} {path}").sample(mutants, len(mutants))
        drawn += order[: -(-size * len(mutants) // total)]
    return drawn


def _is_open(mutant: Mutant, done: dict[str, dict], args: argparse.Namespace) -> bool:
    """Whether there is no result yet for this change, or a survival to be tried again."""
    row = done.get(mutant.name)
    return row is None or row["new"] != mutant.new or (args.again and not row["killer"])


def _run(mutants: list[Mutant], files: list[str], results: Path, args: argparse.Namespace) -> None:
    """Runs the mutants' tests in a copy of the tree, so that edits meanwhile make no difference."""
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        for name in ("src", "tests"):
            shutil.copytree(ROOT / name, Path(folder) / name)
        shutil.copy(ROOT / "pyproject.toml", folder)
        os.chdir(folder)
        sys.path.insert(0, f"{folder}/src")
        import pytest

        from tools.mutation.running import Server

        tests = [f"tests/{name}" for name in TESTS]
        options = [
            "-p",
            "no:xdist",
            "-p",
            "no:cacheprovider",
            "-o",
            "addopts=",
            "-o",
            "timeout=0",
            "-q",
            "--assert=plain",
            "--tb=native",
        ]
        server = Server(
            Path(folder, "src", "rhocover"), mutants, results, WORK / "lines.jsonl",
            budget=args.budget, processes=args.processes, prepare=_prepare, files=files,
        )  # fmt: skip
        pytest.main([*tests, *options], plugins=[server])
        os.chdir(ROOT)


def _prepare() -> None:
    """Loads what every child would load for itself: compiled code, the compiler, lazy imports."""
    import cvxpy  # noqa: F401
    import numpy as np
    from numba import njit

    from rhocover import envs, plan

    njit(lambda x: np.sort(x + np.arange(3.0))[1:].sum())(np.ones(3))
    plan(envs.grid_world(num_rows=25), 2.0)
    plan(envs.river_swim(), 1.0, eta=0.01, method="frank_wolfe")


if __name__ == "__main__":
    main()
