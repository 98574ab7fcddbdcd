"""Features that are learned: a small neural network from observations to a few numbers.

Distances of raw observations often mean little: noise, backgrounds and colours change more than what the
agent controls. `LearnedFeatures` trains a network on steps, so that distances follow the dynamics
(`training` has the two objectives and needs torch). The result is an `Encoder`, a function for `of`.

**The network.** Layers of one kind: a convolution with weights W `[h, w, c, k]`, a stride s and no padding,

    y[i, j, :] = bias + sum over a, b, c of  x[i s + a, j s + b, c] W[a, b, c, :],

and max(y, 0) after each but the last. A vector is an image of one pixel, so its layers are matrices. Images
(uint8, two of three dimensions of 16 pixels or more) are first averaged to at most 64 pixels a side.

**Exactly the same again.** An encoder is applied here, without torch: one compiled loop in float64, which
sums in one order. One observation or many, in a run or in an audit, give the same bits on one machine. A
document holds the weights as float32 numbers in base64, never as code.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray
from rhocover.compiling import compiled
from rhocover.documents import refuse
from rhocover.environments.encoding.base import OutsideSpaceError
from rhocover.errors import InvalidArgumentError, InvalidDataError, unknown_name

TEMPORAL_DISTANCE, INVERSE_DYNAMICS = "temporal_distance", "inverse_dynamics"
OBJECTIVES = (TEMPORAL_DISTANCE, INVERSE_DYNAMICS)
IMAGE_SIDE = 16  # pixels: smaller arrays of bytes are vectors
MOST_SIDE = 64  # pixels that the network sees of an image, per side
MOST_CHANNELS = 16  # an image with more is a vector
HELD_STRETCH, HELD_EVERY = 32, 5  # observations in a row that are left out of training
ROWS = 256  # observations that are encoded at a time


@compiled
def _convolve(x, weight, bias, stride, is_last, out):
    """Writes the layer of images x `[T, H, W, c]` to `out`; each sum in one order, whatever T is."""
    height, width, channels, _ = weight.shape
    for t in range(x.shape[0]):
        for i in range(out.shape[1]):
            for j in range(out.shape[2]):
                total = out[t, i, j]
                total[:] = bias
                for a in range(height):
                    for b in range(width):
                        for c in range(channels):
                            value = x[t, i * stride + a, j * stride + b, c]
                            if value != 0.0:
                                row = weight[a, b, c]
                                for k in range(row.size):
                                    total[k] += value * row[k]
                if not is_last:
                    for k in range(total.size):
                        total[k] = max(total[k], 0.0)


class Base64:
    """An array of float32 in a document: its shape, and its bytes as text."""

    def write(self, array: FloatArray) -> dict[str, Any]:
        """Returns the document of an array."""
        content = np.ascontiguousarray(array, "<f4").tobytes()
        return {"shape": list(array.shape), "float32": base64.b64encode(content).decode()}

    def read(self, document: Any, at: str) -> FloatArray:
        """Returns the array of a document; raises a ValueError."""
        try:
            flat = np.frombuffer(base64.b64decode(document["float32"], validate=True), "<f4")
            array = flat.reshape(document["shape"]).astype(np.float64)
        except (KeyError, TypeError, ValueError):
            refuse(at, "an array: a shape and float32 numbers in base64", document)
        if not np.isfinite(array).all():
            refuse(at, "finite numbers", "others")
        return array


Stored = Annotated[FloatArray, Base64()]


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer of an encoder."""

    stride: int
    weight: Stored  # [height, width, channels, outputs]
    bias: Stored  # [outputs]

    def __post_init__(self) -> None:
        if self.weight.ndim != 4 or self.bias.shape != self.weight.shape[3:] or self.stride < 1:
            raise InvalidDataError("a layer needs weights of four dimensions, a bias per output, a stride.")

    def side(self, size: int, axis: int) -> int:
        """Returns how many pixels of `size` are left along an axis."""
        return (size - self.weight.shape[axis]) // self.stride + 1

    def __call__(self, x: FloatArray, *, is_last: bool) -> FloatArray:
        """Returns the images `[T, H, W, c]` after this layer."""
        shape = (len(x), self.side(x.shape[1], 0), self.side(x.shape[2], 1), self.bias.size)
        out = np.empty(shape)
        _convolve(x, self.weight, self.bias, self.stride, is_last, out)
        return out


@dataclass(frozen=True, eq=False)
class Encoder:
    """A function from observations of one shape to a few numbers; `by` is what it was trained for."""

    by: str
    shape: tuple[int, ...]  # of an observation
    mean: Stored  # of its numbers, or of the channels of an image
    scale: Stored
    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        height, width, channels = network_shape(self.shape)
        if self.mean.shape != (channels,) or self.scale.shape != (channels,) or not (self.scale > 0).all():
            raise InvalidDataError("an encoder needs a mean and a positive scale for each number or channel.")
        for layer in self.layers:
            height, width = layer.side(height, 0), layer.side(width, 1)
            if layer.weight.shape[2] != channels or min(height, width) < 1:
                raise InvalidDataError("the layers of the encoder do not fit together.")
            channels = layer.bias.size
        if not self.layers or height * width > 1 or channels < 1:
            raise InvalidDataError("the layers of the encoder do not end in one row of numbers.")

    @property
    def size(self) -> int:
        """How many numbers it returns."""
        return self.layers[-1].bias.size

    def __call__(self, observation: Any) -> FloatArray:
        """Returns the features of one observation, `[size]`."""
        return self.many(as_array(observation)[None])[0]

    def many(self, observations: Any) -> FloatArray:
        """Returns the features of many observations, `[T, size]`."""
        arrays = as_arrays(observations)
        if arrays.shape[1:] != self.shape:
            raise OutsideSpaceError(
                f"an observation has the shape {arrays.shape[1:]}, the encoder was trained on {self.shape}."
            )
        result = np.empty((len(arrays), self.size))
        for first in range(0, len(arrays), ROWS):
            x = self.inputs(arrays[first : first + ROWS])
            for layer in self.layers:
                x = layer(x, is_last=layer is self.layers[-1])
            result[first : first + ROWS] = x[:, 0, 0]
        return result

    def inputs(self, arrays: Any) -> FloatArray:
        """Returns what the network sees of observations, `[T, H, W, c]`."""
        return (network_inputs(arrays) - self.mean) / self.scale


def is_held_out(num: int) -> Any:
    """Returns which of `num` successive observations training leaves out: every fifth stretch, `[num]`."""
    return np.arange(num) // HELD_STRETCH % HELD_EVERY == HELD_EVERY - 1


def as_array(observation: Any) -> Any:
    """Returns one observation as an array: arrays and numbers as they are, others as one row of numbers."""
    if isinstance(observation, np.ndarray | np.generic | int | float):
        return np.asarray(observation)
    return _joiner().one(observation)


@cache
def _joiner() -> Any:
    """Returns what joins the fields of dictionaries, and warns once of those without numbers."""
    from rhocover.environments.encoding.features import FeatureReader

    return FeatureReader()


def as_arrays(observations: Any) -> Any:
    """Returns many observations as one array `[T, ...]` of numbers."""
    if not isinstance(observations, np.ndarray) or observations.dtype == object:
        try:
            observations = np.array([as_array(observation) for observation in observations])
        except (TypeError, ValueError) as error:
            if isinstance(error, InvalidArgumentError):
                raise
            expected = "must be a list or an array of observations of one shape"
            raise OutsideSpaceError.of("observations", expected) from error
    if observations.dtype.kind not in "biuf" or observations.ndim == 0:
        raise OutsideSpaceError.of("observations", "must be numbers", f"an array of {observations.dtype}")
    return observations


def network_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Returns height, width and channels of what the network sees of observations of this shape."""
    if not is_image(shape):
        return 1, 1, int(np.prod(shape, dtype=np.int64))
    height, width, channels = _last_channels(shape)
    factor = -(-max(height, width) // MOST_SIDE)
    return height // factor, width // factor, channels


def is_image(shape: tuple[int, ...]) -> bool:
    """Whether arrays of this shape are images: two sides of 16 pixels or more, and few channels."""
    if len(shape) not in (2, 3):
        return False
    height, width, channels = _last_channels(shape)
    return min(height, width) >= IMAGE_SIDE and channels <= MOST_CHANNELS


def _last_channels(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Returns height, width and channels of an image, whose channels are last or first."""
    if len(shape) == 2:
        return shape[0], shape[1], 1
    return (shape[1], shape[2], shape[0]) if shape[0] < shape[2] else (shape[0], shape[1], shape[2])


def network_inputs(arrays: Any) -> FloatArray:
    """Returns observations as images `[T, H, W, c]`; large ones are averaged over squares of pixels."""
    shape = arrays.shape[1:]
    height, width, channels = network_shape(shape)
    if not is_image(shape):
        return np.ascontiguousarray(arrays.reshape(len(arrays), 1, 1, channels), np.float64)
    if len(shape) == 3 and shape[0] < shape[2]:
        arrays = np.moveaxis(arrays, 1, -1)
    arrays = arrays.reshape(*arrays.shape[:3], channels)
    factor = -(-max(arrays.shape[1:3]) // MOST_SIDE)
    kept = arrays[:, : height * factor, : width * factor]
    squares = kept.reshape(len(arrays), height, factor, width, factor, channels)
    whole = np.int64 if arrays.dtype.kind in "biu" else np.float64  # sums of bytes do not round
    total = sum(squares[:, :, a, :, b].astype(whole) for a in range(factor) for b in range(factor))
    return np.ascontiguousarray(np.asarray(total) / factor**2, np.float64)


@dataclass(frozen=True)
class LearnedFeatures:
    """For `of`: `size` numbers that a network learns from steps, so that distances follow the dynamics.

    `by` is what it learns: "temporal_distance" (observations a few steps apart are near, all others far) or
    "inverse_dynamics" (the action follows from the features before and after a step). It is trained on a
    random rollout before a run, and again on everything collected so far whenever the number of steps has
    doubled. `updates` is the number of gradient steps. Training needs torch: `pip install 'rhocover[deep]'`;
    the trained encoder does not.
    """

    size: int = 8
    by: str = TEMPORAL_DISTANCE
    seed: int = 0
    updates: int = 2_000

    def __post_init__(self) -> None:
        for name, least in (("size", 1), ("seed", 0), ("updates", 1)):
            object.__setattr__(self, name, checks.integer(getattr(self, name), name, least=least))
        if not isinstance(self.by, str) or self.by not in OBJECTIVES:
            raise unknown_name("by", self.by, OBJECTIVES)

    def fit(self, observations: Any, actions: Any = None) -> Encoder:
        """Returns the encoder, trained on `observations` in their order.

        `actions` are the numbers of the actions taken after each of them, -1 where the next observation does
        not follow (the end of an episode); they may be left out for "temporal_distance" and one episode.
        """
        from rhocover.environments.encoding.training import train

        arrays = as_arrays(observations)
        if len(arrays) < 2 or not arrays[0].size:
            raise InvalidArgumentError.of("observations", "must be two or more", f"{len(arrays)}")
        if not np.isfinite(arrays).all():
            raise InvalidArgumentError.of("observations", "must be finite numbers", "nan or infinite ones")
        return train(self, arrays, self._actions(actions, len(arrays)))

    def _actions(self, actions: Any, num: int) -> Any:
        """Returns the number of the action after each observation, -1 where none follows, `[num]`."""
        if actions is None and self.by == INVERSE_DYNAMICS:
            raise InvalidArgumentError.of("actions", f"are needed for by={INVERSE_DYNAMICS!r}")
        numbers = np.zeros(num, np.int64) if actions is None else checks.any_array(actions, "actions")
        if numbers.shape != (num,) or numbers.dtype.kind not in "iu":
            raise InvalidArgumentError.of(
                "actions", f"must be {num} whole numbers, one for each observation", f"{numbers.shape}"
            )
        numbers = numbers.astype(np.int64)
        numbers[-1] = -1  # nothing follows the last one
        if not (numbers >= 0).any():
            raise InvalidArgumentError.of("actions", "must hold a step: a number of 0 or more", "none")
        return numbers
