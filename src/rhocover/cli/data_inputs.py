"""Texts into values for the commands about data: states, actions, weights, and where the data is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rhocover.errors import InvalidArgumentError

STATES_SPEC = "bins:12,11, bins:12,11@-1.2:0.6,-0.07:0.07 or quantiles:12,11"


def read_states(text: str | None, make_env: Callable[[], Any] | None, seed: int = 0) -> Any:
    """Returns what `states` is in Python; quantiles are those of a pilot run in an environment of its own."""
    if text is None:
        return None
    from rhocover.adapters.bins import Bins, QuantileBins

    kind, _, rest = text.partition(":")
    counts, at, bounds = rest.partition("@")
    if kind not in ("bins", "quantiles") or not counts or (at and (kind == "quantiles" or not bounds)):
        raise InvalidArgumentError(f"--states must be like {STATES_SPEC}, got {text!r}.")
    numbers = _one_or_many(_whole_numbers(counts, "--states"))
    if kind == "bins":
        low, high = _bounds(bounds, text) if at else (None, None)
        return Bins(numbers, low, high)
    if make_env is None:
        raise InvalidArgumentError(
            "--states quantiles:... needs an environment for its pilot run. Pass bins:..."
        )
    return _fitted(QuantileBins(numbers), make_env(), seed)


def _fitted(bins: Any, env: Any, seed: int) -> Any:
    from rhocover.adapters.pilot import pilot_observations
    from rhocover.cli.environments import close

    try:
        return bins.fit(pilot_observations(env, bins.pilot_steps, seed))
    finally:
        close(env)


def read_actions(text: str | None) -> Any:
    """Returns what `actions` is in Python."""
    return None if text is None else _one_or_many(_whole_numbers(text, "--actions"))


def _whole_numbers(text: str, option: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InvalidArgumentError(
            f"{option} needs whole numbers with commas between them, got {text!r}."
        ) from None


def _one_or_many(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else tuple(values)


def _bounds(text: str, spec: str) -> tuple[Any, Any]:
    """Returns the low and the high ends; one that is left out is the space's own."""
    ends = [part.split(":") for part in text.split(",")]
    try:
        if any(len(pair) != 2 for pair in ends):
            raise ValueError
        lows, highs = ([float(end) if end else None for end in side] for side in zip(*ends, strict=True))
    except ValueError:
        raise InvalidArgumentError(f"--states must be like {STATES_SPEC}, got {spec!r}.") from None
    return _one_or_many(lows), _one_or_many(highs)


def read_data_mu(spec: str) -> Any:
    """Returns what `mu` is in Python: None for equal weights, the name of a rule, or weights `[S, A]`."""
    from rhocover.cli.inputs import read_array
    from rhocover.errors import unknown_name
    from rhocover.learning.rules import RULES

    if spec == "uniform" or spec in RULES:
        return None if spec == "uniform" else spec
    if Path(spec).suffix.lower() in (".npy", ".csv"):
        return read_array(Path(spec))
    raise unknown_name("weights for --mu", spec, ["uniform", *RULES, "FILE.npy", "FILE.csv"])


@contextmanager
def spelled(words: Mapping[str, str]) -> Iterator[None]:
    """Says arguments that have another name on the command line by that name."""
    try:
        yield
    except InvalidArgumentError as error:
        text = str(error)
        for python, typed in words.items():
            text = text.replace(python, typed)
        error.args = (text, *error.args[1:])
        raise
