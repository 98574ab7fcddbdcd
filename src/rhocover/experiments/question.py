"""The question of a comparison (models, orders, explorers, seeds and budget), and one run of it.

A run is one position in the grid [envs, orders, explorers, seeds]. The question contains everything that
determines its result, so the result is the same in every process. `plain` returns the question as arrays,
strings and numbers for another process; `document` as JSON for a file, so that different questions can be
told apart.

`run_one` runs one position and returns the rows of its trace. Failures are values, too: errors of this
library have arguments that cannot be sent between processes, so only their kind, message and traceback are.
"""

from __future__ import annotations

import itertools
import json
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover import errors
from rhocover.checks import FloatArray
from rhocover.documents import TextNumber, to_document
from rhocover.errors import (
    InvalidArgumentError,
    NotConvergedError,
    RhocoverError,
    SolverError,
    Text,
    format_text,
    join_texts,
)
from rhocover.exploring import Run, explore
from rhocover.exploring.explorers.registry import explorer_document, explorer_from_document
from rhocover.exploring.runs.result import grid_of_steps
from rhocover.exploring.runs.spec import (
    Model,
    ModelRun,
    model_document,
    model_from_document,
    read_model_run,
    read_spec,
)
from rhocover.files import tensor_digest
from rhocover.learning.rules import Rule, rule_document, rule_from_document
from rhocover.linalg.normal_equations import one_blas_thread
from rhocover.mdp import MDP

Place = tuple[int, int, int, int]  # env, order, explorer, seed
KIND = "comparison"


@dataclass(frozen=True)
class StoredExplorer:
    """An explorer by name; its settings are read only when it is created again."""

    name: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class StoredQuestion:
    """Everything that determines the results, as it is stored in a file; lists where order matters.

    Weights are stored as their digest, a rule as `rule_document`, a user's own explorer as None.
    """

    envs: tuple[str, ...]
    fingerprints: tuple[str, ...]
    mu: tuple[dict[str, Any] | str | None, ...]
    rho: tuple[TextNumber, ...]
    explorers: tuple[str, ...]
    explorer_settings: tuple[StoredExplorer | None, ...]
    seeds: tuple[int, ...]
    num_steps: int
    model: Model
    start: tuple[float, ...] | int | None
    discount: float | None
    horizon: int | None
    restrict: bool
    num_chains: int
    trace_points: int


@dataclass(frozen=True, eq=False)
class CompareSpec:
    """Models, weights and explorers by name, orders, seeds, and the other arguments of `explore`."""

    models: Mapping[str, MDP]
    weights: Mapping[str, FloatArray | Rule | None]
    orders: tuple[float, ...]
    explorers: Mapping[str, Any]
    seeds: tuple[int, ...]
    arguments: Mapping[str, Any]

    kind = KIND

    @property
    def shape(self) -> Place:
        """The numbers of envs, orders, explorers and seeds."""
        return len(self.models), len(self.orders), len(self.explorers), len(self.seeds)

    @property
    def places(self) -> Iterator[Place]:
        """The runs; seeds vary slowest, so that an unfinished comparison has some runs of everything."""
        envs, orders, explorers, seeds = map(range, self.shape)
        return ((e, r, x, k) for k, e, r, x in itertools.product(seeds, envs, orders, explorers))

    @property
    def grid(self) -> list[int]:
        """The steps at which traces have rows."""
        given = self.arguments
        return grid_of_steps(given["num_steps"], given["trace_points"], given["num_chains"])

    def run_arguments(self, place: Place) -> dict[str, Any]:
        """Returns the keyword arguments of `explore` for one run."""
        env = list(self.models)[place[0]]
        return {
            "world": self.models[env],
            "mu": self.weights[env],
            "rho": self.orders[place[1]],
            "explorer": list(self.explorers.values())[place[2]],
            "seed": self.seeds[place[3]],
            **self.arguments,
        }

    def settings(self, place: Place) -> ModelRun:
        """Returns the checked settings of one run."""
        given = self.run_arguments(place)
        return read_model_run(given["world"], read_spec(given), given["num_chains"])

    def describe(self, place: Place) -> str:
        """Returns a description of the run at a position."""
        env, explorer = list(self.models)[place[0]], list(self.explorers)[place[2]]
        return f"{explorer} on {env} at rho = {self.orders[place[1]]:g}, seed {self.seeds[place[3]]}"

    def run(self, place: Place) -> Outcome | Failure:
        """Returns the outcome of one run, or why it failed."""
        return run_one(self, place)

    @property
    def own_parts(self) -> list[tuple[str, str]]:
        """The explorers from outside this library, which a file or another process cannot recreate."""
        lost = [name for name, explorer in self.explorers.items() if stored_explorer(explorer) is None]
        return [("explorers", name) for name in lost]

    def plain(self) -> dict[str, Any]:
        """Returns the question as arrays, strings and numbers."""
        return {
            "models": {name: _parts(mdp) for name, mdp in self.models.items()},
            "weights": {name: rule_document(mu) if callable(mu) else mu for name, mu in self.weights.items()},
            "orders": self.orders,
            "explorers": {name: explorer_document(explorer) for name, explorer in self.explorers.items()},
            "seeds": self.seeds,
            "arguments": dict(self.arguments) | {"model": model_document(self.arguments["model"])},
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> CompareSpec:
        """Returns the question that `plain` describes."""
        models = {name: MDP.from_pairs(**parts) for name, parts in plain["models"].items()}
        explorers = {name: explorer_from_document(found) for name, found in plain["explorers"].items()}
        weights = {
            name: rule_from_document(mu) if isinstance(mu, dict) else mu
            for name, mu in plain["weights"].items()
        }
        arguments = plain["arguments"] | {"model": model_from_document(plain["arguments"]["model"])}
        return cls(models, weights, plain["orders"], explorers, plain["seeds"], arguments)

    def document(self) -> dict[str, Any]:
        """Returns everything that determines the results, ready for JSON; lists where order matters."""
        stored = [stored_explorer(explorer) for explorer in self.explorers.values()]
        return to_document(
            StoredQuestion(
                envs=tuple(self.models),
                fingerprints=tuple(mdp.fingerprint for mdp in self.models.values()),
                mu=tuple(_mu_document(mu) for mu in self.weights.values()),
                rho=self.orders,
                explorers=tuple(self.explorers),
                explorer_settings=tuple(None if e is None else StoredExplorer(**e) for e in stored),
                seeds=self.seeds,
                **self.arguments,
            )
        )

    def empty_tensors(self) -> dict[str, np.ndarray]:
        """Returns the arrays of a comparison in which no run is done."""
        shape, steps = self.shape, np.array(self.grid, np.int64)
        return {
            "steps": steps,
            "done": np.zeros(shape, bool),
            **{name: np.full((*shape, steps.size), np.nan) for name in COLUMNS},
            **{name: np.full(shape, np.nan) for name in ENDS},
            **{name: np.full(shape[:2], np.nan) for name in FACTS},
        }

    def fill(self, tensors: dict[str, np.ndarray], place: Place, outcome: Outcome) -> None:
        """Adds the outcome of a run."""
        for name, row in zip(COLUMNS, outcome.rows, strict=True):
            tensors[name][place] = row
        for name, end in zip(ENDS, outcome.ends, strict=True):
            tensors[name][place] = end
        for name, fact in zip(FACTS, outcome.facts, strict=True):
            tensors[name][place[:2]] = fact

    def outcome(self, tensors: Mapping[str, np.ndarray], place: Place) -> Outcome:
        """Returns the outcome of a finished run, as it was added."""
        rows = np.array([tensors[name][place] for name in COLUMNS], float)
        ends = np.array([tensors[name][place] for name in ENDS], float)
        return Outcome(rows, ends, np.array([tensors[name][place[:2]] for name in FACTS], float))

    def check_tensors(self, tensors: Mapping[str, np.ndarray], said: str) -> None:
        """Raises if stored arrays do not belong to this question."""
        expected = {name: array.shape for name, array in self.empty_tensors().items()}
        if {name: array.shape for name, array in tensors.items()} != expected:
            raise errors.FileFormatError(f"{said} has arrays with unexpected shapes.")


def stored_explorer(explorer: Any) -> dict[str, Any] | None:
    """Returns a document from which the explorer can be recreated; None if there is none."""
    try:
        document = json.loads(json.dumps(explorer_document(explorer)))
        return document if explorer_from_document(document) == explorer else None
    except (TypeError, ValueError):
        return None


def _parts(mdp: MDP) -> dict[str, Any]:
    """Returns the arguments of `MDP.from_pairs`, without the layout, which is only for figures."""
    return {
        "transitions": mdp.transitions, "states": mdp.pair_state, "actions": mdp.pair_action,
        "num_actions": mdp.num_actions, "start": mdp.start, "state_labels": mdp.state_labels,
        "action_labels": mdp.action_labels, "name": mdp.name,
    }  # fmt: skip


def _mu_document(mu: FloatArray | Rule | None) -> Any:
    """Returns a rule as a document, weights as their digest."""
    if mu is None:
        return None
    return rule_document(mu) if callable(mu) else tensor_digest({"mu": np.asarray(mu)})


# One run of a comparison, in any process.

COLUMNS = (
    "regret", "bregman", "suboptimality", "excess", "pathwise_excess", "divergence", "gap", "worst_ratio",
    "visited", "least_count",
)  # fmt: skip
ENDS = ("model_error",)
FACTS = ("sigma", "kappa_min", "best_divergence", "best_worst_ratio", "num_weighted")
KINDS = {error.__name__: error for error in (InvalidArgumentError, NotConvergedError, SolverError)}


@dataclass(frozen=True, eq=False)
class Outcome:
    """The numbers of a finished run."""

    rows: FloatArray  # of its trace, [columns, times]
    ends: FloatArray  # numbers known only at its end
    facts: FloatArray  # of its model and order

    @property
    def bits(self) -> bytes:
        """The bytes of the run; its facts are stored once for all runs of a model and order."""
        return self.rows.tobytes() + self.ends.tobytes()


@dataclass(frozen=True)
class Failure:
    """Why a run failed."""

    kind: str
    message: Text
    origin: str
    argument: str = ""


def run_one(question: CompareSpec, place: Place) -> Outcome | Failure:
    """Returns the outcome of one run, or why it failed."""
    try:
        with one_blas_thread():
            return outcome_of(explore(**question.run_arguments(place)))
    except Exception as error:
        return failure_of(error)


def outcome_of(run: Run) -> Outcome:
    """Returns the columns and facts of a finished run."""
    facts = {
        "sigma": run.trace.sigma, "kappa_min": run.trace.kappa_min, "best_divergence": run.best.divergence,
        "best_worst_ratio": run.best.worst_ratio, "num_weighted": run.trace.num_weighted,
    }  # fmt: skip
    rows = np.array([run.trace[name] for name in COLUMNS], float)
    ends = np.array([run.model_error().l1_mean])
    return Outcome(rows, ends, np.array([facts[name] for name in FACTS], float))


def failure_of(error: Exception) -> Failure:
    """Returns the error being handled as a value; `kind` is its class in `KINDS`, or its own name."""
    names = [kind.__name__ for kind in type(error).__mro__]
    kind = next((name for name in names if name in KINDS), names[0])
    text, argument = getattr(error, "text", str(error)), getattr(error, "argument", "")
    return Failure(kind, text, traceback.format_exc(), argument)


def error_of(failure: Failure, run: str) -> Exception:
    """Returns the error to raise, with the run that failed and the reason; a bug keeps its traceback."""
    text = join_texts(f"the run of {run} failed:", failure.message)
    message = format_text(text)
    if failure.kind == InvalidArgumentError.__name__:
        return InvalidArgumentError(text, argument=failure.argument)
    if failure.kind in KINDS:
        return KINDS[failure.kind](message)
    if failure.kind == "MemoryError":
        return MemoryError(message)
    if hasattr(errors, failure.kind):
        return RhocoverError(message)
    return RuntimeError(f"{message} ({failure.kind})\n{failure.origin}")
