"""Parsing of `--cover`, `--at-most` and `--at-least`: what `plan` covers, and under which conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rhocover.checks import number
from rhocover.cli.imports import import_function, is_import
from rhocover.cli.parsing import parse_weights, read_array
from rhocover.errors import InvalidArgumentError, UnknownNameError, naming
from rhocover.mdp import MDP
from rhocover.planning import Condition, at_least, at_most
from rhocover.planning.cover import NAMES, PAIRS, VISITS

TABLES = (".npy", ".csv")


def parse_cover(spec: str) -> Any:
    """Returns the argument `cover` of `plan`: a name, or the labels or the matrix in a file."""
    if Path(spec).suffix.lower() in TABLES:
        return _flat(read_array(Path(spec), "cover"))
    if spec not in NAMES:
        raise UnknownNameError(
            f"unknown groups {spec!r}.",
            argument="cover",
            remedy=f"Known: {', '.join(NAMES)}, FILE.npy, FILE.csv. Pass --cover states, for example.",
        )
    return spec


def parse_group_weights(spec: str, mdp: MDP, cover: Any) -> Any:
    """Returns the argument `mu` of `plan`: of pairs as for them alone, or one weight per group."""
    if spec == "uniform":
        return None
    if isinstance(cover, str) and cover in (PAIRS, VISITS):
        return parse_weights(spec, mdp)
    if is_import(spec):
        return import_function(spec, "mu")
    return _flat(read_array(Path(spec))) if Path(spec).suffix.lower() in TABLES else spec


def parse_conditions(most: Sequence[str] | None, least: Sequence[str] | None) -> list[Condition]:
    """Returns the conditions that are typed as FILE.npy:LIMIT."""
    return [
        *(_condition(text, "at_most", at_most) for text in most or ()),
        *(_condition(text, "at_least", at_least) for text in least or ()),
    ]


def _condition(text: str, option: str, make: Callable[..., Condition]) -> Condition:
    file, _, limit = text.rpartition(":")
    try:
        value = number(float(limit), option)
    except ValueError as error:
        raise InvalidArgumentError.of(
            option, "must be FILE.npy:LIMIT or FILE.csv:LIMIT", repr(text), remedy="Such as cost.npy:0.4."
        ) from error
    with naming(file):
        return make(_flat(read_array(Path(file), option)), value, name=Path(file).stem)


def _flat(array: Any) -> Any:
    """Returns a column of a .csv file as a vector."""
    return array[:, 0] if getattr(array, "ndim", 0) == 2 and array.shape[1] == 1 else array
