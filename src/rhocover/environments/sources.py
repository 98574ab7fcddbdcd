"""Where environments come from: what makes a new one, in this process or in another.

An environment has a state that cannot be sent anywhere, so several runs or workers need one each. What makes
it (`EnvSource`) is one of four things: the id of a registered environment; a Gymnasium spec, taken from an
environment that `gymnasium.make` returned; a function without arguments; or the name of such a function,
`module:function`, which is imported. A source is sent as plain values; its function goes by its name, unless
the transport can send functions themselves, as those of Dask and Ray can.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from rhocover import checks
from rhocover.environments.encoding.base import function_name
from rhocover.errors import InvalidArgumentError, RhocoverError


@dataclass(frozen=True)
class EnvSource:
    """Makes an environment; `kind` is "id", "spec" or "function", `text` the id, the JSON or the name."""

    kind: str
    text: str
    spaces: str = ""
    function: Callable[[], Any] | None = field(default=None)

    def make(self) -> Any:
        """Returns a new environment."""
        import gymnasium as gym
        from gymnasium.envs.registration import EnvSpec

        if self.function is not None:
            env = self.function()
        else:
            with _explained(self.text):
                env = gym.make(EnvSpec.from_json(self.text) if self.kind == "spec" else self.text)
        if not isinstance(env, gym.Env):
            kind = type(env).__name__
            raise InvalidArgumentError.of("envs", f"{self.text} must return a Gymnasium environment", kind)
        return env

    def document(self) -> dict[str, str]:
        """Returns what a file says of it."""
        return {self.kind: self.text, "spaces": self.spaces}


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turns errors of `gymnasium.make` into errors about `envs`."""
    try:
        yield
    except RhocoverError:
        raise
    except Exception as error:
        raise InvalidArgumentError(
            f"{name!r} is no name from rhocover.envs, and Gymnasium cannot make it: {error}", argument="envs"
        ) from error


def source_of(env: Any) -> tuple[str, EnvSource]:
    """Returns the name of an environment, and where it comes from."""
    from gymnasium.envs.registration import EnvSpec

    if isinstance(env, str):
        return env, EnvSource("id", env)
    spec = env if isinstance(env, EnvSpec) else getattr(env, "spec", None)
    if isinstance(spec, EnvSpec):
        return spec.id, EnvSource("spec", _json(spec))
    if callable(env):
        name = getattr(env, "__name__", type(env).__name__)
        return name, EnvSource("function", importable_name(env) or function_name(env), function=env)
    raise InvalidArgumentError.of(
        "envs",
        "must hold ids, environments that gymnasium.make returned, or functions that make one",
        type(env).__name__,
        remedy="Pass a function that returns a new environment: every run needs its own.",
    )


def _json(spec: Any) -> str:
    try:
        return spec.to_json()
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"the spec of {spec.id} cannot be stored: {error}",
            argument="envs",
            remedy="Pass a function that returns a new environment.",
        ) from error


def with_spaces(source: EnvSource) -> EnvSource:
    """Returns the source with the spaces of its environments; one is made and closed to read them."""
    made = source.make()
    try:
        return replace(source, spaces=f"{made.observation_space} {made.action_space}")
    finally:
        made.close()


# Functions by name.


def importable_name(function: Any) -> str | None:
    """Returns "module:name" from which a function can be imported again; None if it cannot."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is function else None


def is_import_name(text: str) -> bool:
    """Whether a text names a function to import, `module:function`, and not an environment of Gymnasium."""
    module, colon, name = text.partition(":")
    parts = [*module.split("."), *name.split(".")]
    return bool(colon) and not checks.is_gymnasium_id(text) and all(part.isidentifier() for part in parts)


def named_function(text: str) -> Any:
    """Returns the function "module:name"."""
    module, _, name = text.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found
