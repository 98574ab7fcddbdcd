"""Seeds of any size: what is stored holds them, and small ones mean what they meant."""

from __future__ import annotations

import json

import pytest
from gymnasium.vector import SyncVectorEnv
from toy_environments import Counted, Failing, contents, limited

import rhocover as rc
from rhocover.collecting import stepping
from rhocover.errors import EnvironmentFailedError, InvalidArgumentError
from tiers import tiered

LEARNED = {"model": "learned", "dataset_id": "test/set-v0"}


@pytest.mark.parametrize("seed", tiered([2**63 - 1, 2**63, 2**64 + 5, 2**200]), ids=str)
@pytest.mark.parametrize("is_vector", tiered([False, True]))
def test_a_collection_with_a_seed_of_any_size_is_gone_on_with(seed, is_vector, tmp_path, monkeypatch):
    monkeypatch.setattr(stepping, "BETWEEN", 20)

    def env(at: int = 0):
        make = [lambda: limited(6), lambda: Failing(limited(6), at)]
        return SyncVectorEnv(make) if is_vector else make[1]()

    found = rc.collect(env(), 2.0, 100, out=tmp_path / "whole", seed=seed, **LEARNED)
    with pytest.raises(EnvironmentFailedError):
        rc.collect(env(30), 2.0, 100, out=tmp_path / "out", seed=seed, **LEARNED)
    rc.collect(env(), 2.0, 100, out=tmp_path / "out", seed=seed, resume=True, **LEARNED)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert json.loads((tmp_path / "out" / "datasheet.json").read_text())["settings"]["seed"] == seed
    assert f"seed={seed}" in found.datasheet["repeat"]


@pytest.mark.parametrize("seed", [0, 7, 2**31, 2**62])
def test_an_environment_gets_the_seed_of_the_run_where_files_can_hold_it(seed):
    env = Counted(limited(6))
    rc.explore(env, 2.0, 20, seed=seed, model="learned")
    assert env.paper[0][:2] == ("reset", seed)


def test_two_large_seeds_are_two_seeds():
    assert stepping.first_seed(2**64) != stepping.first_seed(2**64 + 1)
    assert 0 <= stepping.first_seed(2**64) < 2**31


@pytest.mark.parametrize("ask", [
    lambda seed: rc.explore(rc.envs.river_swim(), 2, 100, seed=seed),
    lambda seed: rc.explore(limited(6), 2, 100, model="learned", seed=seed),
    lambda seed: rc.envs.garnet(seed=seed),
], ids=["a model", "an environment", "garnet"])  # fmt: skip
def test_a_seed_that_no_file_would_write_out_is_refused_at_the_door(ask):
    """Python does not write out more than some thousand digits."""
    ask(2**1000)
    with pytest.raises(InvalidArgumentError, match=r"`seed` must be at most .* bits"):
        ask(10**5000)
