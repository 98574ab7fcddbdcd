"""Grids of any number of dimensions and of any number of bins: collected, gone on with, audited, counted."""

from __future__ import annotations

import json

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv
from toy_environments import NUM_STATES, Failing, Ring, contents, visits_of_tally

import rhocover as rc
from rhocover.environments.encoding import bins, read_state_code, state_code_from_document
from rhocover.environments.encoding.axes import MAX_KEYS, cell_of, num_keys, wide_key, wide_type
from rhocover.errors import EnvironmentFailedError, InvalidArgumentError
from tiers import tiered

LEARNED = {"model": "learned"}


def wide_ring(dimensions: int) -> gym.Env:
    """Returns a ring that shows its state in the last of so many numbers, and its parity in the first."""

    def shown(state: int, time: int) -> np.ndarray:
        array = np.full(dimensions, 0.5, np.float32)
        array[0], array[-1] = state % 2, state
        return array

    return Ring(shown, spaces.Box(0.0, NUM_STATES, (dimensions,), np.float32))


def counts(dimensions: int, rest: int) -> tuple[int, ...]:
    return (2, *[rest] * (dimensions - 2), NUM_STATES)


def bits_ring() -> gym.Env:
    def shown(state: int, time: int) -> np.ndarray:
        return np.array([state >> k & 1 for k in range(100)], np.int8)

    return Ring(shown, spaces.MultiBinary(100))


GRIDS = {
    "65 dimensions, few bins": (lambda: wide_ring(65), rc.Bins(counts(65, 1))),
    "200 dimensions, few bins": (lambda: wide_ring(200), rc.Bins(counts(200, 1))),
    "70 dimensions, 10^30 bins": (lambda: wide_ring(70), rc.Bins(counts(70, 3))),
    "30 dimensions, 10^28 bins": (lambda: wide_ring(30), rc.Bins(counts(30, 9))),
    "1500 dimensions, 10^700 bins": (lambda: wide_ring(1500), rc.Bins(counts(1500, 3))),
    "100 bits": (bits_ring, None),
}


@pytest.mark.parametrize("name", tiered(list(GRIDS)))
def test_a_grid_of_any_size_is_collected_and_gone_on_with_and_audited(name, tmp_path):
    make, states = GRIDS[name]
    settings = {"states": states, "dataset_id": "test/set-v0"} | LEARNED
    found = rc.collect(make(), 2.0, 150, out=tmp_path / "whole", **settings)
    with pytest.raises(EnvironmentFailedError):
        rc.collect(Failing(make(), 70), 2.0, 150, out=tmp_path / "out", **settings)
    rc.collect(make(), 2.0, 150, out=tmp_path / "out", resume=True, **settings)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    audit = rc.audit(tmp_path / "whole", 2.0)  # by the bins that the datasheet holds
    assert visits_of_tally(audit.tally) == visits_of_tally(found.tally)
    plain = plain_ring_visits(is_coded=states is not None)
    assert sorted(found.tally.counts.sum(axis=1)) == sorted(plain.sum(axis=1))
    audit.save(tmp_path / "audit.safetensors")
    json.loads((tmp_path / "whole" / "datasheet.json").read_text())


def test_the_page_of_a_large_grid_does_not_list_its_edges(tmp_path, real_pages):
    make, states = GRIDS["1500 dimensions, 10^700 bins"]
    found = rc.collect(make(), 2.0, 50, out=tmp_path / "out", states=states, **LEARNED)
    assert "x750" not in found.page.read_text("utf-8")


def plain_ring_visits(*, is_coded: bool) -> np.ndarray:
    """Returns the visits of the same run on a ring that shows its number; codes are searched step by step."""
    return rc.explore(Ring(), 2.0, 150, states=int if is_coded else None, **LEARNED).tally.counts


def test_more_bins_than_can_be_numbered_are_met_so_far(tmp_path):
    make, states = GRIDS["70 dimensions, 10^30 bins"]
    run = rc.explore(make(), 2.0, 400, states=states, **LEARNED)
    assert run.is_open
    assert (
        run.coverage_text == "21 of 21 pairs of the 7 bins met so far (there are more than can be numbered)"
    )
    assert len(set(run.tally.state_names)) == NUM_STATES


@pytest.mark.thorough
def test_a_top_up_goes_on_in_a_grid_of_any_size(tmp_path):
    make, states = GRIDS["1500 dimensions, 10^700 bins"]
    rc.collect(make(), 2.0, 100, out=tmp_path / "old", states=states, **LEARNED)
    added = rc.top_up(tmp_path / "old", make(), 100, out=tmp_path / "new")
    assert added.after is not None
    assert added.after.num_steps == 200


@pytest.mark.parametrize("name", list(GRIDS))
def test_wrappers_count_in_a_grid_of_any_size(name):
    make, states = GRIDS[name]
    single, paid = rc.CountVisits(make(), states), rc.CoverageReward(make(), 2.0, states=states)
    many = rc.CountVisitsVector(SyncVectorEnv([make, make]), states)
    for env, actions in ((single, [0] * 30), (paid, [0] * 30), (many, [np.zeros(2, int)] * 30)):
        env.reset(seed=0)
        for action in actions:
            _, _, ended, _, _ = env.step(action)
            if env is not many and ended:
                env.reset()
    assert single.visits.num_steps == 30
    assert single.visits.as_dict() == paid.visits.as_dict()
    assert 1 < len(many.visits.keys) <= NUM_STATES


@pytest.mark.parametrize("shape", [(3,), (2, 3, 4), (1,) * 70 + (5,), (2,) * 62])
def test_numbers_without_gaps_are_those_of_a_ravelled_array(shape):
    total = num_keys(shape)
    assert total == np.prod(shape, dtype=object)
    for key in {0, 1, total // 2, total - 1}:
        cell = cell_of(key, shape)
        place = 0
        for number, count in zip(cell, shape, strict=True):
            place = place * count + number
        assert place == key
        if len(shape) < 60:
            assert cell == tuple(int(n) for n in np.unravel_index(key, shape))
    assert cell_of(total, shape) is None
    assert cell_of(-1, shape) is None


@pytest.mark.parametrize("shape", [(2,) * 63, (300,) * 10, (10**6,) * 5, (2**40,) * 3])
def test_a_wide_number_is_that_of_one_cell_and_no_other(shape):
    assert num_keys(shape) is None
    kind = wide_type(shape)
    rng = np.random.Generator(np.random.PCG64(0))
    cells = {tuple(int(rng.integers(count)) for count in shape) for _ in range(50)}
    keys = {wide_key(cell, kind): cell for cell in cells}
    assert len(keys) == len(cells)
    assert all(cell_of(key, shape) == cell for key, cell in keys.items())
    assert cell_of(256 ** (kind.itemsize * len(shape)), shape) is None
    assert cell_of(-1, shape) is None
    assert cell_of(wide_key((shape[0], *[0] * (len(shape) - 1)), np.dtype(">u8")), shape) is None


def test_the_largest_grid_without_gaps_has_2_to_the_62_bins():
    assert num_keys((2,) * 62) == MAX_KEYS
    assert num_keys((2,) * 63) is None


def test_pictures_with_a_bin_for_each_pixel_are_states():
    """2^12288 bins: no float holds that number, and Python does not write it out."""
    space = spaces.Box(0, 255, (64, 64, 3), np.uint8)
    code = read_state_code(rc.Bins(2), space)
    black, white = np.zeros(space.shape, np.uint8), np.full(space.shape, 255, np.uint8)
    assert code.num_keys is None
    assert code.key(black) == 0
    assert code.key(white) == int.from_bytes(b"\x01" * black.size, "big")
    assert len(code.name(code.key(white))) < 200
    assert code.name(code.key(white)) != code.name(code.key(white) - 1)
    with pytest.raises(InvalidArgumentError, match="`key` must be the number of a bin, got 0x"):
        code.name(1 << 10**6)


@pytest.mark.parametrize("name", list(GRIDS))
def test_a_file_says_which_grid_it_was(name):
    make, states = GRIDS[name]
    space = make().observation_space
    code = read_state_code(states, space)
    again = state_code_from_document(json.loads(json.dumps(code.document())), space)
    shown = make().reset(seed=0)[0]
    assert (again, again.key(shown)) == (code, code.key(shown))


def test_outside_a_wide_grid_an_observation_is_refused_with_its_number():
    code = read_state_code(rc.Bins(3), spaces.Box(0.0, 1.0, (70,)))
    wrong = np.full(70, 0.5)
    wrong[69] = 2.0
    with pytest.raises(InvalidArgumentError, match="x69 = 2, expected"):
        code.key(wrong)
    with pytest.raises(InvalidArgumentError, match="must be 70 numbers, got 69"):
        code.key(wrong[:69])
    with pytest.raises(InvalidArgumentError, match="call `key` for each"):
        code.keys([wrong])


def test_edges_that_would_fill_the_memory_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setattr(bins, "MAX_EDGES", 1000)
    with pytest.raises(InvalidArgumentError, match=r"`counts` must be at most 1000 bins.*got 2000 in 20"):
        read_state_code(rc.Bins(100), spaces.Box(0.0, 1.0, (20,)))


@pytest.mark.parametrize("key", tiered([2**62, 2**63, 2**70, -(2**70), 1 << 20_000]), ids="abcde")
def test_a_function_may_give_numbers_of_any_size(key, tmp_path, real_pages):
    found = rc.collect(Ring(), 2.0, 200, out=tmp_path / "out", states=lambda o: key + int(o), **LEARNED)
    assert {state - key for state in found.tally.keys} == set(range(NUM_STATES))
    rc.audit(tmp_path / "out", 2.0, states=lambda o: key + int(o)).save(tmp_path / "audit.safetensors")


def test_weights_of_a_grid_that_nobody_can_list_are_refused_at_the_door():
    make, states = GRIDS["30 dimensions, 10^28 bins"]
    with pytest.raises(InvalidArgumentError, match="`mu` as an array needs numbered states"):
        rc.explore(make(), 2.0, 10, mu=np.ones((2, 3)), states=states, **LEARNED)


def test_a_random_rollout_that_would_fill_the_memory_is_refused_before_its_first_step():
    env = Failing(Ring(space=spaces.Box(0, 255, (210, 160, 3), np.uint8)), 1)
    with pytest.raises(
        InvalidArgumentError, match=r"would keep 8.06 GB.*rollout_steps=.*`states` as a function"
    ):
        rc.explore(env, 2.0, 10, states=rc.QuantileBins(3), **LEARNED)
