"""Named models: environments from the literature, each with its exact numbers.

Every function here returns an `MDP`; its name is the name that `make`, the command line and the result
files use, and its keyword arguments are the parameters. Names, parameters and defaults are read from the
functions themselves, so there is no second table to keep in sync.

>>> from rhocover import envs
>>> envs.make("river_swim", num_states=20)
MDP(river_swim: 20 states, 2 actions, 40 pairs)
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rhocover import checks
from rhocover.envs.classics import deep_sea, double_chain, garnet, six_arms, wheel
from rhocover.envs.rivers import forked_river_swim, noisy_river_swim, river_swim, river_swim_strong_current
from rhocover.envs.rooms import four_rooms, grid_world, n_room
from rhocover.errors import InvalidArgumentError
from rhocover.mdp import MDP

__all__ = [
    "EnvInfo",
    "deep_sea",
    "describe",
    "double_chain",
    "forked_river_swim",
    "four_rooms",
    "garnet",
    "grid_world",
    "make",
    "n_room",
    "names",
    "noisy_river_swim",
    "parameters",
    "parse_parameters",
    "river_swim",
    "river_swim_strong_current",
    "six_arms",
    "wheel",
]

_BUILDERS: dict[str, Callable[..., MDP]] = {
    builder.__name__: builder
    for builder in (
        river_swim,
        river_swim_strong_current,
        noisy_river_swim,
        forked_river_swim,
        double_chain,
        wheel,
        six_arms,
        grid_world,
        four_rooms,
        n_room,
        deep_sea,
        garnet,
    )
}


@dataclass(frozen=True)
class EnvInfo:
    """One entry of the list of environments; the sizes are those for the default parameters."""

    name: str
    summary: str
    parameters: dict[str, Any]
    num_states: int
    num_actions: int
    num_pairs: int


def names() -> tuple[str, ...]:
    """Returns the names that `make` knows, chains first, random models last."""
    return tuple(_BUILDERS)


def make(name: str, **parameters: Any) -> MDP:
    """Returns the environment of that name; parameters that are not given keep their defaults."""
    builder = _builder(name)
    for parameter in parameters:
        _check_parameter(name, parameter)
    try:
        return builder(**parameters)
    except InvalidArgumentError as error:
        error.add_remedy(_signature(name))
        raise


def parameters(name: str) -> dict[str, Any]:
    """Returns the parameters of an environment with their defaults, in order."""
    signature = inspect.signature(_builder(name))
    return {key: parameter.default for key, parameter in signature.parameters.items()}


def parse_parameters(name: str, texts: Iterable[str]) -> dict[str, Any]:
    """Returns `["num_states=20"]` as `{"num_states": 20}`, each value with the type of its default.

    A parameter whose default is None takes a whole number, or the word none.
    """
    result: dict[str, Any] = {}
    if isinstance(texts, str) or not isinstance(texts, Iterable) or getattr(texts, "ndim", 1) == 0:
        raise InvalidArgumentError.of(
            "texts", "must be a list of texts of the form parameter=value", remedy=_signature(name)
        )
    for text in texts:
        if not isinstance(text, str):
            raise InvalidArgumentError.of("texts", "must hold texts", repr(text), remedy=_signature(name))
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise InvalidArgumentError(
                f"expected parameter=value, got {text!r}.", argument="texts", remedy=_signature(name)
            )
        _check_parameter(name, key)
        if key in result:
            raise InvalidArgumentError.of(key, "is given twice", remedy=_signature(name))
        result[key] = _parse_value(name, key, value)
    return result


def describe() -> tuple[EnvInfo, ...]:
    """Returns one entry per environment, in the order of `names`."""
    return tuple(_info(name) for name in names())


def _info(name: str) -> EnvInfo:
    mdp = make(name)
    first_line = (inspect.getdoc(_builder(name)) or "").partition("\n")[0]
    summary = first_line.removeprefix("Returns ").removesuffix(".")
    return EnvInfo(name, summary, parameters(name), mdp.num_states, mdp.num_actions, mdp.num_pairs)


def _builder(name: str) -> Callable[..., MDP]:
    return _BUILDERS[checks.choice(name, "name", names(), kind="environment")]


def _check_parameter(name: str, key: str) -> None:
    known = parameters(name)
    if key not in known:
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise InvalidArgumentError(
            f"`{name}` has no parameter {key!r}.", argument=key, remedy=f"{hint}{_signature(name)}"
        )


def _signature(name: str) -> str:
    known: Mapping[str, Any] = parameters(name)
    if not known:
        return f"`{name}` has no parameters."
    return f"Parameters of `{name}`: " + ", ".join(f"{k}={_short(v)}" for k, v in known.items()) + "."


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else repr(value)


def _parse_value(name: str, key: str, value: str) -> Any:
    default = parameters(name)[key]
    if default is None and value.lower() == "none":
        return None
    kind = float if isinstance(default, float) else int
    try:
        return kind(value)
    except ValueError as error:
        expected = "number" if kind is float else "whole number"
        raise InvalidArgumentError.of(
            key, f"must be a {expected}", repr(value), remedy=_signature(name)
        ) from error
