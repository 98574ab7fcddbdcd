"""compare(): runs several explorers on several models or environments, with the same seeds and budgets.

The arguments are read into a question (`CompareSpec`), and everything is checked before anything runs. Each
run is a function of its position in the grid of the question. This process uses the question itself; each
worker process receives it once in plain values (`CompareSpec.plain`), and its runs give the same results. An
executor of the caller's receives it with every run (`run_place`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sized
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover import checks, envs
from rhocover.checks import FloatArray
from rhocover.errors import Argument, Call, InvalidArgumentError, inside, parse_text
from rhocover.executors import check_executor, run_calls
from rhocover.experiments.comparison import Comparison, from_file
from rhocover.experiments.finished_runs import FinishedRuns
from rhocover.experiments.pool import run_items
from rhocover.experiments.question import CompareSpec, Failure, error_of
from rhocover.experiments.shards import read_shard
from rhocover.exploring.explorers.registry import CLASSES, explorer_name, make_explorer
from rhocover.exploring.runs.explore import ModelWorld
from rhocover.exploring.runs.spec import CRITERION, KNOWN, ModelRun
from rhocover.folders import locate
from rhocover.learning.rules import RULES, Rule, read_rule
from rhocover.mdp import MDP, way_to_model
from rhocover.planning.problem import weights_of
from rhocover.progress import Report, progress

if TYPE_CHECKING:
    from rhocover.arguments import (
        Actions,
        Explorers,
        Knowledge,
        Location,
        Places,
        PlaceWeights,
        Start,
        States,
        Whole,
    )
    from rhocover.experiments.env_comparison import EnvComparison
    from rhocover.exploring.explorers.algorithm1 import Schedule

# The runs of a question as a function of their position, for this process and for others.


@dataclass(frozen=True, eq=False)
class RunTask:
    """Runs a question, one position in the grid at a time."""

    question: Any  # a CompareSpec or an EnvQuestion

    def __call__(self, place: Any) -> Any:
        """Returns the outcome of the run at a position, or why it failed."""
        return self.question.run(place)

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_plain, (type(self.question), self.question.plain())


def _from_plain(kind: Any, plain: Mapping[str, Any]) -> RunTask:
    return RunTask(kind.from_plain(plain))


def run_place(kind: Any, plain: Mapping[str, Any], place: Any) -> Any:
    """Returns the outcome of one run, or why it failed, wherever an executor calls this."""
    return _from_plain(kind, plain)(place)


# Reading and checking the arguments of `compare`.


def read_question(
    envs: Any, explorers: Any, rho: Any, mu: Any, seeds: Any, schedule: Any, arguments: dict[str, Any]
) -> CompareSpec:
    """Returns the question, with each of its runs checked as `explore` would."""
    models = read_models(envs)
    question = CompareSpec(
        models=models,
        weights=read_weights(mu, models),
        orders=read_orders(rho),
        explorers=read_explorers(explorers, schedule),
        seeds=read_seeds(seeds),
        arguments=arguments,
    )
    for place in question.places:
        if place[3] == 0:  # seeds have been checked already
            check_run(question.settings(place))
    return replace(question, arguments=_plain(arguments, question.settings((0, 0, 0, 0))))


def check_run(asked: ModelRun) -> None:
    """Raises if a run could not start: wrong budget or problem, or a model its explorer cannot act in.

    The library's own explorers can act in every model, so they do not have to plan for this check.
    """
    asked.check_budget()
    world = ModelWorld(asked)
    if type(asked.spec.explorer) not in CLASSES.values():
        world.start(asked.spec)


def _plain(arguments: dict[str, Any], asked: ModelRun) -> dict[str, Any]:
    """Returns the checked arguments: numbers as Python types, `start` as a state or a list."""
    start = arguments["start"]
    start = int(start) if np.ndim(start) == 0 and start is not None else start
    spec = asked.spec
    values = vars(spec) | {name: getattr(spec.criterion, name) for name in CRITERION}
    values |= {"num_chains": asked.num_chains}
    checked = {name: values[name] for name in arguments if name != "start"}
    return checked | {"start": start.tolist() if isinstance(start, np.ndarray) else start}


def read_models(given: Any) -> dict[str, MDP]:
    """Returns models by name, from one or several MDPs or names of `rhocover.envs`."""
    if isinstance(given, Mapping):
        return at_least_one({str(name): make_model(env) for name, env in given.items()}, "envs")
    is_one = isinstance(given, str | MDP | np.ndarray) or not isinstance(given, Iterable)
    several = [given] if is_one else read_sequence(given, "envs")
    models = [make_model(env) for env in several]
    return read_named([(mdp.name or f"model {k + 1}", mdp) for k, mdp in enumerate(models)], "envs")


def make_model(env: Any) -> MDP:
    """Returns a model, given by itself or by its name."""
    if isinstance(env, str):
        with inside("envs"):
            return envs.make(env)
    if not isinstance(env, MDP):
        raise InvalidArgumentError.of(
            "envs", "must hold MDPs or names", type(env).__name__, remedy=way_to_model(env)
        )
    return env


def read_weights(mu: Any, models: Mapping[str, MDP]) -> dict[str, FloatArray | Rule | None]:
    """Returns the weights of each model, from None, an array, a rule, a function or a mapping by name."""
    if isinstance(mu, Mapping):
        wrong = set(mu) ^ set(models)
        if wrong:
            raise InvalidArgumentError.of(
                "mu", f"must have an entry for each of {', '.join(models)}; {sorted(wrong)[0]!r} differs"
            )
    found = mu if isinstance(mu, Mapping) else dict.fromkeys(models, mu)
    return {name: _weights(found[name], mdp) for name, mdp in models.items()}


def _is_rule(mu: Any) -> bool:
    """Whether weights are one of the library's rules; other functions are called with the model."""
    return isinstance(mu, str) or type(mu) in RULES.values()


def _weights(mu: Any, mdp: MDP) -> FloatArray | Rule | None:
    if mu is None:
        return None
    return read_rule(mu) if _is_rule(mu) else checks.float_array(weights_of(mdp, mu), "mu")


def read_explorers(given: Any, schedule: Any) -> dict[str, Any]:
    """Returns explorers by name; `schedule` sets the episode lengths of "algorithm1"."""
    with inside("explorers"):
        found = read_named(_explorers(given), "explorers")
    if schedule is not None:
        if "algorithm1" not in found:
            raise InvalidArgumentError.of(
                "schedule", "needs algorithm1, which is not among the explorers", remedy="Leave it out."
            )
        found["algorithm1"] = make_explorer(found["algorithm1"], schedule)
    return found


def _explorers(given: Any) -> list[tuple[str, Any]]:
    if isinstance(given, Mapping):
        return [(str(name), make_explorer(explorer)) for name, explorer in given.items()]
    several = [given] if isinstance(given, str) or hasattr(given, "policy") else given
    made = [make_explorer(explorer) for explorer in read_sequence(several, "explorers")]
    return [(explorer_name(explorer), explorer) for explorer in made]


def read_orders(rho: Any) -> tuple[float, ...]:
    """Returns the values of rho, each once."""
    several = read_sequence(rho, "rho") if isinstance(rho, Iterable) else [rho]
    orders = [checks.number(order, "rho") + 0.0 for order in several]  # + 0.0 turns -0 into 0
    return tuple(read_named([(order, order) for order in orders], "rho"))


def read_seeds(seeds: Any) -> tuple[int, ...]:
    """Returns 0..k-1 for a number k, or the seeds of a list, each once."""
    if not isinstance(seeds, Iterable):
        return tuple(range(checks.integer(seeds, "seeds", least=1, most=10**6)))
    several = [checks.integer(seed, "seeds", least=0) for seed in read_sequence(seeds, "seeds")]
    return tuple(read_named([(seed, seed) for seed in several], "seeds"))


def read_sequence(given: Any, name: str) -> list[Any]:
    """Returns a list of what is given; raises if it is not a sequence."""
    if isinstance(given, str) or not isinstance(given, Iterable) or getattr(given, "ndim", 1) == 0:
        raise InvalidArgumentError.of(name, "must be a list", repr(given))
    return list(given)


def read_named(pairs: list[tuple[Any, Any]], name: str) -> dict[Any, Any]:
    """Returns the pairs as a mapping; raises if there are none, or if a name occurs twice."""
    names = [key for key, _ in pairs]
    twice = [key for k, key in enumerate(names) if key in names[:k]]
    if twice:
        remedy = (
            (Call("Pass a mapping with names of your own.", "Give it only once."),)
            if name in ("envs", "explorers")
            else ""
        )
        raise InvalidArgumentError.of(name, f"has {twice[0]!r} twice", remedy=remedy)
    return at_least_one(dict(pairs), name)


def at_least_one(found: dict[Any, Any], name: str) -> dict[Any, Any]:
    """Returns the mapping; raises if it is empty."""
    if not found:
        raise InvalidArgumentError.of(name, "must have at least one entry", "none")
    return found


# compare()

EXPLORERS = ("feedback", "tracking", "stationary", "algorithm1")


def compare(
    envs: Places,
    explorers: Explorers | None = None,
    *,
    states: States | Mapping[str, States] | None = None,
    actions: Actions | Mapping[str, Actions] | None = None,
    held_out: States | Mapping[str, States] | None = None,
    rho: float | Iterable[float] = 2.0,
    num_steps: Whole = 30_000,
    mu: PlaceWeights | Mapping[str, PlaceWeights] | None = None,
    model: Knowledge | None = None,
    seeds: int | Iterable[int] = 20,
    schedule: Schedule | None = None,
    start: Start | None = None,
    discount: float | None = None,
    horizon: int | None = None,
    restrict: bool = False,
    num_chains: int = 1,
    trace_points: int = 5,
    workers: int | None = None,
    executor: Any = None,
    out: Location | None = None,
    shard: str | None = None,
    report: Report | None = None,
) -> Comparison | EnvComparison | Any:
    """Returns the runs of every explorer on every model at every rho, with the same seeds and budget.

    `envs` is an MDP or a name, a list of them, or a mapping with names of your own. `explorers` is the same,
    with names or explorer objects. `rho` is a number or several, `seeds` a number k (0..k-1) or a list. `mu`
    is None (uniform), an array, the name of a rule, a function of the model, or a mapping with an entry for
    each env. `model` says what every explorer knows ("known" by default). `schedule` sets the episode lengths
    of "algorithm1"; the rest is as in `explore`. With a `horizon` all explorers run in episodes; some work
    only in episodes and need one.

    `envs` may also be Gymnasium environments: ids, environments that `gymnasium.make` returned, or functions
    that make one. If each has a table of its transitions, as FrozenLake, the comparison is on these models.
    Otherwise explorers are compared by what they find (`EnvComparison`): distinct codes of `states`, and
    distinct cells of `held_out`, a code that none of them plans with. Any of `states` (`states=int` for
    states that are numbers), `actions` and `held_out`, or an explorer that models do not have, asks for this
    where there are tables, too. `states` and `actions` are as in `explore`; these three may be mappings with
    an entry for each env. Explorers are those of `explore` with `model="from_scratch"` by default, "counts",
    and with the extra `sb3` PPO with intrinsic rewards: "ppo_rnd", "ppo_icm", "ppo_apt", "ppo_e3b",
    "ppo_ngu", "ppo_counts", "ppo_coverage", "ppo".

    Runs are distributed over `workers` processes, by default one per core; the number does not change the
    result. With one worker, everything runs in this process. A script that uses several needs the usual
    `if __name__ == "__main__":`. `executor` takes the place of `workers`: anything with
    `submit(function, *args)` that returns a future, such as a `ProcessPoolExecutor`, or
    `client.get_executor()` of Dask. `out` is a folder that stores finished runs: after an interruption, the
    same call continues, and a call with more `seeds` runs only the new ones. It raises if the folder holds a
    comparison with other arguments or is in use by another process. `report(done, total)` is called after
    each run.

    `shard="3/64"` runs the third of 64 shards of the runs, for job arrays: all of them share `out`. Then the
    result is a `FinishedShard`. The same call without `shard` puts the shards together, runs what is missing,
    and returns the comparison. No bit depends on where and in which order the runs were made.

    >>> import rhocover as rc
    >>> found = rc.compare("river_swim", ["feedback", "stationary"], num_steps=2000, seeds=4, workers=1)
    >>> best, other = found.table()
    >>> best.regret.mean < other.regret.mean / 10
    True
    """
    out = None if out is None else locate(out)  # code called below may change the working directory
    question = check_question(
        envs, explorers, rho=rho, num_steps=num_steps, mu=mu, model=model, seeds=seeds, schedule=schedule,
        start=start, discount=discount, horizon=horizon, restrict=restrict, num_chains=num_chains,
        trace_points=trace_points, states=states, actions=actions, held_out=held_out,
    )  # fmt: skip
    part = read_shard(shard, out)
    runner = _read_runner(workers, executor, question, out)
    finished = FinishedRuns(question, out, part)
    try:
        with progress("comparing", report) as told:
            _run(question, finished, runner, told)
    finally:
        finished.close()  # also after an error: finished runs are kept
    if part is not None:
        return finished.report_on(part)
    if isinstance(question, CompareSpec):
        return from_file(finished.tensors, finished.document, str(out))
    from rhocover.experiments.env_comparison import from_tensors

    return from_tensors(finished.tensors, finished.document, str(out))


def check_question(
    envs: Any, explorers: Any, *, rho: Any, mu: Any, seeds: Any, schedule: Any, **arguments: Any
) -> Any:
    """Returns the question of the arguments of `compare`; raises if it could not be run."""
    codes = {name: arguments.pop(name, None) for name in ("states", "actions", "held_out")}
    if are_environments(envs):
        from rhocover.experiments.env_reading import asks_what_is_found, models_of_tables, read_env_question

        models = None if asks_what_is_found(codes, explorers) else models_of_tables(envs)
        if models is not None:
            return check_question(
                models, explorers, rho=rho, mu=mu, seeds=seeds, schedule=schedule, **arguments
            )
        shared = {"rho": rho, "mu": mu, "seeds": read_seeds(seeds), "schedule": schedule, **arguments}
        return read_env_question(envs, explorers, codes, shared)
    if given := [name for name, code in codes.items() if code is not None]:
        raise InvalidArgumentError.of(given[0], "is for environments: a model has its own states and actions")
    model = arguments.pop("model", None)
    arguments = {"trace_points": 5, **arguments, "model": KNOWN if model is None else model}
    explorers = EXPLORERS if explorers is None else explorers
    return read_question(envs, explorers, rho, mu, seeds, schedule, arguments)


def are_environments(given: Any) -> bool:
    """Whether something among `envs` is an environment and no model."""
    several = given.values() if isinstance(given, Mapping) else given
    if isinstance(given, str | MDP) or not isinstance(several, Iterable) or getattr(given, "ndim", 1) == 0:
        several = [given]
    elif not isinstance(several, Sized):
        return False  # an iterator can be read only once
    return any(is_environment(env) for env in several)


def is_environment(env: Any) -> bool:
    """Whether this is an environment and no model: an id, an object or a function."""
    if isinstance(env, str):
        return checks.is_gymnasium_id(env) and env not in envs.names()
    return not isinstance(env, MDP) and (callable(env) or hasattr(env, "step") or hasattr(env, "entry_point"))


def _run(question: Any, finished: FinishedRuns, runner: Any, report: Report) -> None:
    """Runs everything that is not done yet."""
    places, total = finished.left, len(finished.places)
    with closing(_outcomes(question, places, runner)) as outcomes:
        for number, (k, outcome) in enumerate(outcomes, total - len(places) + 1):
            if isinstance(outcome, Failure):
                raise error_of(outcome, question.describe(places[k]))
            finished.fill(places[k], outcome)
            report(number, total)


def _outcomes(question: Any, places: list[Any], runner: Any) -> Any:
    """Returns an iterator of (k, outcome at places[k]); `runner` is a number of processes or an executor."""
    if isinstance(runner, int):
        return run_items(RunTask(question), places, min(runner, len(places)), caller="compare")
    kind, plain = type(question), question.plain()
    names = [f"the run of {question.describe(place)}" for place in places]
    return run_calls(runner, run_place, [(kind, plain, place) for place in places], names)


def _read_runner(workers: int | None, executor: Any, question: Any, out: Any) -> Any:
    """Returns the number of processes, or the executor."""
    if executor is not None and workers is not None:
        raise InvalidArgumentError.of(
            "workers",
            ("must be None with an ", Argument("executor"), ", which has its own"),
            repr(workers),
            remedy="Leave one of them out.",
        )
    number = 1 if workers is None else checks.integer(workers, "workers", least=1)
    runner = number if executor is None else check_executor(executor)
    own = question.own_parts
    if own and (out is not None or runner != 1):
        raise _not_elsewhere(*own[0])
    return runner if own or workers is not None or executor is not None else os.cpu_count() or 1


def _not_elsewhere(name: str, part: str) -> InvalidArgumentError:
    """Returns the error about explorers and functions of the caller's own, which run only in this process."""
    what = "is not part of this library" if name == "explorers" else "cannot be imported by its name"
    return InvalidArgumentError.of(
        name,
        f": {part!r} {what}, so another process or a file cannot recreate it",
        remedy=parse_text("Pass workers=1, no `executor` and no `out`."),
    )
