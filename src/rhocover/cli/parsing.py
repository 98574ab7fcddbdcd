"""Parsing of command-line text: environments, models, weights, orders, encodings and stopping rules.

Errors name the option that is wrong. The id of a Gymnasium environment may name a module to import first,
`module:Name-v0`, as in Gymnasium: the user typed its name and trusts its code. Files never decide which
environment is made.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rhocover import checks, envs, weights
from rhocover.checks import FloatArray
from rhocover.cli.output import one_line, print_message
from rhocover.coverage import Coverage, checked_weights
from rhocover.errors import (
    InvalidArgumentError,
    MissingExtraError,
    RhocoverError,
    UnknownNameError,
    calling,
    naming,
    parse_text,
    shortened,
    unknown_name,
)
from rhocover.exploring.runs.spec import KNOWN
from rhocover.exploring.runs.stopping import CertifiedGap, EveryPair, SmallModelError
from rhocover.files import check_plain
from rhocover.learning.rules import RULES
from rhocover.mdp import MDP
from rhocover.printing import count_of

# Gymnasium environments: the id, the arguments, the number of copies.

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
            raise InvalidArgumentError(f"--set must be NAME=VALUE, got {text!r}.", argument="settings")
        if name in result:
            raise InvalidArgumentError(f"--set {name} is given twice.", argument="settings")
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
    read: str | None = None
    level: int | None = None

    def make(self) -> Any:
        """Returns the environment, or the vector of its copies."""
        return self.make_one() if self.num_envs is None else self._make_many(self.num_envs)

    def make_one(self) -> Any:
        """Returns a single environment, even if `num_envs` is given."""
        import gymnasium as gym

        with _explained(self.name):
            env = gym.make(self.name, **self._all())
        return self._reading(env)

    def _make_many(self, num_envs: int) -> Any:
        """Returns copies that step one after the other and behave like a single environment."""
        import gymnasium as gym

        with _explained(self.name):
            wrappers = [self._reading]
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

    def _all(self) -> dict[str, Any]:
        limit = {} if self.max_episode_steps is None else {"max_episode_steps": self.max_episode_steps}
        return self.arguments | limit


def parse_place(
    name: str, settings: Sequence[str], num_envs: int | None = None, max_episode_steps: int | None = None,
    read: str | None = None, level: int | None = None,
) -> Place:  # fmt: skip
    """Returns the environment that was typed, checked."""
    if level is not None and read is None:
        raise InvalidArgumentError("--level needs --read, which fixes it.", argument="level")
    for value, argument in ((num_envs, "num_envs"), (max_episode_steps, "max_episode_steps")):
        if value is not None and value < 1:
            option = argument.replace("_", "-")
            raise InvalidArgumentError(f"--{option} must be at least 1, got {value}.", argument=argument)
    return Place(name, parse_arguments(settings), num_envs, max_episode_steps, read, level)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turns errors of Gymnasium into ours, and prints its warnings, one line each."""
    import gymnasium as gym

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except gym.error.UnregisteredEnv as error:
            raise _unknown(name) from error
        except gym.error.DeprecatedEnv as error:
            raise InvalidArgumentError(f"{name} is out of date: {one_line(error)}", argument="env") from error
        except gym.error.DependencyNotInstalled as error:
            raise MissingExtraError(
                f"{name} needs a package that is not installed: {one_line(error)}"
            ) from error
        except ModuleNotFoundError as error:
            raise InvalidArgumentError(
                f"{name} cannot be imported: {one_line(error)}.", argument="env"
            ) from error
        except Exception as error:
            raise InvalidArgumentError(
                f"{name} cannot be made with these arguments: {type(error).__name__}: {one_line(error)}",
                argument="env",
            ) from error
    for text in dict.fromkeys(one_line(warning.message) for warning in caught):
        print_message(f"warning: {text}", style="yellow")


def _unknown(name: str) -> RhocoverError:
    """Returns the error for an id that is not registered in Gymnasium, with similar ids."""
    import difflib

    import gymnasium as gym

    from rhocover import envs

    if name in envs.names():
        return InvalidArgumentError(
            f"{name!r} is a model of rhocover, not a Gymnasium environment. Use: rhocover explore {name}",
            argument="env",
        )
    known = [entry for entry in gym.registry if not entry.startswith("GymV2")]
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


# Models, weights and orders.

WEIGHTS = {
    "uniform": weights.uniform,
    "transition_std": weights.transition_std,
    "model_error": weights.model_error,
}
LEAST_RANDOM = 0.1  # of a random weight; the largest is 1
MOST_NPY = 2**30  # bytes of a table of weights: at most 2^26 pairs are supported, of 8 bytes each
MOST_CSV = 2**27  # bytes: a number of two characters takes eight bytes in memory


def parse_model(env: str, settings: Sequence[str]) -> tuple[MDP, dict[str, Any]]:
    """Returns the model and all its parameters.

    `env` is a name of the registry, a file that `MDP.save` wrote, or the id of a Gymnasium environment with a
    table of its transitions.
    """
    if is_environment(env) and env not in envs.names() and not Path(env).exists():
        arguments = parse_arguments(settings)
        return MDP.from_gymnasium(Place(env, arguments).make_one()), arguments
    if env in envs.names() or not _is_path(env):
        parameters = envs.parameters(env) | envs.parse_parameters(env, settings)
        return _make(env, parameters), parameters
    if settings:
        raise InvalidArgumentError(
            f"--set needs a named environment; {env!r} is a file.", argument="settings"
        )
    return MDP.load(env), {}


def _is_path(text: str) -> bool:
    return os.sep in text or "." in text or Path(text).is_file()


def _make(env: str, parameters: dict[str, Any]) -> MDP:
    try:
        return envs.make(env, **parameters)
    except InvalidArgumentError:
        raise
    except (ValueError, OverflowError) as error:  # what NumPy raises for sizes that it cannot index
        raise InvalidArgumentError(
            f"{env} cannot be built with these parameters: {error}.", argument="settings"
        ) from error


def parse_orders(texts: Sequence[float]) -> list[float]:
    """Returns the values of rho, each in [0, inf] and given once."""
    orders = [Coverage(rho, np.ones(1)).rho + 0.0 for rho in texts]  # + 0.0 turns -0 into 0
    twice = [rho for k, rho in enumerate(orders) if rho in orders[:k]]
    if twice:
        raise InvalidArgumentError(f"--rho {format_order(twice[0])} is given twice.", argument="rho")
    return orders


def format_order(rho: float) -> str:
    """Returns rho as it is typed, exactly: 2, 0.5, inf."""
    return repr(rho).removesuffix(".0")


def parse_weights(spec: str, mdp: MDP) -> FloatArray:
    """Returns the weights `[S, A]` that `--mu` describes."""
    if spec in WEIGHTS:
        return WEIGHTS[spec](mdp)
    name, _, seed = spec.partition(":")
    if name == "random":
        return _random_weights(seed, mdp)
    if Path(spec).suffix.lower() in (".npy", ".csv"):
        with naming(spec):
            table = checks.float_array(read_array(Path(spec)), "mu", (mdp.num_states, mdp.num_actions))
            return checked_weights(table, "mu")
    known = [*WEIGHTS, "random:SEED", "FILE.npy", "FILE.csv"]
    raise unknown_name("weights for --mu", spec, known, argument="mu")


def parse_mu(spec: str, mdp: MDP, model: str) -> FloatArray | str | None:
    """Returns the argument `mu` of `explore`: None for equal weights, an array, or the name of a rule.

    Weights that depend on the transitions are a rule if the model is not known: they are estimated.
    """
    if spec == "uniform":
        return None
    return spec if model != KNOWN and spec in RULES else parse_weights(spec, mdp)


def _random_weights(seed: str, mdp: MDP) -> FloatArray:
    """Returns weights uniform in [0.1, 1], drawn pair by pair."""
    try:
        rng = np.random.default_rng(int(seed))
    except ValueError as error:
        raise InvalidArgumentError(
            f"--mu random:SEED needs a non-negative whole number, got {seed!r}.", argument="mu"
        ) from error
    return mdp.table(rng.uniform(LEAST_RANDOM, 1.0, mdp.num_pairs))


def read_array(path: Path) -> Any:
    """Returns the array of numbers in a file of --mu."""
    if not path.is_file():
        raise InvalidArgumentError.of("mu", f": there is no file {str(path)!r}")
    read = _read_npy if path.suffix.lower() == ".npy" else _read_csv
    try:
        return read(path)
    except Exception as error:  # NumPy's errors for files that hold no array have no common class
        reason = shortened(str(error).partition("\n")[0].rstrip(".") or type(error).__name__)
        raise InvalidArgumentError.of(
            "mu", f": {str(path)!r} does not hold an array of numbers: {reason}"
        ) from error


def _check_bytes(path: Path, most: int) -> int:
    """Returns the size of a file; raises if it is larger than any table of weights."""
    if (size := check_plain(path)) > most:
        raise ValueError(f"it has {size} bytes, expected at most {most}")
    return size


def _read_npy(path: Path) -> Any:
    size = _check_bytes(path, MOST_NPY)
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, form = read(file)
        if math.prod(shape) * form.itemsize > size:
            raise ValueError(f"it claims shape {shape} in {size} bytes")
        file.seek(0)
        return np.lib.format.read_array(file, allow_pickle=False)


def _read_csv(path: Path) -> Any:
    _check_bytes(path, MOST_CSV)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about an empty file; its shape is checked later
        return np.loadtxt(path, delimiter=",", ndmin=2, encoding="utf-8")


# States, actions and weights of the commands about data.

UNFITTED: Any = object()  # instead of an environment: a code is returned as it is, for every run to fit
STATES_SPEC = "bins:12,11, bins:12,11@-1.2:0.6,-0.07:0.07, quantiles:12,11, net or net:0.5"


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
    from rhocover.environments.encoding.bins import Bins, QuantileBins

    kind, _, rest = text.partition(":")
    counts, at, bounds = rest.partition("@")
    if kind not in ("bins", "quantiles") or not counts or (at and (kind == "quantiles" or not bounds)):
        raise _misspelled(text, option)
    numbers = _one_or_many(_whole_numbers(counts, option))
    if kind == "bins":
        low, high = _bounds(bounds, text, option) if at else (None, None)
        return Bins(numbers, low, high)
    return _fitted(QuantileBins(numbers), f"{option} quantiles:...", make_env, seed)


def _misspelled(text: str, option: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{option} must be like {STATES_SPEC}, got {text!r}.", argument=_argument(option)
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
        raise InvalidArgumentError(
            f"{typed} needs an environment for its random rollout. Pass bins:...",
            argument=_argument(typed.partition(" ")[0]),
        )
    env = make_env()
    try:
        return code.fit(random_rollout(env, code.rollout_steps, seed))
    finally:
        close(env)


def parse_actions(text: str | None) -> Any:
    """Returns the argument `actions`."""
    return None if text is None else _one_or_many(_whole_numbers(text, "--actions"))


def _whole_numbers(text: str, option: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InvalidArgumentError(
            f"{option} needs whole numbers separated by commas, got {text!r}.", argument=_argument(option)
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
    """Returns the argument `mu`: None for equal weights, the name of a rule, or weights `[S, A]`."""
    from rhocover.errors import unknown_name
    from rhocover.learning.rules import RULES

    if spec == "uniform" or spec in RULES:
        return None if spec == "uniform" else spec
    if Path(spec).suffix.lower() in (".npy", ".csv"):
        return read_array(Path(spec))
    known = ["uniform", *RULES, "FILE.npy", "FILE.csv"]
    raise unknown_name("weights for --mu", spec, known, argument="mu")


# Stopping rules: at most one of the `--until-` options, and one sentence about whether it was met.

Rule = EveryPair | CertifiedGap | SmallModelError
DELTA = 0.05
PREFIX = "until_"


def parse_delta(delta: Any, until: Any = None) -> float:
    """Returns delta in (0, 1); default: that of the stopping rule, or 0.05."""
    given = getattr(until, "delta", DELTA) if delta is None else delta
    return checks.probability(given, "delta", open_ends=True)


def parse_until(options: Mapping[str, Any], delta: float) -> Rule | None:
    """Returns the stopping rule, or None; raises if two are given."""
    given = {name: value for name, value in options.items() if value is not None}
    if len(given) > 1:
        names = " and ".join(f"`{name}`" for name in given)
        raise InvalidArgumentError(
            parse_text(f"{names} cannot be combined."),
            argument=next(iter(given)),
            remedy="Pass only one of them.",
        )
    for name, value in given.items():
        return _rule(name.removeprefix(PREFIX), value, delta)
    return None


def _rule(name: str, value: Any, delta: float) -> Rule:
    if name == "visits":
        return EveryPair(value)
    return CertifiedGap(value, delta) if name == "gap" else SmallModelError(value, delta)


def format_stop(until: Any, num_steps: int, budget: int, *, is_met: bool) -> str:
    """Returns whether a rule was met, and when; "" if there was none."""
    if until is None:
        return ""
    if is_met:
        return f"Stopped after {num_steps:,} of {count_of(budget, 'step', ',')}: {_goal(until)}."
    return f"The goal was not reached in {count_of(budget, 'step', ',')}: {_goal(until)}."


def _goal(until: Any) -> str:
    """Returns the condition of a stopping rule."""
    if isinstance(until, EveryPair):
        return f"every pair with positive weight was visited at least {count_of(until.visits, 'time', ',')}"
    if isinstance(until, CertifiedGap):
        return f"the certified gap is at most {until.gap:g} nats (delta = {until.delta:g})"
    return f"the model error is at most {until.error:g} (delta = {until.delta:g})"
