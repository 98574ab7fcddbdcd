"""Parsing of command-line text: models, weights, orders and stopping rules.

Errors name the option that is wrong.
"""

from __future__ import annotations

import difflib
import math
import os
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from rhocover import checks, envs, weights
from rhocover.checks import FloatArray
from rhocover.cli.imports import import_function, is_import
from rhocover.cli.places import Place, close, gymnasium_ids, is_environment, parse_arguments
from rhocover.coverage import Coverage, checked_weights
from rhocover.errors import (
    InvalidArgumentError,
    Text,
    UnknownNameError,
    naming,
    parse_text,
    shortened,
    unknown_name,
)
from rhocover.exploring.runs.spec import KNOWN
from rhocover.exploring.runs.stopping import CertifiedGap, EveryPair, SmallModelError
from rhocover.files import check_plain
from rhocover.learning.rules import RULES
from rhocover.mdp import MDP, NO_WEIGHTS
from rhocover.planning.problem import weights_of
from rhocover.printing import count_of

# Models, weights and orders.

WEIGHTS = weights.NAMED
MODEL_FILES = (".safetensors", ".npy", ".npz")
LEAST_RANDOM = 0.1  # of a random weight; the largest is 1
MOST_NPY = 2**30  # bytes of a table of weights: at most 2^26 pairs are supported, of 8 bytes each
MOST_MODEL = 2**33  # bytes of P[s, a, s_next]; a larger model is stored as a sparse one
MOST_CSV = 2**27  # bytes: a number of two characters takes eight bytes in memory
NAMED_MODELS = "`rhocover envs` lists the named models."


def parse_model(env: str, settings: Sequence[str]) -> tuple[MDP, dict[str, Any]]:
    """Returns the model and all its parameters.

    `env` is a name of the registry, a file that `MDP.save` wrote, an array `P[s, a, s_next]` in a .npy or
    .npz file, or the id of a Gymnasium environment with a table of its transitions.
    """
    if is_environment(env) and env not in envs.names() and not Path(env).exists():
        arguments = parse_arguments(settings)
        return _model_of_table(Place(env, arguments)), arguments
    if env in envs.names() or not _is_path(env):
        _check_name(env)
        parameters = envs.parameters(env) | envs.parse_parameters(env, settings)
        return _make(env, parameters), parameters
    if settings:
        raise InvalidArgumentError.of(
            "settings", f"is for named models, and {env!r} is a file", remedy="Leave it out."
        )
    return _read_model(Path(env)), {}


def _is_path(text: str) -> bool:
    return os.sep in text or "." in text or Path(text).is_file()


def _check_name(env: str) -> None:
    """Raises for an unknown name, with similar ones, also of Gymnasium environments."""
    if env in envs.names():
        return
    ids = [known for known in gymnasium_ids() if known.partition("-v")[0] == env]
    if ids:
        raise UnknownNameError(
            f"unknown environment {env!r}.",
            argument="env",
            remedy=f"Did you mean {' or '.join(map(repr, ids))}?",
        )
    raise unknown_name("environment", env, envs.names(), argument="env")


def _model_of_table(place: Place) -> MDP:
    """Returns the model of an environment's table; without one, the error says how to learn it."""
    env = place.make_one()
    try:
        if hasattr(env.unwrapped, "P"):
            return MDP.from_gymnasium(env)
        from rhocover.environments.encoding.advice import learning_options

        raise InvalidArgumentError(
            f"{place.name} has no table of its transitions, so its model is not known.",
            argument="env",
            remedy=f"Learn it while exploring: {place.command('explore')} {learning_options(env)}",
        )
    finally:
        close(env)


def _read_model(path: Path) -> MDP:
    suffix = path.suffix.lower()
    if path.is_file() and suffix not in MODEL_FILES:
        raise InvalidArgumentError.of(
            "env",
            f"must be a file that ends in {', '.join(MODEL_FILES)}",
            repr(str(path)),
            remedy=NAMED_MODELS,
        )
    if not path.is_file():
        raise no_file("env", path, MODEL_FILES, NAMED_MODELS)
    if suffix == ".safetensors":
        return MDP.load(path)
    with naming(path):
        return MDP(read_array(path, "env", "P"), name=path.stem)


def no_file(argument: str, path: Path, suffixes: Sequence[str], otherwise: Text) -> InvalidArgumentError:
    """Returns the error for a file that is not there, with one of the same kind that is."""
    there = {each.stem: each for each in sorted(path.parent.glob("*")) if each.suffix.lower() in suffixes}
    near = difflib.get_close_matches(path.stem, there, n=1, cutoff=0.6)
    remedy = f"Did you mean {str(there[near[0]])!r}?" if near else otherwise
    return InvalidArgumentError.of(argument, f": there is no file {str(path)!r}", remedy=remedy)


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
        raise InvalidArgumentError.of("rho", f"has {format_order(twice[0])} twice", remedy="Give it once.")
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
    if is_import(spec):
        return weights_of(mdp, import_function(spec, "mu"))
    if Path(spec).suffix.lower() in (".npy", ".csv"):
        return _table(Path(spec), mdp)
    raise unknown_weights(spec, [*WEIGHTS, "random:SEED"])


def _table(path: Path, mdp: MDP) -> FloatArray:
    """Returns the weights in a file."""
    with naming(path):
        table = read_array(path)
        try:
            checks.check_shape(np.shape(table), "mu", (mdp.num_states, mdp.num_actions))
            return checked_weights(checks.float_array(table, "mu"), "mu")
        except InvalidArgumentError as error:
            error.add_remedy(NO_WEIGHTS)
            raise


def unknown_weights(spec: str, known: Sequence[str]) -> UnknownNameError:
    """Returns the error for weights that --mu does not know."""
    listed = [*known, "FILE.npy", "FILE.csv", "module:name"]
    near = difflib.get_close_matches(spec, known, n=1, cutoff=0.5) or ["uniform"]
    return UnknownNameError(
        parse_text(f"unknown weights for `mu`: {spec!r}."),
        argument="mu",
        remedy=parse_text(f"Known: {', '.join(listed)}. Pass `mu={near[0]}`, for example."),
    )


def parse_mu(spec: str, mdp: MDP, model: str) -> Any:
    """Returns the argument `mu` of `explore`: None for equal weights, an array, or a rule.

    Weights that depend on the transitions are a rule if the model is not known: they are estimated. A
    function that was named is a rule in any case.
    """
    if spec == "uniform":
        return None
    if is_import(spec):
        return import_function(spec, "mu")
    return spec if model != KNOWN and spec in RULES else parse_weights(spec, mdp)


def _random_weights(seed: str, mdp: MDP) -> FloatArray:
    """Returns weights uniform in [0.1, 1], drawn pair by pair."""
    try:
        rng = np.random.default_rng(int(seed))
    except ValueError as error:
        raise InvalidArgumentError.of(
            "mu",
            "random:SEED needs a whole number that is not negative",
            repr(seed),
            remedy="Such as --mu random:0.",
        ) from error
    return mdp.table(rng.uniform(LEAST_RANDOM, 1.0, mdp.num_pairs))


def read_array(path: Path, argument: str = "mu", member: str = "") -> Any:
    """Returns the array of numbers in a file; `member` is the name of the one in a .npz file."""
    if not path.is_file():
        raise no_file(argument, path, (".npy", ".csv"), NO_WEIGHTS)
    try:
        return _read(path, member)
    except Exception as error:  # NumPy's errors for files that hold no array have no common class
        reason = shortened(str(error).partition("\n")[0].rstrip(".") or type(error).__name__)
        raise InvalidArgumentError.of(
            argument, f": {str(path)!r} does not hold an array of numbers: {reason}"
        ) from error


def _read(path: Path, member: str) -> Any:
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return _read_npz(path, member)
    if suffix == ".csv":
        return _read_csv(path)
    size = _check_bytes(path, MOST_MODEL if member else MOST_NPY)
    with path.open("rb") as file:
        return _read_npy(file, size)


def _check_bytes(path: Path, most: int) -> int:
    """Returns the size of a file; raises if it is larger than any table of weights or probabilities."""
    if (size := check_plain(path)) > most:
        raise ValueError(f"it has {size} bytes, expected at most {most}")
    return size


def _read_npy(file: IO[bytes], size: int) -> Any:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, form = read(file)
    if math.prod(shape) * form.itemsize > size:
        raise ValueError(f"it claims shape {shape} in {size} bytes")
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)


def _read_npz(path: Path, member: str) -> Any:
    _check_bytes(path, MOST_MODEL)
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        if member not in names:
            has = shortened(", ".join(names)) or "none"
            raise ValueError(
                f"it has no array {member!r}, but {has}; save it with numpy.savez(FILE, {member}=...)"
            )
        claimed = archive.getinfo(f"{member}.npy").file_size
        if claimed > MOST_MODEL:
            raise ValueError(f"its {member!r} claims {claimed} bytes, expected at most {MOST_MODEL}")
        with archive.open(f"{member}.npy") as file:
            return _read_npy(file, claimed)


def _read_csv(path: Path) -> Any:
    _check_bytes(path, MOST_CSV)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about an empty file; its shape is checked later
        return np.loadtxt(path, delimiter=",", ndmin=2, encoding="utf-8")


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
        first, second, *_ = given
        raise InvalidArgumentError.of(
            second, parse_text(f"cannot be combined with `{first}`"), remedy="Leave it out."
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
