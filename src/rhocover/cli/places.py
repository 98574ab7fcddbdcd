"""Gymnasium environments as they are typed: the id, the arguments, the number of copies.

The id of an environment may name a module to import first, `module:Name-v0`, as in Gymnasium: the user typed
its name and trusts its code. The module may be in the working directory (`imports`). Files never decide which
environment is made.
"""

from __future__ import annotations

import difflib
import inspect
import json
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rhocover import checks
from rhocover.cli.imports import search_here
from rhocover.cli.output import one_line, print_message
from rhocover.errors import (
    Argument,
    InvalidArgumentError,
    MissingExtraError,
    RhocoverError,
    UnknownNameError,
    calling,
    parse_text,
    unknown_name,
)

NAMED = 8  # ids in a message


def is_environment(text: str) -> bool:
    """Whether a text looks like the id of a Gymnasium environment: it ends in a version."""
    return checks.is_gymnasium_id(text)


def parse_arguments(settings: Sequence[str]) -> dict[str, Any]:
    """Returns `["map_name=8x8", "is_slippery=true"]` as values: JSON where it is JSON, else text."""
    result: dict[str, Any] = {}
    for text in settings:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name.isidentifier():
            raise InvalidArgumentError.of(
                "settings", "must be NAME=VALUE", repr(text), remedy="Such as --set is_slippery=false."
            )
        if name in result:
            raise InvalidArgumentError.of("settings", f"has {name} twice", remedy="Give it once.")
        result[name] = _value(value)
    return result


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {"True": True, "False": False, "None": None}.get(text, text)


def _typed(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@dataclass(frozen=True)
class Place:
    """An environment as it was typed. Several copies, `num_envs`, are one vector environment."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    num_envs: int | None = None
    max_episode_steps: int | None = None
    read: str | None = None
    level: int | None = None

    def make(self) -> Any:
        """Returns the environment, or the vector of its copies."""
        return self.make_one() if self.num_envs in (None, 1) else self._make_many(self.num_envs)

    def make_one(self) -> Any:
        """Returns a single environment, even if `num_envs` is given."""
        import gymnasium as gym

        with _explained(self.name, self._all()):
            env = gym.make(self.name, **self._all())
        return self._reading(env)

    def maker(self, env: Any, workers: int | None) -> Any:
        """Returns `env`, or for workers what makes an environment for each of them, in any process."""
        if workers is None:
            return env
        if self.num_envs not in (None, 1):
            raise InvalidArgumentError.of(
                "num_envs",
                ("must be 1 with ", Argument("workers"), ": every worker has one environment"),
                f"{self.num_envs}",
                remedy="Leave one of them out.",
            )
        return env.spec if self.read is None else self.make_one

    def _make_many(self, num_envs: int) -> Any:
        """Returns copies that step one after the other and behave like a single environment."""
        import gymnasium as gym

        with _explained(self.name, self._all()):
            wrappers = [] if self.read is None else [self._reading]  # a spec with functions is no JSON
            return gym.make_vec(
                self.name, num_envs, vectorization_mode="sync", wrappers=wrappers, **self._all()
            )

    def _reading(self, env: Any) -> Any:
        """Returns the environment, or what its simulator knows as observations."""
        if self.read is None:
            return env
        from rhocover.environments.read_state import ReadState

        with calling(what="read"):
            return ReadState(env, self.read, level=self.level)

    def command(self, verb: str) -> str:
        """Returns the beginning of a command line about this environment."""
        given = [
            word for name, value in self.arguments.items() for word in ("--set", f"{name}={_typed(value)}")
        ]
        return shlex.join(["rhocover", verb, self.name, *given])

    def _all(self) -> dict[str, Any]:
        limit = {} if self.max_episode_steps is None else {"max_episode_steps": self.max_episode_steps}
        return self.arguments | limit


def parse_place(
    name: str, settings: Sequence[str], num_envs: int | None = None, max_episode_steps: int | None = None,
    read: str | None = None, level: int | None = None,
) -> Place:  # fmt: skip
    """Returns the environment that was typed, checked."""
    if level is not None and read is None:
        raise InvalidArgumentError.of(
            "level", parse_text("needs `read`, which fixes it"), remedy="Leave it out."
        )
    for value, argument in ((num_envs, "num_envs"), (max_episode_steps, "max_episode_steps")):
        if value is not None:
            checks.integer(value, argument, least=1)
    return Place(name, parse_arguments(settings), num_envs, max_episode_steps, read, level)


@contextmanager
def _explained(name: str, arguments: Mapping[str, Any]) -> Iterator[None]:
    """Turns errors of Gymnasium into ours, and prints its warnings, one line each."""
    import gymnasium as gym

    if ":" in name:
        search_here(name.partition(":")[0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except gym.error.UnregisteredEnv as error:
            raise _unknown(name) from error
        except gym.error.DeprecatedEnv as error:
            newest = max(
                each for each in gymnasium_ids() if each.partition("-v")[0] == name.partition("-v")[0]
            )
            raise InvalidArgumentError(
                f"{name!r} is out of date.", argument="env", remedy=f"Did you mean {newest!r}?"
            ) from error
        except gym.error.DependencyNotInstalled as error:
            raise MissingExtraError(
                f"{name} needs a package that is not installed: {one_line(error)}"
            ) from error
        except ModuleNotFoundError as error:
            raise _not_imported(name, error) from error
        except Exception as error:
            _check_arguments(name, arguments)
            raise InvalidArgumentError(
                f"{name} cannot be made with these arguments: {type(error).__name__}: {one_line(error)}.",
                argument="settings",
                remedy=parse_text("Leave `settings` out to make it as it is registered.")
                if arguments
                else "",
            ) from error
    for text in dict.fromkeys(one_line(warning.message) for warning in caught):
        print_message(f"warning: {text}", style="yellow")


def _not_imported(name: str, error: ModuleNotFoundError) -> RhocoverError:
    """Returns the error for `module:Name-v0` or for an environment that imports what is not there."""
    module, _, rest = name.rpartition(":")
    without = f" Did you mean {rest!r}, without a module?" if module and rest in gymnasium_ids() else ""
    lacks = one_line(error).partition(". ")[0].rstrip(".")
    return InvalidArgumentError(
        f"{name!r} cannot be imported: {lacks}.", argument="env",
        remedy=f"Install the package, or go to the folder of the module.{without}",
    )  # fmt: skip


def _check_arguments(name: str, arguments: Mapping[str, Any]) -> None:
    """Raises if an environment has no argument of a name that was given, with the names that it has."""
    import gymnasium as gym

    try:
        creator: Any = gym.envs.registration.load_env_creator(gym.spec(name).entry_point)  # type: ignore[arg-type]
        parameters = inspect.signature(creator).parameters
    except Exception:  # whatever it raises, the environment's own error is shown
        return
    known = [each for each in parameters if each not in ("self", "args", "kwargs")]
    open_ended = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    unknown = [each for each in arguments if each not in (*known, "max_episode_steps")]
    if unknown and not open_ended:
        raise unknown_name(f"argument of {name}", unknown[0], known, argument="settings")


def gymnasium_ids() -> list[str]:
    """Returns the ids of all environments that are registered in Gymnasium."""
    import gymnasium as gym

    return [entry for entry in gym.registry if not entry.startswith("GymV2")]


def _unknown(name: str) -> RhocoverError:
    """Returns the error for an id that is not registered in Gymnasium, with similar ids."""
    from rhocover import envs

    if name in envs.names():
        return InvalidArgumentError(
            f"{name!r} is a model of rhocover, not a Gymnasium environment.",
            argument="env",
            remedy=f"Use: rhocover explore {name}",
        )
    known = gymnasium_ids()
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if near:
        return UnknownNameError(
            f"unknown environment {name!r}. Did you mean {' or '.join(map(repr, near))}? If it is in another "
            f"package, put the package first: PACKAGE:{name}",
            argument="env",
        )
    return UnknownNameError(
        f"unknown environment {name!r}. Known to Gymnasium: {', '.join(known[:NAMED])} and "
        f"{len(known) - NAMED} more. If it is in another package, put the package first: PACKAGE:{name}",
        argument="env",
    )


def close(world: Any) -> None:
    """Closes an environment; a failure is only a warning, because the work is done."""
    try:
        world.close()
    except (Exception, GeneratorExit, SystemExit) as error:
        from rhocover.collecting.state_index import shown_as

        said = " ".join(shown_as(error, str).split())
        print_message(
            f"warning: the environment could not be closed: {type(error).__name__}: {said}", style="yellow"
        )
