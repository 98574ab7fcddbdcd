"""The settings that determine a run: read and checked once, and stored with the run.

A `RunSpec` is for any world. A `ModelRun` combines it with a model; `rhocover.collecting` combines it with an
environment.

`model` says what the explorer knows of the dynamics:

| name | what the explorer knows |
|---|---|
| known | the model itself |
| learned | the states and their actions; the transitions are estimated |
| posterior | the same; plans are made on draws from the posterior |
| from_scratch | not even how many states there are |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, IntArray
from rhocover.documents import from_document, to_document
from rhocover.errors import Argument, Call, InvalidArgumentError, Setting, parse_text, unknown_name
from rhocover.executors import check_executor
from rhocover.exploring.belief import Belief, KnownModel
from rhocover.exploring.belief.discovery import Discovering
from rhocover.exploring.belief.learned import Frame, Learned, LearnedModel
from rhocover.exploring.explorers import Explorer
from rhocover.exploring.explorers.algorithm1 import Algorithm1
from rhocover.exploring.explorers.registry import explorer_name, make_explorer
from rhocover.exploring.problem import Problem, make_problem
from rhocover.exploring.runs.stopping import CertifiedGap, Stop, check_stop
from rhocover.learning.rules import Rule, final_weights, read_rule
from rhocover.mdp import MDP, way_to_model
from rhocover.planning.problem import AVERAGE, Criterion, Objective, weights_of
from rhocover.printing import count_of

KNOWN = "known"
Model = Literal["known"] | Learned
PASS_LEARNED = parse_text('Pass `model="learned"`.')
CERTIFIED_GAP = Call("`until`=CertifiedGap", "--until-gap")
OTHER_RULES = (
    Call(
        "Use rc.EveryPair or rc.SmallModelError",
        "Leave --until-gap out, or use --until-visits or --until-error instead",
    ),
    ".",
)
MODELS: dict[str, Any] = {
    KNOWN: KNOWN,
    "learned": Learned(),
    "posterior": Learned(sample=True),
    "from_scratch": Learned(know_states=False),
}


def check_model(model: Any) -> Any:
    """Returns "known" or a `Learned`; refuses anything else."""
    if isinstance(model, Learned):
        return model
    if not isinstance(model, str):
        raise InvalidArgumentError.of(
            "model", f"must be a name ({', '.join(MODELS)}) or a Learned", type(model).__name__
        )
    if model not in MODELS:
        raise unknown_name("model", model, tuple(MODELS))
    return MODELS[model]


def model_name(model: Any) -> str:
    """Returns the name of the setting; "learned" for a `Learned` with other settings."""
    return next((name for name, known in MODELS.items() if known == model), "learned")


def model_document(model: Any) -> Any:
    """Returns the setting as a document."""
    return model if model == KNOWN else to_document(model)


def model_from_document(document: Any) -> Any:
    """Returns the setting that a document describes."""
    return from_document(Model, document, "the model")


def is_self_reliant(explorer: Any) -> bool:
    """Whether an explorer does its own discovery; it then knows all states from the start."""
    return bool(getattr(explorer, "self_reliant", False))


MOST_STEPS = 1 << 60  # counts are 64-bit integers


@dataclass(frozen=True, eq=False)
class RunSpec:
    """The settings of a run in any world, as the caller gave them, or `checked`."""

    objective: Objective  # its weights may be a rule
    num_steps: Any  # a whole number; it may be a float such as 1e4 until it is checked
    criterion: Criterion = AVERAGE
    explorer: Any = "feedback"
    model: Any = KNOWN  # or a Learned
    seed: Any = 0  # a whole number; None until it is checked: one is drawn then
    until: Stop | None = None
    trace_points: int = 10

    @property
    def rho(self) -> float:
        """The order of the objective."""
        return self.objective.rho

    @property
    def mu(self) -> FloatArray | Rule | None:
        """The weights, or the rule that computes them."""
        return self.objective.mu

    @property
    def rule(self) -> Rule | None:
        """The rule that computes the weights, if there is one."""
        return self.mu if callable(self.mu) else None

    @property
    def actor(self) -> Explorer:
        """The explorer, wrapped in `Discovering` if it has to learn and has no discovery of its own."""
        if self.model == KNOWN or not self.model.discovery or is_self_reliant(self.explorer):
            return self.explorer
        return Discovering(self.explorer)

    @property
    def scope(self) -> str:
        """Which states a learner plans on: those "met" so far, or "all" that exist."""
        return "all" if is_self_reliant(self.explorer) or not self.model.discovery else "met"

    def with_mu(self, mu: FloatArray | Rule | None) -> RunSpec:
        """Returns the same for other weights."""
        return replace(self, objective=Objective(self.rho, mu))

    def checked(self) -> RunSpec:
        """Returns the spec, each part read and checked."""
        c = self.criterion
        spec = RunSpec(
            objective=Objective(checks.number(self.rho, "rho"), _read_mu(self.mu)),
            num_steps=checks.integer(self.num_steps, "num_steps", least=1),
            criterion=Criterion(
                None if c.discount is None else checks.probability(c.discount, "discount", open_ends=True),
                None if c.horizon is None else checks.integer(c.horizon, "horizon", least=1),
                c.start,
                bool(c.restrict),
            ),
            explorer=make_explorer(self.explorer),
            model=check_model(self.model),
            seed=checks.seed_or_drawn(self.seed),
            until=None if self.until is None else check_stop(self.until),
            trace_points=checks.integer(self.trace_points, "trace_points", least=1, most=10_000),
        )
        restarts = "discount" if c.discount is not None else "horizon"
        if spec.rule is not None and spec.criterion.has_restarts:
            raise InvalidArgumentError.of(
                "mu",
                "can be a rule only in runs without restarts",
                remedy=parse_text(f"Leave `{restarts}` out, or pass weights."),
            )
        _check_knowledge(spec)
        if spec.num_steps > MOST_STEPS:
            raise InvalidArgumentError.of(
                "num_steps", "must be at most 2**60", f"a number of {len(str(spec.num_steps))} digits"
            )
        return spec


@dataclass(frozen=True, eq=False)
class Encoding:
    """How observations and actions of an environment are encoded; None if they are numbers already.

    Each action is held for `repeat` steps. `held_out` is a second code of observations that is only counted.
    """

    states: Any = None
    actions: Any = None
    repeat: Any = 1
    held_out: Any = None


@dataclass(frozen=True, eq=False)
class Crew:
    """Who acts, as the caller gave it: chains that know of each other at once, or workers in rounds."""

    num_chains: Any = 1
    workers: Any = None
    executor: Any = None


def read_executor(executor: Any, workers: Any) -> Any:
    """Returns the executor; refuses one if there are no workers whose legs it could run."""
    if executor is not None and workers is None:
        raise InvalidArgumentError.of(
            "executor",
            ("runs the legs of several ", Argument("workers"), ", and there are none"),
            remedy=("Such as ", Setting("workers", "16"), "."),
        )
    return None if executor is None else check_executor(executor)


def read_spec(given: Mapping[str, Any]) -> RunSpec:
    """Returns the spec from keyword arguments of `explore`; missing ones have their defaults."""
    plain = ("num_steps", "model", "seed", "until", "trace_points")
    criterion = {name: given[name] for name in CRITERION if name in given}
    return RunSpec(
        objective=Objective(given["rho"], given.get("mu")),
        criterion=Criterion(**criterion),
        explorer=make_explorer(given["explorer"], given.get("schedule")),
        **{name: given[name] for name in plain if name in given},
    )


CRITERION = ("discount", "horizon", "start", "restrict")


def _read_mu(mu: Any) -> FloatArray | Rule | None:
    """Returns weights, a rule that computes them, or None."""
    if mu is None:
        return None
    return read_rule(mu) if isinstance(mu, str) or callable(mu) else checks.float_array(mu, "mu")


def _check_knowledge(spec: RunSpec) -> None:
    """Refuses settings that need more knowledge than `model` gives."""
    is_open = spec.model != KNOWN and not spec.model.know_states
    if is_open and is_self_reliant(spec.explorer):
        raise InvalidArgumentError.of(
            "explorer",
            f"{explorer_name(spec.explorer)!r} knows all states from the start, as in its paper",
            remedy=PASS_LEARNED,
        )
    if isinstance(spec.until, CertifiedGap) and (is_open or (spec.rule and spec.model != KNOWN)):
        raise InvalidArgumentError(
            (
                CERTIFIED_GAP,
                " needs known weights and states: coverage cannot be certified for states never met, "
                "or for weights that are still being learned.",
            ),
            argument="until",
            remedy=OTHER_RULES,
        )


@dataclass(frozen=True, eq=False)
class ModelRun:
    """A run in a model: everything that determines it."""

    mdp: MDP
    spec: RunSpec
    num_chains: int = 1  # with workers their number: each has one chain
    is_shared: bool = False  # whether workers act in rounds, and know of each other only between these

    @property
    def workers(self) -> int | None:
        """How many workers act in rounds; None if this process takes every step."""
        return self.num_chains if self.is_shared else None

    @cached_property
    def problem(self) -> Problem:
        """The problem to explore; a rule for the weights is evaluated on the true model."""
        spec = self.spec
        mu = spec.mu if spec.rule is None else final_weights(spec.rule, self.mdp)
        return make_problem(self.mdp, Objective(spec.rho, mu), spec.criterion)

    def check_budget(self) -> None:
        """Refuses a budget that ends within the first episode of Algorithm 1."""
        if not isinstance(self.spec.explorer, Algorithm1):
            return
        first = self.spec.explorer.schedule.length(1, 0)
        if self.spec.num_steps < first:
            raise InvalidArgumentError.of(
                "num_steps",
                f"must cover the first episode of {count_of(first, 'step')}",
                f"{self.spec.num_steps}",
                remedy=("Pass ", Setting("num_steps", f"{first}"), " or more, or shorten the schedule."),
            )


def read_model_run(world: Any, spec: RunSpec, num_chains: Any = 1, workers: Any = None) -> ModelRun:
    """Returns the checked settings of a run in a model."""
    if not isinstance(world, MDP):
        is_id = isinstance(world, str) and checks.is_gymnasium_id(world)
        raise InvalidArgumentError.of(
            "world",
            "must be an MDP or a Gymnasium environment",
            type(world).__name__,
            remedy=f"Make one with gymnasium.make({world!r})." if is_id else way_to_model(world),
        )
    if spec.criterion.start is not None:
        start = checks.distribution(spec.criterion.start, "start", world.num_states)
        spec = replace(spec, criterion=replace(spec.criterion, start=start))
    if isinstance(spec.mu, str) and spec.criterion.has_restarts and spec.model == KNOWN:
        spec = spec.with_mu(weights_of(world, spec.mu))  # a rule is for runs without restarts
    spec = spec.checked()
    num_chains = checks.integer(num_chains, "num_chains", least=1)
    if workers is None:
        check_multiple(spec.num_steps, "num_chains", num_chains)
        return ModelRun(world, spec, num_chains)
    workers = checks.integer(workers, "workers", least=1)
    if num_chains != 1:
        raise InvalidArgumentError.of(
            "num_chains",
            ("must be 1 with ", Argument("workers"), ": every worker has one chain"),
            f"{num_chains}",
            remedy="Leave one of them out.",
        )
    check_multiple(spec.num_steps, "workers", workers)
    return ModelRun(world, spec, workers, is_shared=True)


def check_multiple(num_steps: int, name: str, number: int) -> None:
    """Refuses a number of steps that chains or workers cannot share evenly."""
    if num_steps % number:
        raise InvalidArgumentError.of(
            "num_steps",
            parse_text(f"must be a multiple of `{name}={number}`"),
            f"{num_steps}",
            remedy=f"The next multiple is {-(-num_steps // number) * number}.",
        )


def make_belief(spec: RunSpec, problem: Problem, roots: IntArray) -> Belief:
    """Returns the belief before the first step of a run that begins in `roots`."""
    if spec.model == KNOWN:
        return KnownModel(problem)
    mu = problem.coverage.mu if spec.rule is None else None
    members, rho = problem.question.members, problem.coverage.rho
    frame = Frame(problem.mdp, members, rho, mu, spec.rule, np.unique(roots), spec.seed)
    return LearnedModel(spec.model, frame, spec.scope, np.zeros(problem.mdp.transitions.nnz, np.int64))
