"""A user's torch module as features: called on batches, in evaluation mode, without gradients.

An observation becomes a tensor of the module's own type of numbers and on its device, with a batch in front;
the output is read as float64. torch is not imported here: who has a module has imported it.

A batch of many may round the last bits differently than one observation, so an observation exactly at the
edge of a code may change it between a run and an audit. The encoders of `LearnedFeatures` do not have this.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover.checks import FloatArray
from rhocover.environments.encoding.base import OutsideSpaceError, function_name

ROWS = 1024  # observations of a batch


def is_module(of: Any) -> bool:
    """Whether `of` is a torch module."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(of, torch.nn.Module)


@dataclass(frozen=True)
class ModuleFeatures:
    """The outputs of a module, in one row per observation."""

    module: Any

    def __call__(self, observation: Any) -> FloatArray:
        """Returns the features of one observation, `[D]`."""
        return self._batch(np.asarray(observation)[None])[0]

    def many(self, observations: Any) -> FloatArray:
        """Returns the features of many observations, `[T, D]`."""
        array = np.asarray(observations)
        parts = [self._batch(array[k : k + ROWS]) for k in range(0, max(len(array), 1), ROWS)]
        return np.concatenate(parts)

    def _batch(self, array: Any) -> FloatArray:
        torch, module, was_training = sys.modules["torch"], self.module, self.module.training
        if array.dtype.kind not in "biuf":
            raise OutsideSpaceError.of("observations", "must be arrays of numbers for a torch module")
        like = next(module.parameters(), torch.zeros(0))
        module.eval()
        try:
            with torch.no_grad():
                out = module(torch.tensor(array, dtype=like.dtype, device=like.device))
        except Exception as error:  # a user's module may raise anything
            raise OutsideSpaceError.of(
                "of", f"{function_name(module)} failed on {array.shape}: {type(error).__name__}: {error}"
            ) from error
        finally:
            module.train(was_training)
        if not isinstance(out, torch.Tensor) or out.shape[:1] != (len(array),):
            raise OutsideSpaceError.of("of", "a torch module must return a tensor with a row per observation")
        return out.reshape(len(array), -1).cpu().numpy().astype(np.float64)
