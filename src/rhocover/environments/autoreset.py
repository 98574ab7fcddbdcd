"""Autoreset of vector environments: which calls of `step` are visits, and what each of them shows.

A sub-environment that has ended must be reset before it is stepped again. Gymnasium's vector environments
differ in who does it and when (`env.metadata["autoreset_mode"]`):

- next step: the call after the end ignores its action, resets, and shows the new episode's first observation.
  That call is no visit.
- same step: the call that ends an episode also resets and shows the new episode's first observation; the last
  one of the old episode is in `infos["final_obs"]`. Every call is a visit.
- disabled: the caller resets, all sub-environments or those in `options["reset_mask"]`. Until then nothing is
  a visit.

Everything that steps a vector environment reads its calls here. Knows nothing of states and counts.
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
FINAL = ("final_obs", "final_observation")  # where Gymnasium puts it, and where it was before 1.0
NOT_SHOWN: Any = object()


@dataclass(frozen=True, eq=False)
class SubStep:
    """What one call of `step` did in one sub-environment: took its action (a visit), or only reset."""

    is_visit: bool
    led_to: Any = NOT_SHOWN  # the observation after the action
    begins: Any = NOT_SHOWN  # the first observation of a new episode

    @property
    def last(self) -> Any:
        """The observation that the action led to; raises where the environment kept it to itself."""
        if self.led_to is NOT_SHOWN:
            raise EnvironmentFailedError(
                "the vector environment says AutoresetMode.SAME_STEP but gave no infos['final_obs'] for an "
                "episode that is over, so where it had got to is not known."
            )
        return self.led_to


def sub_steps(
    mode: str, was_over: BoolArray, shown: Sequence[Any], is_over: BoolArray, infos: dict[str, Any]
) -> list[SubStep]:
    """Returns what a call of `step` did in each sub-environment.

    `was_over` says which had ended with an earlier call and were not reset by the caller, `shown` and
    `is_over` are the call's observations and ends, an entry for each sub-environment.
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
    """Returns how a vector environment resets: next_step, same_step or disabled; it is never guessed."""
    mode = env.metadata.get("autoreset_mode")
    text = str(getattr(mode, "value", mode)).replace("-", "_").lower()
    text = {"nextstep": NEXT_STEP, "samestep": SAME_STEP}.get(text, text)
    if text not in MODES:
        raise InvalidArgumentError.of(
            'env.metadata["autoreset_mode"]',
            f"must be one of {', '.join(MODES)}",
            repr(mode),
            remedy="Set it to the gymnasium.vector.AutoresetMode by which it resets what has ended.",
        )
    return text


def reset_mask(options: dict[str, Any] | None, num_envs: int) -> BoolArray:
    """Returns which sub-environments a reset with these options resets."""
    if options is None or "reset_mask" not in options:
        return np.ones(num_envs, bool)
    return np.array(options["reset_mask"], bool)  # a copy: environments take it out of the options
