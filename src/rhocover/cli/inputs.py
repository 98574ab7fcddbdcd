"""Texts into values: which model, which weights, which orders. Whatever is wrong is said by its option."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rhocover import checks, envs, weights
from rhocover.checks import FloatArray
from rhocover.cli.environments import Place, is_environment, read_arguments
from rhocover.coverage import Coverage, checked_weights
from rhocover.errors import InvalidArgumentError, naming, shortened, unknown_name
from rhocover.exploring.models import KNOWN
from rhocover.learning.rules import RULES
from rhocover.mdp import MDP
from rhocover.plain_files import check_plain

WEIGHTS = {
    "uniform": weights.uniform,
    "transition_std": weights.transition_std,
    "model_error": weights.model_error,
}
LEAST_RANDOM = 0.1  # of a random weight; the largest is 1
MOST_NPY = 2**30  # bytes of a table of weights: 2^26 pairs can be counted, of 8 bytes each
MOST_CSV = 2**27  # bytes: a number of two letters takes eight when it is read


def read_model(env: str, settings: Sequence[str]) -> tuple[MDP, dict[str, Any]]:
    """Returns the model and all its parameters.

    `env` is a name of the registry, a file that `MDP.save` wrote, or the id of a Gymnasium environment with a
    table of its transitions.
    """
    if is_environment(env) and env not in envs.names() and not Path(env).exists():
        arguments = read_arguments(settings)
        return MDP.from_gymnasium(Place(env, arguments).make_one()), arguments
    if env in envs.names() or not _is_path(env):
        parameters = envs.parameters(env) | envs.parse_parameters(env, settings)
        return _make(env, parameters), parameters
    if settings:
        raise InvalidArgumentError(f"--set goes with a named environment; {env!r} is a file.")
    return MDP.load(env), {}


def _is_path(text: str) -> bool:
    return os.sep in text or "." in text or Path(text).is_file()


def _make(env: str, parameters: dict[str, Any]) -> MDP:
    try:
        return envs.make(env, **parameters)
    except InvalidArgumentError:
        raise
    except (ValueError, OverflowError) as error:  # what NumPy says to sizes that it cannot index
        raise InvalidArgumentError(f"{env} cannot be built with these parameters: {error}.") from error


def read_orders(texts: Sequence[float]) -> list[float]:
    """Returns the values of rho, each in [0, inf] and given once."""
    orders = [Coverage(rho, np.ones(1)).rho + 0.0 for rho in texts]  # + 0.0 makes 0 of -0
    twice = [rho for k, rho in enumerate(orders) if rho in orders[:k]]
    if twice:
        raise InvalidArgumentError(f"--rho {order_text(twice[0])} is given twice.")
    return orders


def order_text(rho: float) -> str:
    """Returns rho as it is typed, exactly: 2, 0.5, inf."""
    return repr(rho).removesuffix(".0")


def read_weights(spec: str, mdp: MDP) -> FloatArray:
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
    raise unknown_name("weights for --mu", spec, [*WEIGHTS, "random:SEED", "FILE.npy", "FILE.csv"])


def read_mu(spec: str, mdp: MDP, model: str) -> FloatArray | str | None:
    """Returns what `explore` takes for `--mu`: None for equal weights, weights, or the name of a rule.

    Weights that depend on the transitions are a rule where those are not known: it learns them.
    """
    if spec == "uniform":
        return None
    return spec if model != KNOWN and spec in RULES else read_weights(spec, mdp)


def _random_weights(seed: str, mdp: MDP) -> FloatArray:
    """Returns weights uniform in [0.1, 1], drawn pair by pair."""
    try:
        rng = np.random.default_rng(int(seed))
    except ValueError as error:
        raise InvalidArgumentError(
            f"--mu random:SEED needs a whole number of 0 or more, got {seed!r}."
        ) from error
    return mdp.table(rng.uniform(LEAST_RANDOM, 1.0, mdp.num_pairs))


def read_array(path: Path) -> Any:
    """Returns the array of numbers in a file of --mu."""
    if not path.is_file():
        raise InvalidArgumentError(f"`mu`: there is no file {str(path)!r}.")
    read = _read_npy if path.suffix.lower() == ".npy" else _read_csv
    try:
        return read(path)
    except Exception as error:  # what NumPy raises on a file that is no array has no common class
        reason = shortened(str(error).partition("\n")[0].rstrip(".") or type(error).__name__)
        raise InvalidArgumentError(
            f"`mu`: {str(path)!r} does not hold an array of numbers: {reason}."
        ) from error


def _check_bytes(path: Path, most: int) -> int:
    """Returns the size of a file; refuses a larger one than weights can be."""
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
        warnings.simplefilter("ignore")  # of an empty file; its shape is refused later
        return np.loadtxt(path, delimiter=",", ndmin=2, encoding="utf-8")
