"""Encoders: applied exactly, one by one or all at once, and stored as numbers. Training is in tests/sb3."""

from __future__ import annotations

import json
from unittest import mock

import gymnasium as gym
import numpy as np
import pytest

import rhocover as rc
from rhocover.documents import from_document, to_document
from rhocover.environments.encoding import encoders, state_code_from_document, training
from rhocover.environments.encoding.encoders import Encoder, as_arrays, network_inputs
from rhocover.errors import (
    FileFormatError,
    InvalidArgumentError,
    InvalidDataError,
    MissingExtraError,
    RhocoverWarning,
)

SHAPES = [(5,), (20, 33, 3), (3, 4), (17, 19), (3, 24, 24), (70, 150, 2), ()]


def observations(shape: tuple[int, ...], num: int = 7, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if len(shape) > 1 and max(shape) >= 16:
        return rng.integers(0, 256, (num, *shape)).astype(np.uint8)
    return rng.normal(size=(num, *shape))


def untrained(shape: tuple[int, ...], size: int = 3, seed: int = 0) -> Encoder:
    """Returns an encoder with random weights, as training begins with."""
    settings = rc.LearnedFeatures(size, seed=seed)
    return training._untrained(settings, observations(shape), np.random.default_rng(seed))


def by_sums(encoder: Encoder, x: np.ndarray) -> np.ndarray:
    """Returns the features of inputs `[T, H, W, c]` by sums over windows."""
    for layer in encoder.layers:
        windows = np.lib.stride_tricks.sliding_window_view(x, layer.weight.shape[:2], axis=(1, 2))
        windows = windows[:, :: layer.stride, :: layer.stride]
        x = np.einsum("tijcab,abck->tijk", windows, layer.weight) + layer.bias
        x = x if layer is encoder.layers[-1] else np.maximum(x, 0)
    return x[:, 0, 0]


@pytest.mark.parametrize("shape", SHAPES)
def test_an_encoder_is_its_sums_over_windows(shape):
    values, encoder = observations(shape), untrained(shape)
    inputs = (network_inputs(values) - encoder.mean) / encoder.scale
    assert np.allclose(encoder.many(values), by_sums(encoder, inputs), rtol=1e-12, atol=1e-12)
    assert encoder.many(values).std(axis=0).min() > 0


@pytest.mark.parametrize("shape", SHAPES)
def test_one_by_one_is_as_all_at_once_to_the_bit_also_from_a_document(shape):
    values, encoder = observations(shape, 300), untrained(shape)
    features = encoder.many(values)
    assert np.array_equal(np.array([encoder(value) for value in values[:20]]), features[:20])
    again = from_document(Encoder, json.loads(json.dumps(to_document(encoder))), "the encoder")
    assert np.array_equal(again.many(values), features)


def test_large_images_are_averaged_without_rounding_and_channels_may_come_first():
    image = observations((130, 150, 3), 2)
    small = network_inputs(image)
    assert small.shape == (2, 43, 50, 3)
    assert small[1, 2, 3, 1] == image[1, 6:9, 9:12, 1].astype(int).sum() / 9
    assert np.array_equal(network_inputs(np.moveaxis(image, -1, 1)), small)


def test_dictionaries_are_joined_and_texts_left_out():
    shown = [{"a": np.array([1.0, 2.0]), "text": "north", "b": 3}, {"b": 1, "a": np.zeros(2), "text": ""}]
    encoders._joiner.cache_clear()  # which warns once
    with pytest.warns(RhocoverWarning, match="'text'"):
        assert as_arrays(shown).tolist() == [[1, 2, 3], [0, 0, 1]]


@pytest.mark.parametrize("code", [rc.Net(0.5), rc.SimHash(5)])
def test_a_code_of_an_encoder_is_stored_and_applied_exactly(code):
    values, encoder = observations((5,), 200), untrained((5,))
    made = type(code)(getattr(code, "radius", 5), of=encoder).fit(values)
    keys = made.keys(values)
    assert len(set(keys.tolist())) > 2
    document = json.loads(json.dumps(made.document()))
    again = state_code_from_document(document, gym.spaces.Box(-1, 1, (5,)))
    assert np.array_equal(again.keys(values), keys)
    assert [again.key(value) for value in values] == keys.tolist()
    document["of"]["layers"][0]["bias"]["float32"] = "AAAA"
    with pytest.raises((InvalidDataError, FileFormatError), match=r"of\.layers\[0\]\.bias"):
        state_code_from_document(document, gym.spaces.Box(-1, 1, (5,)))


def broken(**changes) -> Encoder:
    good = untrained((5,))
    fields = {name: getattr(good, name) for name in ("by", "shape", "mean", "scale", "layers")}
    return Encoder(**fields | changes)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: rc.LearnedFeatures(0), "`size`"),
        (lambda: rc.LearnedFeatures(by="magic"), "temporal_distance"),
        (lambda: rc.LearnedFeatures(updates=0), "`updates`"),
        (lambda: rc.LearnedFeatures().fit([[1.0]]), "`observations`"),
        (lambda: rc.LearnedFeatures().fit([[1.0], [np.nan]]), "`observations`"),
        (lambda: rc.LearnedFeatures().fit(["a", "b"]), "`observations`"),
        (lambda: rc.LearnedFeatures(by="inverse_dynamics").fit([[1.0], [2.0]]), "`actions`"),
        (lambda: rc.LearnedFeatures().fit([[1.0], [2.0]], [0.5, 1.0]), "`actions`"),
        (lambda: rc.LearnedFeatures().fit([[1.0], [2.0]], [-1, 0]), "`actions`"),
        (lambda: rc.SimHash(of=rc.LearnedFeatures()), "`of`"),
        (lambda: untrained((5,))(np.zeros(4)), "trained on"),
        (lambda: broken(scale=np.zeros(5)), "scale"),
        (lambda: broken(layers=untrained((4,)).layers), "fit together"),
        (lambda: broken(layers=()), "one row"),
    ],
)
def test_what_makes_no_encoder_is_refused(call, said):
    with pytest.raises(InvalidArgumentError, match=said):
        call()


def test_without_torch_the_message_has_the_line_to_install_it():
    with (
        mock.patch.dict("sys.modules", {"torch": None}),
        pytest.raises(MissingExtraError, match=r"rhocover\[deep\]"),
    ):
        rc.Net(of=rc.LearnedFeatures()).fit(np.zeros((10, 2)))
