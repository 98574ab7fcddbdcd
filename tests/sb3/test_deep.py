"""Encoders are trained: the same again from the same steps, blind to noise, and good enough to find a way by.

Needs torch, so it is not among the tests that everybody runs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rhocover as rc  # noqa: E402
from rhocover.environments.encoding import state_code_from_document  # noqa: E402
from rhocover.errors import InvalidArgumentError, InvalidDataError  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1] / "collecting"))
from mazes import Maze, snake  # noqa: E402

BOTH = ["temporal_distance", "inverse_dynamics"]


class NoisyMaze(Maze):
    """A maze seen through 32 opaque features, among as many numbers that are noise."""

    def __init__(self, size: int) -> None:
        super().__init__(snake(size), 32)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (64,), np.float32)

    def _shown(self) -> np.ndarray:
        return np.concatenate([super()._shown(), self.np_random.normal(size=32)]).astype(np.float32)


class PaintedMaze(Maze):
    """A maze shown as an image of 32 by 32 pixels: a bright disc at the point, on noise."""

    def __init__(self, size: int) -> None:
        super().__init__(snake(size))
        self.observation_space = gym.spaces.Box(0, 255, (32, 32, 3), np.uint8)

    def _shown(self) -> np.ndarray:
        image = self.np_random.integers(0, 60, (32, 32, 3))
        y, x = np.mgrid[:32, :32] + 0.5
        centre = self._at * 32 / len(self.is_wall)
        image[..., 0] += (190 * np.exp(-((y - centre[0]) ** 2 + (x - centre[1]) ** 2) / 8)).astype(int)
        return image.astype(np.uint8)


def walked(maze: Maze, num_steps: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns observations, actions and positions of a walk that holds its random actions for some steps."""
    rng = np.random.default_rng(seed)
    shown, places, actions, action = [maze.reset(seed=seed)[0]], [maze._at], [], 0
    for _ in range(num_steps):
        action = int(rng.integers(9)) if rng.random() < 0.25 else action
        shown.append(maze.step(action)[0])
        places.append(maze._at)
        actions.append(action)
    return np.array(shown), np.array([*actions, -1]), np.array(places)


def near_and_far(features: np.ndarray, places: np.ndarray) -> tuple[float, float]:
    """Returns the median distances of features at nearly the same place, and at places two cells apart."""
    rows = np.random.default_rng(0).choice(len(places), 400, replace=False)
    apart, found = (np.sqrt(((x[rows, None] - x[rows]) ** 2).sum(axis=2)) for x in (places, features))
    others = ~np.eye(rows.size, dtype=bool)
    return float(np.median(found[others & (apart < 0.1)])), float(np.median(found[apart > 2]))


@pytest.mark.parametrize(("make", "updates"), [(NoisyMaze, 400), (PaintedMaze, 100)])
def test_features_of_new_observations_follow_the_place_and_not_the_noise(make, updates):
    maze = make(7)
    shown, actions, _ = walked(maze, 2000)
    encoder = rc.LearnedFeatures(4, updates=updates).fit(shown, actions)
    fresh, _, places = walked(maze, 1000, seed=1)
    near, far = near_and_far(encoder.many(fresh), places)
    assert near < far / 4
    raw_near, raw_far = near_and_far(fresh.reshape(len(fresh), -1).astype(float), places)
    assert raw_near > raw_far / 2


@pytest.mark.parametrize("by", BOTH)
def test_the_same_steps_give_the_same_encoder_to_the_bit(by):
    shown, actions, _ = walked(NoisyMaze(7), 300)
    state = torch.random.get_rng_state()
    first, again, other = (
        rc.LearnedFeatures(3, by, seed=seed, updates=60).fit(shown, actions).many(shown) for seed in (0, 0, 1)
    )
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)
    assert torch.equal(torch.random.get_rng_state(), state)  # the caller's random numbers are untouched


def test_inverse_dynamics_learns_what_actions_change():
    """Two numbers move with the actions, two by themselves and much more."""
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 4, 3000)
    moves = np.array([(1, 0), (-1, 0), (0, 1), (0, -1)])[actions]
    places = np.concatenate([np.zeros((1, 2)), np.cumsum(moves, axis=0)])
    places = np.abs((places + 10) % 40 - 20)  # to and fro
    shown = np.concatenate([places, 10 * rng.normal(size=(len(places), 2))], axis=1)
    encoder = rc.LearnedFeatures(2, "inverse_dynamics", updates=800).fit(shown, np.append(actions, -1))
    moved, shaken = shown[:500].copy(), shown[:500].copy()
    moved[:, :2] += 5
    shaken[:, 2:] = 10 * rng.normal(size=(500, 2))
    by_place, by_noise = (
        np.median(np.abs(encoder.many(x) - encoder.many(shown[:500])).sum(axis=1)) for x in (moved, shaken)
    )
    assert by_noise < by_place


@pytest.mark.filterwarnings("ignore:The codes are too")
def test_a_net_of_learned_features_finds_its_way_where_raw_distances_do_not():
    """Noise makes one code of all raw observations, or as many codes as steps: neither leads anywhere."""
    shares = []
    for of in (None, rc.LearnedFeatures(updates=500)):
        maze = NoisyMaze(7)
        run = rc.explore(maze, 2.0, 8_000, model="from_scratch", states=rc.Net(of=of), seed=0)
        shares.append(maze.share)
    assert shares[1] > shares[0] + 0.2
    assert shares[1] > 0.7
    assert run.refits == (2000, 4000)


def test_images_are_explored_too():
    maze = PaintedMaze(5)
    of = rc.LearnedFeatures(4, updates=500)
    run = rc.explore(maze, 2.0, 6_000, model="from_scratch", states=rc.Net(of=of, rollout_steps=500), seed=0)
    assert maze.share > 0.9
    assert run.refits == (1000, 2000, 4000)


# A user's own module.


def module() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(5, 8), torch.nn.Dropout(0.5), torch.nn.Tanh(), torch.nn.Linear(8, 2)
    )


def test_a_module_is_a_function_in_evaluation_mode_without_gradients():
    values, net = np.random.default_rng(0).normal(size=(2500, 5)), module()
    code = rc.Net(0.1, of=net).fit(values)
    assert net.training  # as it was
    features = code.reader.many(values)
    assert features.shape == (2500, 2)
    assert features.dtype == np.float64
    net.eval()
    with torch.no_grad():
        assert np.allclose(features, net(torch.tensor(values, dtype=torch.float32)).numpy(), atol=1e-6)
    assert np.allclose(code.reader.one(values[7]), features[7], atol=1e-6)
    keys = code.keys(values)
    assert np.mean([code.key(value) == key for value, key in zip(values[:200], keys, strict=False)]) > 0.99


def test_a_module_is_named_in_a_document_and_must_be_passed_again():
    document = rc.Net(0.1, of=module()).fit(np.zeros((3, 5)) + np.arange(3)[:, None]).document()
    assert document["of"] == "torch.nn.modules.container.Sequential"
    with pytest.raises(InvalidDataError, match="Sequential"):
        state_code_from_document(document, gym.spaces.Box(-1, 1, (5,)))


@pytest.mark.parametrize("observations", [np.zeros((4, 3)), [{"a": 1.0}, {"a": 2.0}]])
def test_what_a_module_cannot_read_is_refused(observations):
    with pytest.raises(InvalidArgumentError, match="of"):
        rc.Net(0.1, of=module()).fit(observations)
