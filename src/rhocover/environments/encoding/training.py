r"""Training an encoder z on steps; needs torch, on the CPU.

**Temporal distance.** A batch of pairs of observations (x_i, y_i), y_i one to `HORIZON` steps after x_i. Each
x must be nearer to its own y than to those of the others, and each y to its x (InfoNCE: van den Oord et al.
2018):

    loss = - mean over i of  log exp(-|z(x_i) - z(y_i)|^2) / sum_j exp(-|z(x_i) - z(y_j)|^2).

At the optimum -|z(x) - z(y)|^2 is log p(y soon after x)/p(y) up to a constant: near in time is near, what
cannot be reached in a few steps is far, and what says nothing about the future does not matter.

**Inverse dynamics.** The action is predicted from z before and after one step (Pathak et al. 2017), by a
second network that is thrown away. What the actions do not change does not matter; two places where actions
work alike may get the same features.

Both are minimised by AdamW with a rate that falls to zero. Few steps are learned by heart easily: so weights
decay, and the update counts that is best on held-out steps. Weights and batches are drawn with NumPy from the
seed, and torch computes in one thread: the same steps give the same encoder on one machine with the same
versions.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np

from rhocover.checks import FloatArray, IntArray
from rhocover.environments.encoding.encoders import (
    INVERSE_DYNAMICS,
    Encoder,
    Layer,
    LearnedFeatures,
    is_held_out,
    is_image,
    network_inputs,
    network_shape,
)
from rhocover.errors import missing_extra

HORIZON = 4  # steps between two observations that are near
BATCH = 128
WIDTH = 64  # outputs of a layer of vectors
CHANNELS = 16, 32, 32  # outputs of the convolutions, whose stride is 2
KERNEL = 3  # pixels
LEAST_SIDE = 5  # pixels that are convolved once more
RATE, DECAY = 2e-3, 3.0  # of AdamW; with less decay noise is learned by heart
CHECKED = 50  # updates between two looks at the held-out steps
HELD_BATCH = 512
BYTE_MEAN = 127.5  # an image in -1 to 1


def torch_module() -> Any:
    """Returns torch; raises with the install line if it is missing."""
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError as error:
        raise missing_extra("torch", "deep") from error


@contextmanager
def one_thread(torch: Any) -> Iterator[None]:
    """Computes in one thread: sums do not depend on how many there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def train(settings: LearnedFeatures, arrays: Any, actions: IntArray) -> Encoder:
    """Returns an encoder for observations `[T, ...]`; `actions` `[T]` are -1 where none follows."""
    torch, rng = torch_module(), np.random.default_rng([settings.seed, 0xDEE9])
    first = _untrained(settings, arrays, rng)
    with one_thread(torch), torch.enable_grad():
        weights = [_parameters(torch, layer.weight, layer.bias) for layer in first.layers]
        loss = _Objective(torch, settings, first, arrays, actions, weights, rng)
        _minimise(torch, loss, [*chain(*weights), *loss.parameters], settings)
        trained = [[_rounded(part.detach().numpy()) for part in layer] for layer in weights]
    layers = (Layer(old.stride, *new) for old, new in zip(first.layers, trained, strict=True))
    return Encoder(settings.by, first.shape, first.mean, first.scale, tuple(layers))


def _untrained(settings: LearnedFeatures, arrays: Any, rng: np.random.Generator) -> Encoder:
    """Returns the encoder with random weights."""
    shape = arrays.shape[1:]
    height, width, channels = network_shape(shape)
    layers = []
    if is_image(shape):
        for outputs in CHANNELS:
            if min(height, width) >= LEAST_SIDE:
                layers.append(_random_layer(rng, (KERNEL, KERNEL, channels, outputs), 2))
                height, width = (layers[-1].side(side, axis) for axis, side in enumerate((height, width)))
                channels = outputs
        mean, scale = np.full(network_shape(shape)[2], BYTE_MEAN), np.full(network_shape(shape)[2], BYTE_MEAN)
    else:
        flat = network_inputs(arrays)[:, 0, 0]
        mean, scale = flat.mean(axis=0), flat.std(axis=0)
        scale = np.where(scale > 1e-6 * np.maximum(1.0, np.abs(mean)), scale, 1.0)  # 0 for a constant
        layers.append(_random_layer(rng, (1, 1, channels, WIDTH), 1))
        channels = WIDTH
    layers.append(_random_layer(rng, (height, width, channels, WIDTH), 1))
    layers.append(_random_layer(rng, (1, 1, WIDTH, settings.size), 1))
    return Encoder(settings.by, shape, _rounded(mean), _rounded(scale), tuple(layers))


def _random_layer(rng: np.random.Generator, shape: tuple[int, ...], stride: int) -> Layer:
    """Returns a layer that keeps the size of its inputs on average (He et al. 2015)."""
    weight = rng.standard_normal(shape) * math.sqrt(2 / math.prod(shape[:3]))
    return Layer(stride, _rounded(weight), np.zeros(shape[3]))


def _rounded(array: Any) -> FloatArray:
    """Returns numbers that a document holds exactly."""
    return np.ascontiguousarray(np.asarray(array, np.float32), np.float64)


def _parameters(torch: Any, *arrays: FloatArray) -> list[Any]:
    return [torch.tensor(array, dtype=torch.float32, requires_grad=True) for array in arrays]


class _Objective:
    """The loss of one batch after the other; `parameters` are those besides the encoder's."""

    def __init__(
        self, torch: Any, settings: LearnedFeatures, encoder: Encoder, arrays: Any, actions: IntArray,
        weights: list[Any], rng: np.random.Generator,
    ) -> None:  # fmt: skip
        self._torch, self._encoder, self._arrays, self._actions = torch, encoder, arrays, actions
        self._weights, self._rng = weights, rng
        firsts = np.flatnonzero(actions >= 0)
        held = is_held_out(len(actions))[firsts]
        self._firsts = firsts[~held] if not held.all() else firsts
        self._others = firsts[held] if held.any() else firsts
        ends = np.flatnonzero(actions < 0)
        self._ends = ends[np.searchsorted(ends, np.arange(len(actions)))]  # the last row of each episode
        self.parameters: list[Any] = []
        self._loss = self._temporal
        if settings.by == INVERSE_DYNAMICS:
            self._loss, num = self._inverse, int(actions.max()) + 1
            shapes = (1, 1, 2 * settings.size, WIDTH), (1, 1, WIDTH, num)
            head = [_random_layer(rng, shape, 1) for shape in shapes]
            for layer in head:
                self.parameters += _parameters(torch, layer.weight[0, 0], layer.bias)

    def __call__(self) -> Any:
        """Returns the loss of the next batch."""
        return self._loss(self._rng.choice(self._firsts, BATCH), self._rng)

    def held_out(self) -> Any:
        """Returns the loss of steps that are not trained on, always of the same ones."""
        rng = np.random.default_rng(0)
        return self._loss(rng.choice(self._others, HELD_BATCH), rng)

    def _features(self, rows: IntArray) -> Any:
        """Returns z of observations, `[B, size]`."""
        torch, x = self._torch, self._encoder.inputs(self._arrays[rows])
        x = torch.tensor(x, dtype=torch.float32).permute(0, 3, 1, 2)
        for layer, (weight, bias) in zip(self._encoder.layers, self._weights, strict=True):
            if weight.shape[:2] == x.shape[2:]:  # the whole image at once is a product of matrices
                flat = x.permute(0, 2, 3, 1).reshape(len(x), -1)
                x = (flat @ weight.reshape(-1, bias.numel()) + bias)[:, :, None, None]
            else:
                kernel = weight.permute(3, 2, 0, 1)
                x = torch.nn.functional.conv2d(x, kernel, bias, stride=layer.stride)
            if layer is not self._encoder.layers[-1]:
                x = torch.relu(x)
        return x[:, :, 0, 0]

    def _temporal(self, rows: IntArray, rng: np.random.Generator) -> Any:
        torch = self._torch
        later = np.minimum(rows + rng.integers(1, HORIZON + 1, rows.size), self._ends[rows])
        near, far = self._features(rows), self._features(later)
        scores = 2 * near @ far.T - (near**2).sum(dim=1)[:, None] - (far**2).sum(dim=1)
        own, entropy = torch.arange(rows.size), torch.nn.functional.cross_entropy
        return entropy(scores, own) + entropy(scores.T, own)

    def _inverse(self, rows: IntArray, rng: np.random.Generator) -> Any:
        torch = self._torch
        before, after = self._features(rows), self._features(rows + 1)
        weight, bias, last_weight, last_bias = self.parameters
        hidden = torch.relu(torch.cat([before, after - before], dim=1) @ weight + bias)
        actions = torch.tensor(self._actions[rows])
        return torch.nn.functional.cross_entropy(hidden @ last_weight + last_bias, actions)


def _minimise(torch: Any, loss: _Objective, parameters: list[Any], settings: LearnedFeatures) -> None:
    """Sets the parameters to those on the way of a falling loss that are best on the held-out steps."""
    updates = settings.updates
    optimiser = torch.optim.AdamW(parameters, lr=RATE, weight_decay=DECAY)
    best, lowest = [part.detach().clone() for part in parameters], math.inf
    for update in range(updates):
        for group in optimiser.param_groups:
            group["lr"] = RATE * 0.5 * (1 + math.cos(math.pi * update / updates))
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()
        if (update + 1) % CHECKED == 0 or update + 1 == updates:
            with torch.no_grad():
                found = float(loss.held_out())
            if found < lowest:
                lowest, best = found, [part.detach().clone() for part in parameters]
    with torch.no_grad():
        for part, kept in zip(parameters, best, strict=True):
            part.copy_(kept)
