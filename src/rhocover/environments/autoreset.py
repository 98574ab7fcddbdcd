"""Following a vector environment: which of its steps are visits, in each autoreset mode.

A sub-environment that has ended must be reset before it is stepped again. Gymnasium's vector environments
differ in who does it and when (`env.metadata["autoreset_mode"]`):

- NEXT_STEP: the step after the end ignores its action, resets, and returns the new episode's first
  observation. That step is no visit.
- SAME_STEP: the step that ends also resets and returns the new episode's first observation; the last one
  of the old episode is in `infos["final_obs"]`. Every step is a visit.
- DISABLED: the caller resets, all of them or those in `options["reset_mask"]`. Until then nothing is a
  visit.

All sub-environments share one counter.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import iterate

from rhocover.checks import BoolArray
from rhocover.environments.counts import Trajectory, VisitCounter
from rhocover.environments.encoding import read_action_code, read_state_code
from rhocover.errors import EnvironmentFailedError, InvalidArgumentError


class Lanes:
    """One trajectory for each sub-environment of `env`, all with one counter."""

    def __init__(self, env: VectorEnv, states: Any, actions: Any) -> None:
        self.mode = autoreset_mode(env)
        self.code = read_state_code(states, env.single_observation_space)
        self._actions = read_action_code(actions, env.single_action_space)
        self._observation_space, self._action_space = env.observation_space, env.action_space
        self.counter = VisitCounter(len(self._actions.values))
        self._trajectories = [Trajectory(self.counter) for _ in range(env.num_envs)]
        self._resets_next = np.zeros(env.num_envs, bool)

    def forget(self, mask: BoolArray) -> None:
        """Leaves the masked sub-environments without a state, until they are started."""
        for k in np.flatnonzero(mask):
            self._trajectories[k].state = None
        self._resets_next = self._resets_next & ~mask

    def start(self, observations: Any, mask: BoolArray) -> None:
        """Begins an episode in the masked sub-environments."""
        for k, key in self._keys(observations, mask).items():
            self._trajectories[k].start(key)

    def pairs(self, actions: Any) -> list[int | None]:
        """Returns the pairs that a step with these actions would visit; None where it would visit none."""
        return [
            None if lane.state is None else lane.pair(self._actions.number(action))
            for lane, action in zip(self._trajectories, iterate(self._action_space, actions), strict=True)
        ]

    def step(self, pairs: Sequence[int | None], result: tuple[Any, Any, Any, Any, dict[str, Any]]) -> None:
        """Counts what a step did, and begins the episodes that it began."""
        observations, _, terminated, truncated, infos = result
        done, resets = np.logical_or(terminated, truncated), self._resets_next
        self.forget(np.ones_like(done))  # if an observation cannot be read, nobody knows where we are
        finals = self._final_keys(pairs, done & ~np.asarray(terminated), infos)
        same = self.mode == AutoresetMode.SAME_STEP
        keys = self._keys(observations, np.ones_like(done) if same else ~np.asarray(terminated))
        for k, (lane, pair) in enumerate(zip(self._trajectories, pairs, strict=True)):
            if pair is None:
                if resets[k]:
                    lane.start(keys[k])
            elif terminated[k]:
                lane.end(pair)
            else:
                lane.move(pair, finals[k] if k in finals else keys[k], is_cut=bool(truncated[k]))
            if same and done[k]:
                lane.start(keys[k])
        if self.mode == AutoresetMode.NEXT_STEP:
            self._resets_next = done

    def _keys(self, observations: Any, mask: BoolArray) -> dict[int, Hashable]:
        """Returns the keys of the masked sub-environments; what the others returned need not be readable."""
        each = enumerate(iterate(self._observation_space, observations))
        return {k: self.code.key(observation) for k, observation in each if mask[k]}

    def _final_keys(
        self, pairs: Sequence[int | None], cut: BoolArray, infos: dict[str, Any]
    ) -> dict[int, Hashable]:
        """Returns where the episodes that this step cut had got to, by sub-environment."""
        if self.mode != AutoresetMode.SAME_STEP:
            return {}
        lanes = [k for k, pair in enumerate(pairs) if pair is not None and cut[k]]
        if lanes and "final_obs" not in infos:
            raise EnvironmentFailedError(
                "the vector environment says AutoresetMode.SAME_STEP but gave no infos['final_obs'] for an "
                "episode that was cut, so where it had got to is not known."
            )
        return {k: self.code.key(infos["final_obs"][k]) for k in lanes}


def autoreset_mode(env: VectorEnv) -> AutoresetMode:
    """Returns how the vector environment resets; what it does not say is not guessed."""
    if not isinstance(env, VectorEnv):
        raise InvalidArgumentError.of(
            "env",
            "must be a gymnasium.vector.VectorEnv",
            type(env).__name__,
            remedy="For a single environment use the wrapper of the same name without `Vector`.",
        )
    mode = env.metadata.get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        raise InvalidArgumentError.of(
            "env",
            f"must say how it resets: env.metadata['autoreset_mode'] is {mode!r}",
            remedy="Set it to gymnasium.vector.AutoresetMode.NEXT_STEP, SAME_STEP or DISABLED.",
        )
    return mode


def reset_mask(options: dict[str, Any] | None, num_envs: int) -> BoolArray:
    """Returns which sub-environments a reset with these options resets."""
    if options is None or "reset_mask" not in options:
        return np.ones(num_envs, bool)
    return np.array(options["reset_mask"], bool)  # a copy: environments take it out of the options
