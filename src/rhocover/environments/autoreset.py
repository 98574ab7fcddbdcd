"""Autoreset of vector environments: which calls of `step` are visits, and which observations they return.

A sub-environment whose episode has ended must be reset before it is stepped again. Gymnasium's vector
environments do this in three ways (`env.metadata["autoreset_mode"]`):

- next step: the call after the end ignores its action, resets, and returns the first observation of the new
  episode. That call is not a visit.
- same step: the call that ends an episode also resets and returns the first observation of the new episode;
  the last one of the old episode is in `infos["final_obs"]`. Every call is a visit.
- disabled: the caller resets all sub-environments, or those in `options["reset_mask"]`. Until then no call is
  a visit.

All code that steps a vector environment interprets its calls with this module, which does not deal with
states or counts.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover.checks import BoolArray
from rhocover.errors import EnvironmentFailedError, InvalidArgumentError

NEXT_STEP, SAME_STEP, DISABLED = MODES = ("next_step", "same_step", "disabled")
FINAL = ("final_obs", "final_observation")  # Gymnasium's key in `infos`, now and before 1.0
NOT_SHOWN: Any = object()


@dataclass(frozen=True, eq=False)
class SubStep:
    """Effect of one call of `step` on one sub-environment: it took the action (a visit) or was only reset."""

    is_visit: bool
    led_to: Any = NOT_SHOWN  # the observation after the action
    begins: Any = NOT_SHOWN  # the first observation of a new episode

    @property
    def last(self) -> Any:
        """The observation that the action led to; raises if the environment did not return it."""
        if self.led_to is NOT_SHOWN:
            raise EnvironmentFailedError(
                "the vector environment declares AutoresetMode.SAME_STEP but returned no infos['final_obs'] "
                "for an episode that has ended, so the last observation of that episode is unknown."
            )
        return self.led_to


def sub_steps(
    mode: str, was_over: BoolArray, shown: Sequence[Any], is_over: BoolArray, infos: dict[str, Any]
) -> list[SubStep]:
    """Returns the effect of a call of `step` on each sub-environment.

    `was_over` marks those that had ended with an earlier call and were not reset by the caller; `shown` and
    `is_over` are the observations and ends of this call, with one entry per sub-environment.
    """
    found = []
    for k, observation in enumerate(shown):
        if was_over[k] and mode != SAME_STEP:
            found.append(SubStep(False, begins=observation if mode == NEXT_STEP else NOT_SHOWN))
        elif is_over[k] and mode == SAME_STEP:
            found.append(SubStep(True, _final(infos, k), observation))
        else:
            found.append(SubStep(True, observation))
    return found


def _final(infos: dict[str, Any], k: int) -> Any:
    """Returns a copy of a final observation: environments may write the next one into the same array."""
    found = next((infos[name][k] for name in FINAL if name in infos), None)
    return NOT_SHOWN if found is None else copy.deepcopy(found)


def autoreset_mode(env: Any) -> str:
    """Returns the declared autoreset mode of a vector environment: next_step, same_step or disabled."""
    mode = env.metadata.get("autoreset_mode")
    text = str(getattr(mode, "value", mode)).replace("-", "_").lower()
    text = {"nextstep": NEXT_STEP, "samestep": SAME_STEP}.get(text, text)
    if text not in MODES:
        raise InvalidArgumentError.of(
            'env.metadata["autoreset_mode"]',
            f"must be one of {', '.join(MODES)}",
            repr(mode),
            remedy="Set it to the gymnasium.vector.AutoresetMode that the environment implements.",
        )
    return text


def reset_mask(options: dict[str, Any] | None, num_envs: int) -> BoolArray:
    """Returns which sub-environments a reset with these options resets."""
    if options is None or "reset_mask" not in options:
        return np.ones(num_envs, bool)
    return np.array(options["reset_mask"], bool)  # a copy, because environments remove it from the options
