"""What a Minari data set is asked before it is written: lengths, ends, seeds, types, words about it.

Nothing is lost on the way in: a number that its column cannot hold exactly is refused, never rounded. An
episode ends at its last step and not before; it may stop there without an end (a collection that was cut).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover.adapters.hdf5_records import Column
from rhocover.adapters.minari_columns import Path, leaf_array, named
from rhocover.adapters.stored_rows import StoredRows
from rhocover.checks import at
from rhocover.errors import InvalidArgumentError, InvalidDataError

if TYPE_CHECKING:
    import gymnasium as gym

WORDS = ("algorithm_name", "code_permalink", "description")
LISTS = ("author", "author_email", "requirements")


def episode_lengths(value: Any) -> np.ndarray:
    """Returns the steps of each episode, int64 `[E]`, all at least 1."""
    lengths = np.asarray(value)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or not len(lengths):
        raise InvalidDataError(f"`lengths` must be whole numbers, one an episode, got {value!r}.")
    if lengths.min() < 1:
        place = int(np.argmin(lengths))
        raise InvalidDataError(
            f"`lengths` must be at least 1, got lengths[{place}] = {lengths[place]}. "
            "Leave out episodes without a step."
        )
    return lengths.astype(np.int64)


def step_column(value: Any, name: str, rows: int) -> np.ndarray:
    """Returns rewards as float64, terminations and truncations as bool, shape `[rows]`."""
    array, form = leaf_array(value, (name,)), np.dtype("<f8" if name == "rewards" else bool)
    if array.shape != (rows,):
        raise InvalidDataError(f"`{name}` must have shape ({rows},), the sum of lengths, got {array.shape}.")
    if form.kind == "b" and array.dtype.kind != "b":
        raise InvalidDataError(f"`{name}` must be True or False, got dtype {array.dtype}.")
    return exact(array, form, (name,))


def check_ends(terminations: np.ndarray, truncations: np.ndarray, lengths: np.ndarray) -> None:
    """Refuses an end inside an episode."""
    ends = terminations | truncations
    last = np.cumsum(lengths) - 1
    ends[last] = False
    if ends.any():
        step = int(np.argmax(ends))
        name = "terminations" if terminations[step] else "truncations"
        raise InvalidDataError(
            f"`{name}` must be False before the last step of an episode, got {at(name, (step,))} = True; the "
            f"episode ends at step {int(last[np.searchsorted(last, step)])} by `lengths`. Cut it there."
        )


def seed_columns(seeds: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns (seeds int64 `[count]`, which of them there are); `seeds` may be None or hold None."""
    if seeds is None:
        return np.zeros(count, np.int64), np.zeros(count, bool)
    if not hasattr(seeds, "__len__") or len(seeds) != count:
        came = len(seeds) if hasattr(seeds, "__len__") else repr(seeds)
        raise InvalidDataError(f"`seeds` must be {count} numbers or None, one an episode, got {came}.")
    has_seed = np.array([seed is not None for seed in seeds], dtype=bool)
    values = np.array([0 if seed is None else seed for seed in seeds])
    if values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= 2**63:
        raise InvalidDataError(f"`seeds` must be whole numbers from 0 to 2^63 - 1 or None, got {seeds!r}.")
    return values.astype(np.int64), has_seed


def space_column(path: Path, space: gym.Space[Any], array: np.ndarray) -> Column:
    """Returns the column for a leaf: in the space's type, or in that of floats that are finer."""
    form = np.dtype(space.dtype)
    if array.dtype.kind == "f" and not np.can_cast(array.dtype, form):
        form = array.dtype
    return Column(
        path, form.newbyteorder("<"), tuple(space.shape or ()), extra=int(path[0] == "observations")
    )


def exact(array: Any, form: np.dtype[Any], path: Path) -> Any:
    """Returns the array in the type `form`; refuses values that it cannot hold exactly."""
    if array.dtype == form:
        return array
    if isinstance(array, StoredRows):
        return array.read_by(lambda rows: exact(rows, form, path), form)
    with np.errstate(all="ignore"):
        result = array.astype(form)
        is_kept = np.can_cast(array.dtype, form) or np.array_equal(
            result, array, equal_nan=array.dtype.kind == "f"
        )
    if not is_kept:
        raise InvalidDataError(
            f"{named(path)} has dtype {array.dtype} and values that {form} cannot hold, this column's type "
            f"so far. Convert all episodes first, for example with .astype(np.{form})."
        )
    return result


def spec_text(env_spec: Any) -> str | None:
    """Returns the environment's spec as JSON; None if there is none, or if JSON cannot hold it."""
    if env_spec is None or isinstance(env_spec, str):
        return env_spec
    try:
        return env_spec.to_json()
    except (TypeError, ValueError):  # made from a class or a function: no file can name it
        return None


def extra_words(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what is said about a data set as Minari writes it; refuses other keys and what is not JSON."""
    unknown = sorted(set(metadata) - {*WORDS, *LISTS, "rhocover"})
    if unknown:
        known = ", ".join((*WORDS, *LISTS, "rhocover"))
        raise InvalidArgumentError(
            f"`metadata` has the key {unknown[0]!r}; expected {known}. Put it in 'rhocover'."
        )
    words = {key: metadata[key] for key in (*WORDS, *LISTS) if metadata.get(key) is not None}
    for key in WORDS:
        if not isinstance(words.get(key, ""), str):
            raise InvalidArgumentError(f"`metadata[{key!r}]` must be text, got {words[key]!r}.")
    words |= {key: _texts(words[key], key) for key in LISTS if key in words}
    if "rhocover" in metadata:
        words["rhocover"] = metadata["rhocover"]
    try:
        return json.loads(json.dumps(words, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"`metadata['rhocover']` must be JSON without nan and inf ({error})."
        ) from error


def _texts(value: Any, key: str) -> list[str]:
    """Returns one text or several as a list; sets in order, so that the same input gives the same file."""
    texts = [value] if isinstance(value, str) else sorted(value) if isinstance(value, set) else list(value)
    if not all(isinstance(text, str) for text in texts):
        raise InvalidArgumentError(f"`metadata[{key!r}]` must be text or several texts, got {value!r}.")
    return texts
