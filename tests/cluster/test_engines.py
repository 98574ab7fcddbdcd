"""Processes of this machine as an executor, and engines on the command line."""

from __future__ import annotations

import os
import signal
import sys

import numpy as np
import pytest

import rhocover as rc
from rhocover.executors import run_calls

LINE = "explore river_swim --steps 3200 --workers 4 --json"


def die_once(path, number):
    """Kills its own process the first time that it is called."""
    if not os.path.exists(path):
        with open(path, "w"):
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


@pytest.mark.thorough
def test_a_killed_process_is_replaced_and_its_calls_are_made_again(tmp_path):
    calls = [(str(tmp_path / "mark"), k) for k in range(6)]
    with rc.engines.process(2) as engine, pytest.warns(rc.errors.WorkerWarning, match="New workers continue"):
        found = dict(run_calls(engine, die_once, calls, [f"call {k}" for k in range(6)]))
    assert found == {k: k * k for k in range(6)}


@pytest.mark.thorough
def test_a_run_on_processes_is_the_run_of_this_one():
    given = {"num_steps": 8000, "workers": 4, "model": "learned", "seed": 1}
    run = rc.explore(rc.envs.river_swim(), **given)
    with rc.engines.process(2) as engine:
        other = rc.explore(rc.envs.river_swim(), **given, executor=engine)
    np.testing.assert_array_equal(run.moves, other.moves)


def test_a_process_that_nobody_needs_is_not_started():
    with rc.engines.process(2) as engine:
        assert engine._pool is None  # pyright: ignore


def test_ray_is_never_started_unasked(monkeypatch):
    """Without the package nothing is imported, and the environment is as before."""
    monkeypatch.setitem(sys.modules, "ray", None)
    before = dict(os.environ)
    for address in (None, "local", "head:6379"):
        with pytest.raises(rc.errors.MissingExtraError, match=r"rhocover\[ray\]"):
            rc.engines.ray(address)
        assert dict(os.environ) == before


@pytest.mark.parametrize("address", [3, b"head", ["head"]])
def test_an_address_is_text(address):
    with pytest.raises(rc.errors.InvalidArgumentError, match="`address` must be text"):
        rc.engines.ray(address)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--engine dask", "must be process, process:N or ray"),
        ("--engine process:0", "must name a number of processes"),
        ("--engine process:two", "must name a number of processes"),
        ("--engine ray:3", "must be process, process:N or ray"),
        ("--engine ray", "Add --address HOST:PORT"),
        ("--engine process --address local", "Leave it out, or use --engine ray"),
        ("--address local", "Add --engine ray"),
    ],
)
def test_wrong_engines_are_refused_with_advice(rhocover, options, words):
    result = rhocover(f"{LINE} {options}")
    assert result.code == 2
    assert words in " ".join(result.err.split())


@pytest.mark.thorough
def test_every_command_with_an_engine_gives_what_it_gives_without(rhocover, tmp_path):
    rng = np.random.default_rng(0)
    columns = {"s": rng.integers(0, 5, 300), "a": rng.integers(0, 2, 300), "s_next": rng.integers(0, 5, 300)}
    np.savez("steps.npz", **columns, done=np.zeros(300, bool))
    for line in (LINE, "compare river_swim --steps 200 --seeds 2 --json", "audit steps.npz --json"):
        plain, engine = rhocover(line), rhocover(f"{line} --engine process:1")
        assert plain.code == engine.code == 0
        assert untimed(plain.out) == untimed(engine.out)


def untimed(text):
    return [line for line in text.splitlines() if "seconds" not in line]
