"""What work is done, counted: a guard against regressions that no busy machine disturbs.

For named problems the steps of each method, the size of the factors, how often functions of this library are
called, what an exploring run asks of the planner and the oracles, and what a run with checkpoints does to
files. All are exact and the same in every run; benchmarks/counts.json holds what they were when they were
last looked at. More than `ALLOWED` above that is a regression.

    python -m benchmarks.counts            prints the counts and what is worse than stored
    python -m benchmarks.counts --write    stores them, if the change is intended

Counts are made in a process of their own, after a first run that imports and compiles. Calls of other
libraries' functions are not counted: they change with the versions of those.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import rhocover as rc
from benchmarks import models
from rhocover.oracles import make_oracle

STORED = Path(__file__).with_name("counts.json")
HOME = str(Path(rc.__file__).parent) + os.sep
INF = float("inf")
ALLOWED = {  # above what is stored: so many, and this share
    "steps": (1, 0.02),  # of an iteration: the last may hang on a rounding
    "factor": (0, 0.05),  # entries and operations
    "plan calls": (100, 0.10),  # of functions of this library in a plan; a Newton step is about 80
    "calls": (5, 0.10),  # ... in other work
    "asked": (1, 0.10),  # plans, oracle calls, Newton steps of a run
    "files": (0, 0.0),  # opened, written, synced, renamed
}
FILE_WORK = ("open", "write", "fsync", "replace", "unlink", "mkdir")
ASKED = {"plan": "plans", "interior_point": "interior points", "respond": "oracle calls"}
UPDATE = "If that is intended: python -m benchmarks.counts --write, and say why in the change."

Counts = dict[str, int]  # "kind: what" to how many


# Counting.


class Tally:
    """Counts calls while it is open: of this library's functions, by name, and of files' functions."""

    def __init__(self) -> None:
        self.calls, self.names, self.files = 0, Counter[str](), Counter[str]()

    def __enter__(self) -> Tally:
        sys.setprofile(self._saw)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _saw(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(HOME):
            self.calls += 1
            self.names[frame.f_code.co_name] += 1
        elif event == "c_call" and argument.__name__ in FILE_WORK:
            self.files[argument.__name__] += 1


def tallied(work: Callable[[], Any]) -> Tally:
    """Returns what was called in the second run of some work; the first imports and compiles."""
    work()
    tally = Tally()
    with tally:
        work()
    return tally


# What is counted.


def plan_problems() -> dict[str, tuple[rc.MDP, float]]:
    """Returns the models and orders that plans are counted on: dense, sparse and filled-in factors."""
    garnet = rc.envs.garnet(num_states=200, num_actions=4, num_successors=5)
    river, grid = rc.envs.river_swim(), models.slippery_grid(30)
    found = {f"river_swim rho={rho:g}": (river, rho) for rho in (0.5, 1.0, 2.0, 8.0, 32.0, INF)}
    found |= {f"garnet 200 rho={rho:g}": (garnet, rho) for rho in (2.0, INF)}
    return found | {f"grid 30x30 rho={rho:g}": (grid, rho) for rho in (2.0, INF)}


def plan_counts() -> Counts:
    """Returns Newton steps and calls of each plan."""
    found: Counts = {}
    for name, (mdp, rho) in plan_problems().items():
        mu = models.random_weights(mdp)
        found[f"steps: plan {name}"] = rc.plan(mdp, rho, mu).steps
        found[f"plan calls: {name}"] = tallied(lambda: rc.plan(mdp, rho, mu)).calls  # noqa: B023
    return found


def frank_wolfe_counts() -> Counts:
    """Returns the iterations of each Frank-Wolfe method to a gap of 1e-4."""
    mdp = rc.envs.river_swim()
    return {
        f"steps: {method} river_swim": rc.plan(mdp, 2.0, method=method, tol=1e-4).steps
        for method in ("frank_wolfe", "frank_wolfe_line_search")
    }


def oracle_counts() -> Counts:
    """Returns rounds of policy iteration and sweeps of value iteration, cold, and calls of both."""
    found: Counts = {}
    garnet = rc.envs.garnet(num_states=200, num_actions=4, num_successors=5)
    for name, mdp in {"grid 20x20": models.slippery_grid(20), "garnet 200": garnet}.items():
        reward = models.random_weights(mdp)
        for criterion, options in {"average": {}, "discounted": {"discount": 0.99, "start": 0}}.items():
            members = rc.Occupancies.of(mdp, **options)
            for method in ("policy_iteration", "value_iteration"):
                ask = lambda: make_oracle(members, method).respond(reward)  # noqa: B023, E731
                found[f"steps: {method} {name} {criterion}"] = ask().iterations
                found[f"calls: {method} {name} {criterion}"] = tallied(ask).calls
    return found


def factor_counts() -> Counts:
    """Returns entries and operations of the factors of grids, in our own order."""
    from rhocover.linalg.dissection import nested_dissection
    from rhocover.linalg.multifrontal import normal_pattern
    from rhocover.linalg.symbolic import analyse
    from rhocover.planning.problem import Objective, PlanningProblem

    found: Counts = {}
    for size in (30, 100):
        program = PlanningProblem.read(models.slippery_grid(size), Objective(2.0)).program
        pattern = normal_pattern(program.K)
        symbolic = analyse(pattern, nested_dissection(pattern))
        found[f"factor: entries grid {size}x{size}"] = symbolic.num_entries
        found[f"factor: operations grid {size}x{size}"] = round(symbolic.num_operations)
    return found


def run_counts() -> Counts:
    """Returns what exploring runs ask for, by explorer, and what one with checkpoints does to files."""
    found: Counts = {}
    mdp = rc.envs.river_swim()
    for explorer, model in (("feedback", "known"), ("algorithm1", "known"), ("feedback", "learned")):
        options: dict[str, Any] = {"explorer": explorer, "model": model, "seed": 0, "trace_points": 1}
        tally = tallied(lambda: rc.explore(mdp, 2.0, 20_000, **options))  # noqa: B023
        name = f"explore {explorer}, {model} model"
        found[f"calls: {name}"] = tally.calls
        found |= {f"asked: {what}, {name}": tally.names[key] for key, what in ASKED.items()}
    return found | file_counts(mdp)


def file_counts(mdp: rc.MDP) -> Counts:
    """Returns file operations of a run into a folder: settings, model, the last checkpoint, the result."""
    with tempfile.TemporaryDirectory() as folder:
        names = iter(("first", "second"))
        tally = tallied(lambda: rc.explore(mdp, 2.0, 2_000, seed=0, out=Path(folder) / next(names)))
    return {f"files: {work}, a run with a folder": tally.files[work] for work in FILE_WORK}


def counts() -> Counts:
    """Returns all counts; make them in a fresh process (`fresh`)."""
    parts = (plan_counts, frank_wolfe_counts, oracle_counts, factor_counts, run_counts)
    return {name: number for part in parts for name, number in part().items()}


# Comparing.


def stored() -> Counts:
    """Returns what was stored."""
    return json.loads(STORED.read_text("utf-8"))


def most(name: str, number: int) -> int:
    """Returns the largest count that is no regression."""
    extra, share = ALLOWED[name.partition(":")[0]]
    return number + extra + int(number * share)


def worse(found: Counts, before: Counts) -> list[str]:
    """Returns a sentence for each count above its allowance, and for each that is new or gone."""
    sentences = [
        f"{name}: {number}, was {before[name]}, at most {most(name, before[name])}"
        for name, number in found.items()
        if name in before and number > most(name, before[name])
    ]
    sentences += [f"{name} is counted and not stored" for name in found if name not in before]
    return sentences + [f"{name} is stored and not counted" for name in before if name not in found]


def main(arguments: list[str]) -> None:
    """Prints the counts, or stores them."""
    found = counts()
    text = json.dumps(found, indent=1) + "\n"
    if arguments == ["--write"]:
        STORED.write_text(text, "utf-8")
    elif arguments == ["--json"]:
        print(text)
    else:
        for name, number in found.items():
            print(f"{number:>12,}  {name}")
        for sentence in worse(found, stored()):
            print(f"WORSE  {sentence}")


if __name__ == "__main__":
    main(sys.argv[1:])
