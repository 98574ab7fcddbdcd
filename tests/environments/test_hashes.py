"""Codes by hashing: signs of random projections, images made small, random features."""

from __future__ import annotations

import json

import gymnasium as gym
import numpy as np
import pytest

import rhocover as rc
from rhocover.environments.encoding import read_state_code, state_code_from_document
from rhocover.errors import InvalidArgumentError, InvalidDataError

BOX = gym.spaces.Box(0, 255, (16, 24, 3), np.uint8)


def again(code):
    return state_code_from_document(json.loads(json.dumps(code.document())), BOX)


def test_signs_agree_as_often_as_the_angle_says():
    """Two directions at an angle of pi/3 agree in 2/3 of the signs: 62 bits of 40 seeds, within 5 standard errors."""
    a, b = np.array([1.0, 0.0, 0.0]), np.array([0.5, np.sqrt(0.75), 0.0])
    differ = []
    for seed in range(40):
        code = rc.SimHash(62, seed=seed).fit([a, -a])  # centred on 0
        differ.append((code.key(a) ^ code.key(b)).bit_count())
    share, error = np.mean(differ) / 62, np.sqrt(2 / 9 / (40 * 62))
    assert abs(share - 1 / 3) <= 5 * error  # fails with probability 6e-7


def test_a_stored_hash_gives_the_same_keys_and_one_is_as_many():
    values = np.random.default_rng(0).normal(size=(200, 7))
    code = rc.SimHash(12, of=[0, 3, 5], seed=4).fit(values)
    keys = code.keys(values)
    assert keys.tolist() == [code.key(x) for x in values] == again(code).keys(values).tolist()
    assert 20 < len(set(keys.tolist())) <= 2**12
    assert code.name(5) == "hash 000000000101"


def test_cells_of_an_image_are_averages_in_levels():
    image = np.zeros((16, 24, 3), np.uint8)
    image[:8, :12] = 255
    code = rc.ImageCells((2, 2), levels=4)
    assert code.key(image) == bytes([3, 0, 0, 0])
    image[:8, 12:18] = 255  # half of the next cell
    assert code.key(image) == bytes([3, 2, 0, 0])
    assert again(code).key(image) == code.key(image)
    assert code.name(code.key(image)) == "image 0302/0000"
    grey = image[..., 0]
    assert rc.ImageCells((2, 2), 4, of=lambda o: o["view"]).key({"view": grey}) == bytes([3, 2, 0, 0])
    assert rc.ImageCells((2, 2), 4, of="view").key({"view": grey}) == bytes([3, 2, 0, 0])


def test_every_pixel_counts_once_where_cells_do_not_divide_the_image():
    image = np.random.default_rng(0).random((7, 5))
    code = rc.ImageCells((3, 2), levels=256, brightest=1.0)
    rows, columns = [(0, 2), (2, 4), (4, 7)], [(0, 2), (2, 5)]
    means = [image[a:b, c:d].mean() for a, b in rows for c, d in columns]
    assert list(code.key(image)) == [int(mean * 256) for mean in means]


def test_random_features_keep_distances_and_come_back_from_a_file():
    """Relative errors of squared lengths are sqrt(2/k) on average; 6 of those for the worst of 20 pairs."""
    values = np.random.default_rng(1).normal(size=(40, 500))
    features = rc.RandomFeatures(256, seed=2)
    before = ((values[::2] - values[1::2]) ** 2).sum(axis=1)
    seen = np.array([features(x) for x in values])
    after = ((seen[::2] - seen[1::2]) ** 2).sum(axis=1)
    assert np.abs(after / before - 1).max() <= 6 * np.sqrt(2 / 256)  # each beyond it with probability 2e-9
    net = rc.Net(5.0, of=features).fit(values)
    assert again(net).keys(values).tolist() == net.keys(values).tolist()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: rc.SimHash(0), "`bits`"),
        (lambda: rc.SimHash(63), "`bits`"),
        (lambda: rc.SimHash(seed=-1), "`seed`"),
        (lambda: rc.SimHash().fit([]), "`observations`"),
        (lambda: rc.SimHash().fit([[np.nan]]), "`observations`"),
        (lambda: rc.SimHash(4).fit([[1.0, 2.0]]).key([1.0]), "2 finite numbers"),
        (lambda: rc.ImageCells(8), "`shape`"),
        (lambda: rc.ImageCells(levels=1), "`levels`"),
        (lambda: rc.ImageCells(levels=999), "`levels`"),
        (lambda: rc.ImageCells(brightest=0), "`brightest`"),
        (lambda: rc.ImageCells(of=[1]), "`of`"),
        (lambda: rc.ImageCells().key(np.zeros((4, 4))), "shape"),
        (lambda: rc.ImageCells((1, 1)).key(np.full((4, 4), np.nan)), "not finite"),
        (lambda: rc.RandomFeatures(0), "`size`"),
        (lambda: read_state_code(rc.SimHash(), BOX), "fitted"),
    ],
)
def test_what_is_wrong_is_named(make, words):
    with pytest.raises(InvalidArgumentError, match=words):
        make()


@pytest.mark.parametrize("change", [{"bits": 99}, {"seed": -1}, {"centre": []}, {"of": "my.function"}])
def test_a_damaged_document_is_refused(change):
    code = rc.SimHash(4).fit([[1.0, 2.0]])
    with pytest.raises(InvalidDataError):
        state_code_from_document(code.document() | change, BOX)


def test_a_run_over_hashes_or_small_images_takes_its_steps():
    class Spot(gym.Env):
        """A bright spot on a line of 24 columns, moved left or right."""

        observation_space, action_space = BOX, gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.at = 0
            return self.image(), {}

        def step(self, action):
            self.at = min(max(self.at + 2 * action - 1, 0), 23)
            return self.image(), 0.0, False, False, {}

        def image(self):
            shown = np.zeros(BOX.shape, np.uint8)
            shown[:, max(self.at - 1, 0) : self.at + 2] = 255
            return shown

    for states in (rc.ImageCells((1, 8), 4), rc.SimHash(10, rollout_steps=50)):
        run = rc.explore(Spot(), 2.0, 400, model="from_scratch", states=states, seed=0)
        assert run.num_steps == 400
