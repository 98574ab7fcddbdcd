"""The workers of a run in environments: how many there are, and what makes the environment of each.

Workers need environments of their own, so what is passed is not an environment but what makes one: the id of
a registered environment, `module:function`, a Gymnasium spec, or a function. One is made here, to read its
spaces and its table. It takes no steps that are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from rhocover import checks
from rhocover.collecting.env_run import EnvRun, is_learner
from rhocover.engines import Processes
from rhocover.environments.encoding.base import function_name
from rhocover.environments.encoding.functions import FunctionCode
from rhocover.environments.encoding.nets import Net, NetCode
from rhocover.environments.sources import (
    EnvSource,
    importable_name,
    is_import_name,
    named_function,
    source_of,
    with_spaces,
)
from rhocover.errors import Argument, InvalidArgumentError, calling, shortened
from rhocover.exploring.runs.spec import Encoding, check_multiple, read_executor


@dataclass(frozen=True, eq=False)
class Workers:
    """How many workers act at the same time, what makes their environments, and who takes their legs."""

    number: int
    source: EnvSource
    actions: Any  # as the caller gave them
    executor: Any = None


def read_workers(env: Any, encoding: Encoding, workers: Any, executor: Any) -> Workers | None:
    """Returns the workers, checked; None if there are none."""
    executor = read_executor(executor, workers)
    if workers is None:
        return None
    number, source = checks.integer(workers, "workers", least=1), read_maker(env)
    if executor is not None and isinstance(executor, Processes | ProcessPoolExecutor):
        _check_sendable(source, encoding)
    if is_learner(encoding.states):
        raise InvalidArgumentError.of(
            "states",
            ("cannot be learned during a run of several ", Argument("workers")),
            remedy="Fit the code first, states.fit(observations), and pass the result.",
        )
    if isinstance(encoding.held_out, Net | NetCode):
        raise InvalidArgumentError.of(
            "held_out",
            ("cannot be a net, which grows, in a run of several ", Argument("workers")),
            remedy="Pass bins or a function.",
        )
    return Workers(number, source, encoding.actions, executor)


def read_maker(env: Any) -> EnvSource:
    """Returns what makes the environments of workers."""
    if isinstance(env, str) and is_import_name(env):
        return with_spaces(EnvSource("function", env, function=_imported(env)))
    if hasattr(env, "num_envs"):
        raise InvalidArgumentError.of(
            "env",
            ("cannot be a vector with ", Argument("workers"), ", each of whom has one environment"),
            remedy="Pass the id of the environment, or a function that makes one.",
        )
    try:
        with calling(envs="env"):
            return with_spaces(source_of(env)[1])
    except InvalidArgumentError as error:
        error.add_remedy("With workers, pass an id, 'module:function', or a function that makes one.")
        raise


def _imported(text: str) -> Any:
    try:
        return named_function(text)
    except (ImportError, AttributeError) as error:
        raise InvalidArgumentError(
            f"{text!r} cannot be imported: {shortened(error)}.",
            argument="env",
            remedy="Name a function of a module that can be imported here and by every worker.",
        ) from error


def _check_sendable(source: EnvSource, encoding: Encoding) -> None:
    """Raises if something that the workers need cannot be sent to other processes of this machine."""
    codes = {"states": encoding.states, "held_out": encoding.held_out}
    given = {"env": source.function} | {name: _function_of(code) for name, code in codes.items()}
    for name, function in given.items():
        if function is not None and _is_local(function):
            raise InvalidArgumentError.of(
                name,
                f"{function_name(function)} cannot be sent to other processes",
                remedy="Define the function at the top of a module, so that it can be imported by its name.",
            )


def _function_of(code: Any) -> Any:
    if isinstance(code, FunctionCode):
        return code.function
    found = getattr(code, "of", None)
    return found if callable(found) else None if hasattr(code, "key") else code


def _is_local(function: Any) -> bool:
    """Whether a plain function has no name by which it can be imported."""
    return hasattr(function, "__qualname__") and not isinstance(function, type) and (
        not hasattr(function, "__self__") and importable_name(function) is None
    )  # fmt: skip


def shared(asked: EnvRun, workers: Workers | None) -> EnvRun:
    """Returns the run of several workers, if there are any; refuses steps that they cannot share."""
    if workers is None:
        return asked
    check_multiple(asked.spec.num_steps, "workers", workers.number)
    return replace(asked, workers=workers, learner=None)


@contextmanager
def opened(env: Any, workers: Workers | None) -> Iterator[Any]:
    """Yields the environment of a run: that of the caller, or one that is made for it and closed."""
    if workers is None:
        yield env
        return
    made = workers.source.make()
    try:
        yield made
    finally:
        made.close()
