"""What of an observation a code looks at: some of its numbers, as a vector.

`of` is None (all numbers), component numbers, the name of a field of a dictionary ("achieved_goal"), a
function from an observation to a few numbers, a torch module (`modules`) or a trained encoder (`encoders`).
Of a dictionary all numbers are those of its fields in the order of their names; texts are left out, with one
warning.

`RandomFeatures` is such a function: a random linear map to k numbers, which keeps distances up to a factor of
about 1 ± sqrt(log(n)/k) for n observations (Johnson and Lindenstrauss 1984).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray
from rhocover.documents import to_document
from rhocover.environments.encoding.base import OutsideSpaceError, ask, function_name
from rhocover.environments.encoding.encoders import Encoder
from rhocover.environments.encoding.modules import ModuleFeatures, is_module
from rhocover.errors import InvalidArgumentError, RhocoverWarning

FIELD, RANDOM = "field:", "random:"  # before the name of a field, or size and seed, in a document


class FeatureReader:
    """Reads vectors from observations, one at a time or many."""

    def __init__(self, of: Callable[[Any], Any] | tuple[int, ...] | str | None = None) -> None:
        self.of = of
        self._function: Any = ModuleFeatures(of) if is_module(of) else of
        self._is_warned = False
        self.one = self._reader()

    def _reader(self) -> Callable[[Any], FloatArray]:
        of, function = self.of, self._function
        if isinstance(function, Encoder | ModuleFeatures):
            return function
        if callable(of):
            return lambda observation: _vector(ask(of, observation))
        if isinstance(of, str):
            return lambda observation: _vector(self._field(observation))
        if of is None:
            return self._whole
        places = list(of)
        return lambda observation: self._picked(observation, places)

    def pick(self, observation: Any) -> Any:
        """Returns the part of an observation, as it is."""
        if callable(self.of):
            return ask(self._function, observation)
        return self._field(observation) if isinstance(self.of, str) else observation

    def _whole(self, observation: Any) -> FloatArray:
        if type(observation) is np.ndarray and observation.dtype == np.float64 and observation.ndim == 1:
            return observation
        if isinstance(observation, Mapping):
            return self._joined(observation)
        return _vector(observation)

    def _joined(self, observation: Mapping[str, Any]) -> FloatArray:
        """Returns the numbers of all fields, by their names."""
        parts = {name: np.asarray(observation[name]) for name in sorted(observation)}
        texts = [name for name, part in parts.items() if part.dtype.kind not in "biuf"]
        if texts and not self._is_warned:
            self._is_warned = True
            warnings.warn(
                f"the fields {', '.join(map(repr, texts))} of the observations hold no numbers and are left "
                "out. Pass `of`, the name of a field or a function, to choose.",
                RhocoverWarning,
                stacklevel=2,
            )
        return np.concatenate(
            [np.zeros(0), *(part.ravel() for name, part in parts.items() if name not in texts)]
        )

    def _field(self, observation: Any) -> Any:
        try:
            return observation[self.of]
        except (KeyError, TypeError, IndexError) as error:
            found = sorted(observation) if isinstance(observation, Mapping) else type(observation).__name__
            raise OutsideSpaceError.of(
                "of", f"{self.of!r} is no field of the observations", f"{found}"
            ) from error

    def _picked(self, observation: Any, places: list[int]) -> FloatArray:
        values = self._whole(observation)
        if values.size <= max(places):
            raise _lacks(values.size, places)
        return values[places]

    def many(self, observations: Any) -> FloatArray:
        """Returns the vectors `[T, D]` of many observations: a list, an array, or a dictionary of columns."""
        if isinstance(observations, Mapping):
            columns = {name: checks.any_array(part, "observations") for name, part in observations.items()}
            num = min((len(part) if part.ndim else 0 for part in columns.values()), default=0)
            observations = [{name: part[t] for name, part in columns.items()} for t in range(num)]
        elif not isinstance(observations, list | tuple | np.ndarray) or _is_one(observations):
            kind = type(observations).__name__
            raise InvalidArgumentError.of("observations", "must be a list or an array of them", kind)
        if not callable(self.of) and not isinstance(self.of, str) and not _has_fields(observations):
            return self._of_array(checks.any_array(observations, "observations"))
        if isinstance(self._function, Encoder | ModuleFeatures) and len(observations):
            return self._function.many(observations)
        rows = [self.one(observation) for observation in observations]
        if len({row.size for row in rows}) > 1:
            raise OutsideSpaceError.of("observations", "must all have the same number of features")
        return np.array(rows, np.float64).reshape(len(rows), rows[0].size if rows else 0)

    def _of_array(self, array: Any) -> FloatArray:
        """Returns the vectors of the rows of an array."""
        if array.ndim == 0 or array.dtype.kind not in "biuf":
            found = f"an array of {array.dtype}" if array.ndim else "one value"
            raise InvalidArgumentError.of("observations", "must be a list or an array of numbers", found)
        flat = np.ascontiguousarray(array.reshape(len(array), math.prod(array.shape[1:])), np.float64)
        if self.of is None:
            return flat
        places: list[Any] = list(self.of)  # pyright: ignore
        if flat.shape[1] <= max(places):
            raise _lacks(flat.shape[1], places)
        return np.ascontiguousarray(flat[:, places])

    def document(self) -> Any:
        """Returns what a file says of it: a function by its name."""
        if isinstance(self.of, str):
            return FIELD + self.of
        if isinstance(self.of, RandomFeatures):
            return f"{RANDOM}{self.of.size},{self.of.seed}"
        if isinstance(self.of, Encoder):
            return to_document(self.of)
        return function_name(self.of) if callable(self.of) else self.of


@cache
def random_rows(rows: int, columns: int, seed: int) -> FloatArray:
    """Returns independent standard normal numbers, the same for the same arguments."""
    return checks.frozen(np.random.default_rng([seed, rows, columns]).standard_normal((rows, columns)))


@dataclass(frozen=True)
class RandomFeatures:
    """A function for `of`: `size` random linear combinations of the numbers of an observation."""

    size: int
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", checks.integer(self.size, "size", least=1))
        object.__setattr__(self, "seed", checks.integer(self.seed, "seed", least=0))

    def __call__(self, observation: Any) -> FloatArray:
        """Returns the features of one observation, `[size]`."""
        x = FeatureReader().one(observation)
        return (random_rows(self.size, x.size, self.seed) * x).sum(axis=1) / np.sqrt(self.size)


def _lacks(size: int, places: list[int]) -> OutsideSpaceError:
    """Returns the error for components that observations do not have."""
    expected = f"must hold numbers of components, 0 to {size - 1} in these observations"
    return OutsideSpaceError.of("of", expected, f"{max(places)}")


def stored_of(of: Any) -> Any:
    """Returns what `FeatureReader.document` wrote; raises `LookupError` with the name of a function."""
    if not isinstance(of, str):
        return of
    if of.startswith(RANDOM):
        return RandomFeatures(*map(int, of.removeprefix(RANDOM).split(",")))
    if not of.startswith(FIELD):
        raise LookupError(of)
    return of.removeprefix(FIELD)


def _is_one(observations: Any) -> bool:
    return isinstance(observations, np.ndarray) and observations.ndim == 0


def _has_fields(observations: Any) -> bool:
    return len(observations) > 0 and isinstance(observations[0], Mapping)


def _vector(values: Any) -> FloatArray:
    try:
        array = np.asarray(values, np.float64).ravel()
    except (TypeError, ValueError) as error:
        raise OutsideSpaceError.of("observations", f"must be numbers: {error}") from error
    return np.ascontiguousarray(array)
