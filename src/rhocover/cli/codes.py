"""Encodings as they are typed: --states, --held-out, --actions, and the weights of data sets.

A function of an observation is typed as `module:name` (`imports`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rhocover.cli.imports import import_function, is_import
from rhocover.cli.parsing import read_array, unknown_weights
from rhocover.cli.places import close
from rhocover.errors import InvalidArgumentError

UNFITTED: Any = object()  # instead of an environment: a code is returned as it is, for every run to fit
STATES_SPEC = (
    "bins:12,11, bins:12,11@-1.2:0.6,-0.07:0.07, quantiles:12,11, net, net:0.5 or module:name, a function "
    "of an observation"
)


def parse_states(
    text: str | None, make_env: Callable[[], Any] | None, seed: int = 0, option: str = "--states"
) -> Any:
    """Returns the argument `states`; quantiles and nets are fitted to a rollout in a separate environment.

    `option` is the one that was typed: --held-out is read in the same way.
    """
    if text is None:
        return None
    if text == "net" or text.startswith("net:"):
        return _fitted_net(text.removeprefix("net").removeprefix(":"), make_env, seed, option)
    if is_import(text):
        return import_function(text, _argument(option))
    from rhocover.environments.encoding.bins import Bins, QuantileBins

    kind, _, rest = text.partition(":")
    counts, at, bounds = rest.partition("@")
    if kind not in ("bins", "quantiles") or not counts or (at and (kind == "quantiles" or not bounds)):
        raise _misspelled(text, option)
    numbers = _one_or_many(_whole_numbers(counts, option, f"Such as {option} {kind}:8."))
    if kind == "bins":
        low, high = _bounds(bounds, text, option) if at else (None, None)
        with _example(option, "bins:8"):
            return Bins(numbers, low, high)
    with _example(option, "quantiles:8"):
        return _fitted(QuantileBins(numbers), f"{option} quantiles:...", make_env, seed)


@contextmanager
def _example(option: str, value: str) -> Iterator[None]:
    """Adds an example to an error about a code that has none."""
    try:
        yield
    except InvalidArgumentError as error:
        if not error.remedy:
            error.add_remedy(f"Such as {option} {value}.")
        raise


def _misspelled(text: str, option: str) -> InvalidArgumentError:
    return InvalidArgumentError.of(
        _argument(option), f"must be like {STATES_SPEC}", repr(text), remedy=f"Such as {option} bins:8."
    )


def _argument(option: str) -> str:
    """Returns the name of an option as an argument."""
    return option.strip("-").replace("-", "_")


def _fitted_net(radius: str, make_env: Callable[[], Any] | None, seed: int, option: str) -> Any:
    from rhocover.environments.encoding.nets import AUTO, Net

    if not radius:
        return _fitted(Net(AUTO), f"{option} net", make_env, seed)
    try:
        net = Net(float(radius))
    except ValueError as error:
        raise _misspelled(f"net:{radius}", option) from error
    return _fitted(net, f"{option} net:...", make_env, seed)


def _fitted(code: Any, typed: str, make_env: Callable[[], Any] | None, seed: int) -> Any:
    from rhocover.environments.stepping import random_rollout

    if make_env is UNFITTED:
        return code
    if make_env is None:
        option = typed.partition(" ")[0]
        raise InvalidArgumentError(
            f"{typed} needs an environment for its random rollout.",
            argument=_argument(option),
            remedy=f"Pass {option} bins:8.",
        )
    env = make_env()
    try:
        return code.fit(random_rollout(env, code.rollout_steps, seed))
    finally:
        close(env)


def parse_columns(texts: Sequence[str] | None) -> dict[str, Any] | None:
    """Returns the argument `columns`: `s=pos` is `{"s": "pos"}`, and `s=x,y` is `{"s": ("x", "y")}`."""
    found: dict[str, Any] = {}
    for text in texts or ():
        role, is_given, names = text.partition("=")
        if not is_given or not role or not all(names.split(",")):
            raise InvalidArgumentError.of(
                "columns", "must be like s=pos, or s=x,y", repr(text), remedy="Such as --column s=s."
            )
        if role in found:
            raise InvalidArgumentError.of("columns", f"has {role} twice", remedy="Give it once.")
        found[role] = _one_or_many(names.split(","))
    return found or None


def parse_actions(text: str | None) -> Any:
    """Returns the argument `actions`."""
    if text is None:
        return None
    such_as = "Leave it out to use all actions of a discrete space; for real numbers, such as --actions 3."
    return _one_or_many(_whole_numbers(text, "--actions", such_as))


def _whole_numbers(text: str, option: str, such_as: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InvalidArgumentError.of(
            _argument(option), "needs whole numbers separated by commas", repr(text), remedy=such_as
        ) from None


def _one_or_many(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else tuple(values)


def _bounds(text: str, spec: str, option: str) -> tuple[Any, Any]:
    """Returns the lower and the upper bounds; None stands for the bound of the space."""
    ends = [part.split(":") for part in text.split(",")]
    try:
        if any(len(pair) != 2 for pair in ends):
            raise ValueError
        lows, highs = ([float(end) if end else None for end in side] for side in zip(*ends, strict=True))
    except ValueError:
        raise _misspelled(spec, option) from None
    return _one_or_many(lows), _one_or_many(highs)


def parse_data_mu(spec: str) -> Any:
    """Returns the argument `mu`: None for equal weights, a rule's name, a function, or weights `[S, A]`."""
    from rhocover.learning.rules import RULES

    if spec in RULES:
        return None if spec == "uniform" else spec
    if is_import(spec):
        return import_function(spec, "mu")
    if Path(spec).suffix.lower() in (".npy", ".csv"):
        return read_array(Path(spec))
    raise unknown_weights(spec, list(RULES))
