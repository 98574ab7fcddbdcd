"""A model, an environment and a vector of environments are worlds: one call runs an explorer in each."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import rhocover as rc
from rhocover.collecting.env_run import read_env_run
from rhocover.collecting.worlds import open_environment
from rhocover.exploring import problem as problem_module
from rhocover.exploring.runs.explore import ModelWorld
from rhocover.exploring.runs.runner import Storage, run
from rhocover.exploring.runs.spec import Encoding, RunSpec, read_model_run
from rhocover.exploring.worlds import RunWorld, World
from rhocover.planning.problem import Objective, PlanningProblem

SPEC = RunSpec(Objective(2.0), 300, model="learned", seed=3)


def lake() -> gym.Env:
    return gym.make("FrozenLake-v1")


def lakes() -> gym.vector.VectorEnv:
    return gym.make_vec("FrozenLake-v1", num_envs=3)


def worlds() -> dict[str, tuple[World, RunSpec]]:
    """Returns a world of each kind before its first step, and its spec."""
    model = read_model_run(rc.MDP.from_gymnasium(lake()), SPEC)
    envs = {"one": read_env_run(lake(), SPEC, Encoding()), "vector": read_env_run(lakes(), SPEC, Encoding())}
    found = {name: (open_environment(asked), asked.spec) for name, asked in envs.items()}
    return {"model": (ModelWorld(model), model.spec), **found}


@pytest.mark.parametrize("kind", ["model", "one", "vector"])
def test_every_world_has_all_that_the_protocol_asks_for(kind):
    world, _ = worlds()[kind]
    asked = {
        name for kind in (RunWorld, World) for name in (*vars(kind), *kind.__annotations__) if name[0] != "_"
    }
    assert asked >= {"num_chains", "problem", "start", "follow", "advance", "marks", "measure", "result"}
    assert not [name for name in asked if not hasattr(world, name)]


@pytest.mark.parametrize("kind", ["model", "one", "vector"])
def test_one_call_runs_an_explorer_in_every_world_and_reports_at_its_marks(kind):
    world, spec = worlds()[kind]
    heard: list[int] = []
    found = run(world, spec, Storage(lambda done, total: heard.append(done)))
    assert heard == sorted(heard)
    assert heard[-1] == found.num_steps == 300
    assert found.trace["steps"].tolist() == world.marks(spec)


@pytest.mark.parametrize(("kind", "make"), [("one", lake), ("vector", lakes)])
def test_explore_is_that_call(kind, make):
    world, spec = worlds()[kind]
    found, same = run(world, spec, Storage()), rc.explore(make(), 2.0, 300, model="learned", seed=3)
    np.testing.assert_array_equal(found.tally.counts, same.tally.counts)


def test_a_problem_is_read_once_for_each_plan(monkeypatch):
    """Mutant: a plan that reads the problem again, which it was given checked."""
    read, planned = PlanningProblem.read.__func__, problem_module.plan_problem
    calls = {"read": 0, "planned": 0}

    def counted_read(cls, *given):
        calls["read"] += 1
        return read(cls, *given)

    def counted_plan(*given):
        calls["planned"] += 1
        return planned(*given)

    monkeypatch.setattr(PlanningProblem, "read", classmethod(counted_read))
    monkeypatch.setattr(problem_module, "plan_problem", counted_plan)
    rc.explore(rc.envs.river_swim(), 2.0, 2000, model=rc.Learned(discovery=False), explorer="tracking")
    assert calls["planned"] > 5
    assert calls["read"] == calls["planned"]
