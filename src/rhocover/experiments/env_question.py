"""The question of a comparison on environments: environments, codes, explorers, seeds and budget.

A run is one position in the grid [envs, explorers, seeds]. An environment must be made anew for each run, in
any process (`environments.sources`). In a file it is its id, its spec as JSON, or the name of the function
that makes it, each with the spaces: enough to tell different questions apart. A function that cannot be
imported by its name stays in this process.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover.documents import TextNumber, to_document
from rhocover.environments.encoding.base import function_name
from rhocover.environments.sources import EnvSource, importable_name
from rhocover.errors import FileFormatError
from rhocover.experiments.env_runs import EnvTask, Found, explorer_settings, find
from rhocover.experiments.question import Failure, failure_of
from rhocover.exploring.runs.spec import Model, model_document, model_from_document
from rhocover.learning.rules import rule_document
from rhocover.linalg.normal_equations import one_blas_thread

EnvPlace = tuple[int, int, int]  # env, explorer, seed
KIND = "environment-comparison"


def own_functions(*values: Any) -> list[Any]:
    """Returns the functions among codes and their features that cannot be imported by their names."""
    parts = [part for value in values for part in (value, getattr(value, "of", None))]
    parts += [getattr(part, "function", None) for part in parts]
    known = (p for p in parts if callable(p) and not dataclasses.is_dataclass(p) and not hasattr(p, "key"))
    return [part for part in known if importable_name(part) is None]


def code_document(code: Any) -> Any:
    """Returns a code as text, numbers and lists; functions by their names."""
    if code is None or isinstance(code, str | int | float | bool):
        return code
    if isinstance(code, np.ndarray | np.generic):
        return code.tolist()
    if isinstance(code, list | tuple | range):
        return [code_document(part) for part in code]
    if dataclasses.is_dataclass(code) and not isinstance(code, type):
        fields = {f.name: code_document(getattr(code, f.name)) for f in dataclasses.fields(code) if f.init}
        return {"kind": type(code).__name__, **fields}
    stored: Any = getattr(code, "document", None)
    if stored is not None:
        return stored()
    return {"function": function_name(code)} if callable(code) else repr(code)


# The question.


@dataclass(frozen=True)
class StoredEnvQuestion:
    """Everything that determines the results, as it is stored in a file; lists where order matters."""

    envs: tuple[str, ...]
    sources: tuple[dict[str, Any], ...]
    states: tuple[Any, ...]
    actions: tuple[Any, ...]
    held_out: tuple[Any, ...]
    explorers: tuple[str, ...]
    explorer_settings: tuple[dict[str, Any] | None, ...]
    seeds: tuple[int, ...]
    num_steps: int
    rho: TextNumber
    mu: Any
    model: Model


@dataclass(frozen=True, eq=False)
class EnvQuestion:
    """Environments, codes (one per environment) and explorers by name, seeds, and what every run shares."""

    envs: Mapping[str, EnvSource]
    states: tuple[Any, ...]
    actions: tuple[Any, ...]
    held_out: tuple[Any, ...]
    explorers: Mapping[str, Any]
    seeds: tuple[int, ...]
    num_steps: int
    rho: float
    mu: Any
    model: Any

    kind = KIND

    @property
    def shape(self) -> EnvPlace:
        """The numbers of environments, explorers and seeds."""
        return len(self.envs), len(self.explorers), len(self.seeds)

    @property
    def places(self) -> Iterator[EnvPlace]:
        """The runs; seeds vary slowest, so that an unfinished comparison has some runs of everything."""
        envs, explorers, seeds = map(range, self.shape)
        return ((e, x, k) for k, e, x in itertools.product(seeds, envs, explorers))

    def task(self, place: EnvPlace) -> EnvTask:
        """Returns one run."""
        e, x, k = place
        return EnvTask(
            source=list(self.envs.values())[e], states=self.states[e], actions=self.actions[e],
            held_out=self.held_out[e], explorer=list(self.explorers.values())[x], seed=self.seeds[k],
            num_steps=self.num_steps, rho=self.rho, mu=self.mu, model=self.model,
        )  # fmt: skip

    def run(self, place: EnvPlace) -> Found | Failure:
        """Returns what one run found, or why it failed."""
        try:
            with one_blas_thread():
                return find(self.task(place))
        except Exception as error:
            return failure_of(error)

    def describe(self, place: EnvPlace) -> str:
        """Returns a description of the run at a position."""
        return f"{list(self.explorers)[place[1]]} on {list(self.envs)[place[0]]}, seed {self.seeds[place[2]]}"

    @property
    def own_parts(self) -> list[tuple[str, str]]:
        """The arguments with parts that another process cannot recreate, and the names of those parts."""
        makers = [source.function for source in self.envs.values() if source.function is not None]
        parts = {"envs": makers, "states": self.states, "actions": self.actions, "held_out": self.held_out}
        found = [(name, function_name(f)) for name, part in parts.items() for f in own_functions(*part)]
        found += [("mu", function_name(self.mu))] * bool(own_functions(self.mu))
        lost = [name for name, explorer in self.explorers.items() if explorer_settings(explorer) is None]
        return found + [("explorers", name) for name in lost]

    def plain(self) -> dict[str, Any]:
        """Returns the question for another process; its functions are sent by their names."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)} | {
            "model": model_document(self.model)
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> EnvQuestion:
        """Returns the question that `plain` describes."""
        return cls(**{**plain, "model": model_from_document(plain["model"])})

    def document(self) -> dict[str, Any]:
        """Returns everything that determines the results, ready for JSON."""
        explorers = self.explorers.values()
        return to_document(
            StoredEnvQuestion(
                envs=tuple(self.envs),
                sources=tuple(source.document() for source in self.envs.values()),
                states=tuple(map(code_document, self.states)),
                actions=tuple(map(code_document, self.actions)),
                held_out=tuple(map(code_document, self.held_out)),
                explorers=tuple(self.explorers),
                explorer_settings=tuple(map(explorer_settings, explorers)),
                seeds=self.seeds,
                num_steps=self.num_steps,
                rho=self.rho,
                mu=None if self.mu is None else rule_document(self.mu),
                model=self.model,
            )
        )

    # The results as they are stored: one row of steps per run, so that times are exact.

    def empty_tensors(self) -> dict[str, np.ndarray]:
        """Returns the arrays of a comparison in which no run is done."""
        return {"done": np.zeros(self.shape, bool)}

    def fill(self, tensors: dict[str, np.ndarray], place: EnvPlace, found: Found) -> None:
        """Adds what a run found."""
        tensors[run_name("codes", place)], tensors[run_name("cells", place)] = found.codes, found.cells

    def outcome(self, tensors: Mapping[str, np.ndarray], place: EnvPlace) -> Found:
        """Returns what a finished run found, as it was added."""
        return Found(tensors[run_name("codes", place)], tensors[run_name("cells", place)])

    def check_tensors(self, tensors: Mapping[str, np.ndarray], said: str) -> None:
        """Raises if stored arrays do not belong to this question."""
        check_tensors(tensors, self.shape, said)


def run_name(kind: str, place: Any) -> str:
    """Returns the name of the array of one run."""
    return "-".join([kind, *map(str, place)])


def check_tensors(tensors: Mapping[str, np.ndarray], shape: EnvPlace, said: str) -> None:
    """Raises unless there is an array of steps for each run that is done."""
    done = tensors.get("done")
    if done is None or done.shape != shape or done.dtype != bool:
        raise FileFormatError(f"{said} has arrays with unexpected shapes.")
    for place in np.argwhere(done).tolist():
        for kind in ("codes", "cells"):
            steps = tensors.get(run_name(kind, place))
            if steps is None or steps.ndim != 1 or steps.dtype != np.int64 or (np.diff(steps) < 0).any():
                raise FileFormatError(f"{said} has no steps {run_name(kind, place)}.")
