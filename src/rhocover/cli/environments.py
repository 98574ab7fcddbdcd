"""A Gymnasium environment from what was typed: its id, its arguments, how many copies of it.

An id may name a module to import first, `module:Name-v0`, as Gymnasium has it: the code is the user's own,
and it is the user who typed its name. No file ever says which environment is made.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rhocover.cli.tables import say
from rhocover.cli.words import one_line
from rhocover.errors import InvalidArgumentError, MissingExtraError, RhocoverError, UnknownNameError

ID = re.compile(r"([\w.]+:)?([\w-]+/)*[\w.-]+-v\d+")
NAMED = 8  # ids in a message


def is_environment(text: str) -> bool:
    """Whether a text looks like the id of a Gymnasium environment: it ends in a version."""
    return ID.fullmatch(text) is not None


def read_arguments(settings: Sequence[str]) -> dict[str, Any]:
    """Returns `["map_name=8x8", "is_slippery=true"]` as values: JSON where it is JSON, else text."""
    result: dict[str, Any] = {}
    for text in settings:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name.isidentifier():
            raise InvalidArgumentError(f"--set must be NAME=VALUE, got {text!r}.")
        if name in result:
            raise InvalidArgumentError(f"--set {name} is given twice.")
        result[name] = _value(value)
    return result


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {"True": True, "False": False, "None": None}.get(text, text)


@dataclass(frozen=True)
class Place:
    """An environment as it was typed. `num_envs` copies are one vector environment; None is a single one."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    num_envs: int | None = None
    max_episode_steps: int | None = None

    def make(self) -> Any:
        """Returns the environment, or the vector of its copies."""
        return self.make_one() if self.num_envs is None else self._make_many(self.num_envs)

    def make_one(self) -> Any:
        """Returns one environment, also where many were asked for."""
        import gymnasium as gym

        with _explained(self.name):
            return gym.make(self.name, **self._all())

    def _make_many(self, num_envs: int) -> Any:
        """Returns copies that step one after the other: the same environment as a single one."""
        import gymnasium as gym

        with _explained(self.name):
            return gym.make_vec(self.name, num_envs, vectorization_mode="sync", **self._all())

    def _all(self) -> dict[str, Any]:
        limit = {} if self.max_episode_steps is None else {"max_episode_steps": self.max_episode_steps}
        return self.arguments | limit


def read_place(
    name: str, settings: Sequence[str], num_envs: int | None = None, max_episode_steps: int | None = None
) -> Place:
    """Returns the environment that was typed; refuses what is wrong with the texts."""
    for value, option in ((num_envs, "num-envs"), (max_episode_steps, "max-episode-steps")):
        if value is not None and value < 1:
            raise InvalidArgumentError(f"--{option} must be at least 1, got {value}.")
    return Place(name, read_arguments(settings), num_envs, max_episode_steps)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Says what is wrong with an id or with arguments in our words; passes warnings on, one line each."""
    import gymnasium as gym

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except gym.error.UnregisteredEnv as error:
            raise _unknown(name) from error
        except gym.error.DeprecatedEnv as error:
            raise InvalidArgumentError(f"{name} is out of date: {one_line(error)}") from error
        except gym.error.DependencyNotInstalled as error:
            raise MissingExtraError(
                f"{name} needs a package that is not installed: {one_line(error)}"
            ) from error
        except ModuleNotFoundError as error:
            raise InvalidArgumentError(f"{name} cannot be imported: {one_line(error)}.") from error
        except Exception as error:
            raise InvalidArgumentError(
                f"{name} cannot be made with these arguments: {type(error).__name__}: {one_line(error)}"
            ) from error
    for text in dict.fromkeys(one_line(warning.message) for warning in caught):
        say(f"warning: {text}", style="yellow")


def _unknown(name: str) -> RhocoverError:
    """Returns the error for an id that Gymnasium does not have, with the near ones."""
    import difflib

    import gymnasium as gym

    from rhocover import envs

    if name in envs.names():
        return InvalidArgumentError(
            f"{name!r} is a model of rhocover, no Gymnasium environment. Act in it: rhocover explore {name}"
        )
    known = [entry for entry in gym.registry if not entry.startswith("GymV2")]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if near:
        return UnknownNameError(
            f"unknown environment {name!r}. Did you mean {' or '.join(map(repr, near))}? If another package "
            f"brings it, name that before it: PACKAGE:{name}"
        )
    return UnknownNameError(
        f"unknown environment {name!r}. Known to Gymnasium: {', '.join(known[:NAMED])} and "
        f"{len(known) - NAMED} more. If another package brings it, name that before it: PACKAGE:{name}"
    )


def close(world: Any) -> None:
    """Closes an environment; one that fails in it takes nothing away from what was done."""
    try:
        world.close()
    except (Exception, GeneratorExit, SystemExit) as error:
        from rhocover.collecting.naming import looks

        said = " ".join(looks(error, str).split())
        say(f"warning: the environment could not be closed: {type(error).__name__}: {said}", style="yellow")
