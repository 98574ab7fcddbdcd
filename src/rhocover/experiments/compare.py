"""compare(): several explorers on several models, with the same seeds and budgets, and what they reach."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from typing import Any

from rhocover import checks
from rhocover.errors import InvalidArgumentError
from rhocover.experiments.answering import Answering
from rhocover.experiments.comparison import Comparison, from_file
from rhocover.experiments.ledger import Ledger
from rhocover.experiments.pool import run_items
from rhocover.experiments.question import Question
from rhocover.experiments.reading import read_question
from rhocover.experiments.runs import Failure, error_of
from rhocover.locks import locate

EXPLORERS = ("feedback", "tracking", "stationary", "algorithm1")


def compare(
    envs: Any,
    explorers: Any = EXPLORERS,
    *,
    rho: Any = 2.0,
    num_steps: int = 30_000,
    mu: Any = None,
    model: Any = "known",
    seeds: Any = 20,
    schedule: Any = None,
    start: Any = None,
    discount: float | None = None,
    horizon: int | None = None,
    restrict: bool = False,
    num_chains: int = 1,
    trace_points: int = 5,
    workers: int | None = None,
    out: os.PathLike[str] | str | None = None,
    report: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Returns the runs of every explorer on every model at every rho, with the same seeds and budget.

    `envs` is an MDP or a name, a list of them, or a mapping from names of your own. `explorers` likewise:
    names or objects. `rho` is a number or several, `seeds` a number k (0..k-1) or a list. `mu` is None
    (uniform), an array, a rule's name, a function of the model, or a mapping with an entry for each env.
    `model` says what every explorer knows. `schedule` sets the episodes of "algorithm1"; the rest is as in
    `explore`. With a `horizon` all explorers play episodes; some can do nothing else, and need one.

    Runs share out among `workers` processes, one for each core by default; the result does not depend on
    how many. With one, everything happens in this process. A script that uses several needs the usual
    `if __name__ == "__main__":`. `out` is a folder that keeps what is finished: the same call goes on after
    an interruption, and refuses a folder that was begun with other arguments or is in use by another process.
    `report(done, total)` is called after each run.

    >>> import rhocover as rc
    >>> found = rc.compare("river_swim", ["feedback", "stationary"], num_steps=2000, seeds=4, workers=1)
    >>> best, other = found.table()
    >>> best.regret.mean < other.regret.mean / 10
    True
    """
    out = None if out is None else locate(out)  # what is called on the way may change the working directory
    question = check_question(
        envs, explorers, rho=rho, num_steps=num_steps, mu=mu, model=model, seeds=seeds, schedule=schedule,
        start=start, discount=discount, horizon=horizon, restrict=restrict, num_chains=num_chains,
        trace_points=trace_points,
    )  # fmt: skip
    workers = _read_workers(workers, question, out)
    ledger = Ledger(question, out)
    try:
        _run(question, ledger, workers, report)
    finally:
        ledger.close()  # whatever ended it: what is finished is kept
    return from_file(ledger.tensors, ledger.document, str(out))


def check_question(
    envs: Any, explorers: Any, *, rho: Any, mu: Any, seeds: Any, schedule: Any, trace_points: int = 5,
    **arguments: Any,
) -> Question:  # fmt: skip
    """Returns what the arguments of `compare` ask; refuses what could not be run."""
    arguments = {"trace_points": trace_points, **arguments}
    return read_question(envs, explorers, rho, mu, seeds, schedule, arguments)


def _run(question: Question, ledger: Ledger, workers: int, report: Any) -> None:
    """Runs what is not done yet."""
    places = [place for place in question.places if not ledger.done[place]]
    total, workers = ledger.done.size, min(workers, len(places))
    with closing(run_items(Answering(question), places, workers, caller="compare")) as answers:
        for k, outcome in answers:
            if isinstance(outcome, Failure):
                raise error_of(outcome, question.describe(places[k]))
            ledger.fill(places[k], outcome)
            if report is not None:
                report(int(ledger.done.sum()), total)


def _read_workers(workers: int | None, question: Question, out: Any) -> int:
    """Returns how many processes to use; explorers of the caller's own stay in this one."""
    own = question.own_explorers
    if own and (out is not None or (workers or 1) > 1):
        raise InvalidArgumentError(
            f"`explorers`: {own[0]!r} is not of this library, so no other process and no file can "
            "rebuild it. Pass workers=1 and no `out`."
        )
    if workers is None:
        return 1 if own else os.cpu_count() or 1
    return checks.integer(workers, "workers", least=1)
