"""Replay: first returns the steps that are stored, then continues with the environment itself.

As long as stored steps last, nothing is stepped: observations come from the parts. At their end the
environment is brought back to the same point: reset with the last seed that was used, and stepped through the
actions since. If it then does not return the same observations as before (a wrapper may keep more state than
that), everything is stepped again from the first seed; if that fails too, the environment is not reproducible
and the collection cannot continue.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rhocover.collecting.log import one
from rhocover.datasets.collection.manifest import Manifest, load_part
from rhocover.datasets.collection.rows import PartRows, Spaces
from rhocover.environments.encoding.base import ActionCode
from rhocover.errors import EnvironmentFailedError
from rhocover.printing import count_of


class Replay:
    """Replaces a single environment until the steps of a manifest were repeated."""

    def __init__(self, env: Any, actions: ActionCode, folder: Path, manifest: Manifest) -> None:
        self._env, self._actions, self._folder, self._manifest = env, actions, folder, manifest
        self._space, self._left = env.observation_space, manifest.num_steps
        self._spaces = Spaces(env.observation_space, env.action_space)
        self._steps, self._resets = self._stored_steps(), self._stored_resets()

    @property
    def observation_space(self) -> Any:
        """The environment's observation space."""
        return self._space

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Returns the first observation of an episode, a stored one while they last."""
        return self._env.reset(seed=seed) if self._left == 0 else (next(self._resets), {})

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Returns the result of a step, a stored one while they last."""
        if self._left == 0:
            self.step = self._env.step  # from now on the environment itself
            return self._env.step(action)
        self._left -= 1
        result = next(self._steps)
        if self._left == 0:
            self._catch_up()
        return result

    def _parts(self, first: int = 0) -> Iterator[PartRows]:
        """Returns the rows of the parts that have step `first` or later ones."""
        parts = (part for part in self._manifest.parts if part.first_row + part.rows > first)
        return (load_part(self._folder, part, self._spaces) for part in parts)

    def _stored_steps(self) -> Iterator[tuple[Any, float, bool, bool, dict[str, Any]]]:
        for rows in self._parts():
            columns = (rows.after, rows.reward, rows.terminated, rows.truncated)
            for place, reward, ended, cut in zip(*(column.tolist() for column in columns), strict=True):
                yield one(self._space, rows.shown, place), reward, ended, cut, {}

    def _stored_resets(self) -> Iterator[Any]:
        for rows in self._parts():
            for place in rows.before[rows.step == 0].tolist():
                yield one(self._space, rows.shown, place)

    def _catch_up(self) -> None:
        """Brings the environment to the point where the stored steps end."""
        spare = _copied(self._env)  # the first attempt may change the state of a wrapper
        if self._stepped_through(self._last_seeding()):
            return
        self._env = spare
        if spare is None or not self._stepped_through(0):
            raise EnvironmentFailedError(
                f"the collection cannot continue after {count_of(self._manifest.num_steps, 'step')}: for the "
                "same seeds and actions, the environment does not return the same observations as before, or "
                "it keeps state from before its last episodes and cannot be copied. The collected steps are "
                "kept. Start a new collection in another folder."
            )

    def _last_seeding(self) -> int:
        """Returns the step before which the environment was last reset with a seed."""
        for part in reversed(self._manifest.parts):
            rows = load_part(self._folder, part, self._spaces)
            if (rows.seed >= 0).any():
                return int(rows.t[rows.seed >= 0].max())
        return 0

    def _stepped_through(self, first: int) -> bool:
        """Resets and steps from step `first` to the last stored one; returns whether all was as before."""
        for rows in self._parts(first):
            before, after, numbers = rows.before, rows.after, self._actions.numbers(rows.action)
            for row in range(max(0, first - int(rows.t[0])), len(rows)):
                if rows.step[row] == 0 and not self._is_same_reset(rows, row, int(before[row])):
                    return False
                action = self._actions.values[int(numbers[row])]
                if not self._is_same_step(rows, row, int(after[row]), action):
                    return False
        return True

    def _is_same_reset(self, rows: PartRows, row: int, place: int) -> bool:
        seed = int(rows.seed[row])
        shown, _ = self._env.reset(seed=None if seed < 0 else seed)
        return _is_same(shown, one(self._space, rows.shown, place))

    def _is_same_step(self, rows: PartRows, row: int, place: int, action: Any) -> bool:
        shown, reward, ended, cut, _ = self._env.step(action)
        is_same = (bool(ended), bool(cut)) == (rows.terminated[row], rows.truncated[row])
        is_same = is_same and _is_same(np.ravel(reward)[0], rows.reward[row])
        return bool(is_same) and _is_same(shown, one(self._space, rows.shown, place))


def _copied(env: Any) -> Any:
    """Returns a copy of an environment; None for one that cannot be copied."""
    try:
        return copy.deepcopy(env)
    except Exception:  # handles of other libraries may raise anything
        return None


def _is_same(a: Any, b: Any) -> bool:
    """Returns whether two observations, nested or not, are equal to the bit."""
    if isinstance(b, dict):
        return all(_is_same(a[key], b[key]) for key in b)
    if isinstance(b, tuple):
        return all(_is_same(x, y) for x, y in zip(a, b, strict=True))
    b = np.asarray(b)
    return bool(np.array_equal(np.asarray(a).astype(b.dtype), b, equal_nan=b.dtype.kind == "f"))
