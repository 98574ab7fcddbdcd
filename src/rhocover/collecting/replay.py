"""Replay: first returns the steps of a log, then continues with the environment itself.

As long as the log lasts, nothing is stepped: observations come from the file. At its end the environment is
brought back to the same point: reset with the last seed that was used, and stepped through the actions since.
If it then does not return the same observations as before (a wrapper may keep more state than that),
everything is stepped again from the first seed; if that fails too, the environment is not reproducible and
the collection cannot continue.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rhocover.collecting.log import Part, nested, one, parts_of
from rhocover.errors import EnvironmentFailedError
from rhocover.printing import count_of


class Replay:
    """Replaces a single environment until `num_steps` steps were repeated."""

    def __init__(self, env: Any, values: list[Any], folder: Path, digest: str, num_steps: int) -> None:
        self._env, self._values, self._folder, self._digest = env, values, folder, digest
        self._space, self._left = env.observation_space, num_steps
        self._num_steps = num_steps
        self._steps, self._resets = self._logged_steps(), self._logged_resets()
        self._waiting = next(self._resets, None)

    @property
    def observation_space(self) -> Any:
        """The environment's observation space."""
        return self._space

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Returns the first observation of an episode, from the log while it lasts."""
        if self._waiting is None:
            return self._env.reset(seed=seed)
        observation = self._waiting
        self._waiting = next(self._resets, None)
        if self._left == 0:
            self._catch_up()
        return observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Returns the result of a step, from the log while it lasts."""
        if self._left == 0:
            self.step = self._env.step  # from now on the environment itself
            return self._env.step(action)
        self._left -= 1
        result = next(self._steps)
        if self._left == 0 and self._waiting is None:
            self._catch_up()
        return result

    def _parts(self) -> Iterator[Part]:
        return parts_of(self._folder, self._digest)

    def _logged_steps(self) -> Iterator[tuple[Any, float, bool, bool, dict[str, Any]]]:
        for part in self._parts():
            c, space = part.columns, self._space
            values = nested(space, c, "observations")
            rewards, ended, cut = (c[name].tolist() for name in ("rewards", "terminated", "truncated"))
            for row in range(part.num_steps):
                yield one(space, values, row), rewards[row], ended[row], cut[row], {}

    def _logged_resets(self) -> Iterator[Any]:
        for part in self._parts():
            values = nested(self._space, part.columns, "reset_observations")
            for row in range(part.columns["reset_steps"].size):
                yield one(self._space, values, row)

    def _catch_up(self) -> None:
        """Brings the environment to the point where the log ends."""
        spare = _copied(self._env)  # the first attempt may change the state of a wrapper
        if self._stepped_through(self._last_seeding()):
            return
        self._env = spare
        if spare is None or not self._stepped_through(0):
            raise EnvironmentFailedError(
                f"the collection cannot continue after {count_of(self._num_steps, 'step')}: for the same "
                "seeds and actions, the environment does not return the same observations as before, or it "
                "keeps state from before its last episodes and cannot be copied. The collected steps are "
                "kept. Start a new collection in another folder."
            )

    def _last_seeding(self) -> int:
        """Returns the step before which the environment was last reset with a seed."""
        last = 0
        for part in self._parts():
            c = part.columns
            seeded = c["reset_steps"][c["reset_seeds"] >= 0]
            last = max(last, int(seeded.max(initial=0)))
        return last

    def _stepped_through(self, first: int) -> bool:
        """Resets and steps from step `first` to the end of the log; returns whether all was as before."""
        for part in self._parts():
            c = part.columns
            if part.first + part.num_steps < first:
                continue
            resets = {int(step): row for row, step in enumerate(c["reset_steps"].tolist())}
            for step in range(max(part.first, first), part.first + part.num_steps + 1):
                if step in resets and not self._is_same_reset(c, resets[step]):
                    return False
                row = step - part.first
                if row < part.num_steps and not self._is_same_step(c, row):
                    return False
        return True

    def _is_same_reset(self, c: Any, row: int) -> bool:
        seed = int(c["reset_seeds"][row])
        shown, _ = self._env.reset(seed=None if seed < 0 else seed)
        return _is_same(shown, one(self._space, nested(self._space, c, "reset_observations"), row))

    def _is_same_step(self, c: Any, row: int) -> bool:
        shown, reward, ended, cut, _ = self._env.step(self._values[int(c["actions"][row])])
        logged = one(self._space, nested(self._space, c, "observations"), row)
        flags = (bool(ended), bool(cut)) == (c["terminated"][row], c["truncated"][row])
        return bool(flags) and _is_same(np.ravel(reward)[0], c["rewards"][row]) and _is_same(shown, logged)


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
