"""Calls of the public functions as users write them: a type checker accepts them, and refuses those marked.

Nothing here is run. `make check` reads it: a call that is not accepted is an error, and so is a mark that is not
needed because the call would be accepted.
"""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true, reportUnknownMemberType=false
# pyright: reportMissingTypeStubs=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, assert_type

import gymnasium as gym
import numpy as np
from matplotlib.figure import Figure

import rhocover as rc


def of_models(mdp: rc.MDP, weights: list[list[float]]) -> None:
    best = assert_type(rc.plan(mdp, 2.0), rc.Plan)
    rc.plan(mdp, np.inf, np.ones((6, 2)), method="leximin", start=0, horizon=3)
    rc.plan(mdp, 1, weights, start=[0.5, 0.5], warm=best.potential)
    rc.plan(mdp)
    rc.plan(mdp, mu="transition_std")
    rc.plan(mdp, mu=rc.weights.model_error)
    assert_type(rc.Plan.load("plan.safetensors"), rc.Plan)
    kept = assert_type(rc.at_least(weights, 0.9 * rc.best(mdp, weights)), rc.Condition)
    rc.plan(mdp, 2.0, cover="states", subject_to=[kept, rc.within(np.ones(6), 0.1, 0.2, name="edge")])
    rc.plan(mdp, 2.0, cover=np.arange(6), subject_to=rc.at_most(lambda model: np.ones(model.num_states), 1))
    assert_type(rc.tradeoff(mdp, 2.0, weights, cover="states", num_points=5), rc.Tradeoff)
    rc.plan(mdp, 2.0, subject_to="cost")  # pyright: ignore[reportArgumentType]
    rc.at_most(weights, "0.4")  # pyright: ignore[reportArgumentType]
    rc.plan(mdp, 2.0, method="interior")  # pyright: ignore[reportArgumentType]
    designed = assert_type(rc.plan_features(mdp, phi=np.ones((6, 2, 3)), design="D"), rc.FeaturePlan)
    assert_type(designed.efficiency, float)
    rc.plan_features(
        mdp, np.inf, phi=lambda model: np.eye(model.num_pairs), mu="identity", method="corrective"
    )
    rc.plan_features(mdp, phi=np.ones((12, 2)), method="newton")  # pyright: ignore[reportArgumentType]
    rc.plan_features(mdp)  # pyright: ignore[reportCallIssue]
    rc.plan("river_swim", 2.0)  # pyright: ignore[reportArgumentType]
    rc.plan(mdp, "2")  # pyright: ignore[reportArgumentType]
    assert_type(rc.budget(mdp, visits=3, policy=best.policy), rc.Budget)
    rc.budget(mdp, visits=weights, start=2)
    rc.budget(mdp, model_error="small")  # pyright: ignore[reportArgumentType]


def of_runs(mdp: rc.MDP, env: gym.Env[Any, Any], vector: gym.vector.VectorEnv[Any, Any, Any]) -> None:
    assert_type(rc.explore(mdp, 2.0, 1000), rc.Run)
    rc.explore(mdp, num_steps=1e4, mu=rc.weights.model_error, seed=None)
    rc.explore(mdp, num_steps="1e4")  # pyright: ignore[reportArgumentType]
    rc.explore(mdp, 2.0, 1000, "model_error", model="learned", until=rc.EveryPair(10))
    rc.explore(mdp, 2.0, 1000, model=rc.Learned(sample=True), explorer=rc.Feedback())
    rc.explore(mdp, 2.0, 1000, explorer=rc.Algorithm1(), schedule=rc.Doubling(10))
    rc.explore(mdp, 2.0, 1000, mu=lambda estimate: np.ones(estimate.num_pairs), model="posterior")
    rc.explore(env, 2.0, 1000, states=rc.Bins(8), actions=[0, 1], model="from_scratch", held_out=rc.Net())
    rc.explore(vector, 2.0, 1000, states=lambda seen: (int(seen[0]), 3), model="learned")
    rc.explore(mdp, 2.0, 1000, model="guessed")  # pyright: ignore[reportArgumentType]
    rc.explore(mdp, 2.0, 1000, explorer=3)  # pyright: ignore[reportArgumentType]
    rc.explore(mdp, 2.0, 1000, until=10)  # pyright: ignore[reportArgumentType]
    rc.explore(mdp, 2.0, 1000, report=print)
    rc.explore(mdp, 2.0, 1000, report=len)  # pyright: ignore[reportArgumentType]
    rc.explore(3, 2.0, 1000)  # pyright: ignore[reportArgumentType]
    rc.explore("FrozenLake-v1", 2.0, 1000, workers=4, executor=rc.engines.process(2))
    rc.explore(lambda: gym.make("FrozenLake-v1"), 2.0, 1000, workers=4)
    assert_type(rc.resume(Path("run"), explorer="feedback"), rc.Run)


def of_data(env: gym.Env[Any, Any], columns: dict[str, list[int]], frame: Any) -> None:
    data = assert_type(rc.collect(env, 2.0, 1000, out="data", states=rc.QuantileBins(8)), rc.Collection)
    rc.collect(env, 2.0, 1000)  # pyright: ignore[reportCallIssue]
    rc.collect("FrozenLake-v1", 2.0, 1000, out="data", workers=4, executor=rc.engines.process(2))
    rc.collect(lambda: gym.make("FrozenLake-v1"), 2.0, 1000, out="data", workers=4)
    for given in (data, data.tally, data.audit, columns, frame, "data.parquet", Path("data.csv")):
        assert_type(rc.audit(given, 2.0), rc.Audit)
        assert_type(rc.top_up(given, num_steps=10), rc.TopUp)
    rc.audit(([0, 1], [0, 1], [1, 0], [False, False]), model=env)
    rc.audit([Path("part-0.parquet"), "part-1.parquet"], columns={"s": ("x", "y"), "a": "move"})
    rc.audit([{"observations": [0, 1], "actions": [0]}])
    rc.audit(columns, columns={"s": 3})  # pyright: ignore[reportArgumentType]
    rc.audit(3)  # pyright: ignore[reportArgumentType]
    rc.audit(rc.CountVisits(env).visits, states=rc.SimHash(8))
    rc.top_up(data, env, num_steps=10, out=Path("more"), model="learned")


def of_comparisons(mdp: rc.MDP, make: Callable[[], gym.Env[Any, Any]]) -> None:
    rc.compare("river_swim", "feedback", rho=[1, 2.0], seeds=[3, 4])
    rc.compare([mdp, "wheel"], ["feedback", rc.Tracking()], rho=np.inf, seeds=3, mu=rc.weights.uniform)
    rc.compare({"mine": mdp}, {"slow": rc.Stationary()}, mu={"mine": np.ones((6, 2))}, model="learned")
    rc.compare(make, states={"mine": rc.Bins(4)}, held_out=rc.Bins(9))
    rc.compare(mdp, "feedback", shard="3/64", out="runs")
    rc.compare(mdp, "feedback", executor=ThreadPoolExecutor(2)).table()
    rc.compare(mdp, "feedback", shard=3)  # pyright: ignore[reportArgumentType]
    rc.compare(mdp, "feedback", rho="2")  # pyright: ignore[reportArgumentType]
    rc.compare(mdp, 7)  # pyright: ignore[reportArgumentType]


def of_results(run: rc.Run, found: rc.Comparison) -> None:
    assert_type(run.plot("ratio", title="Mine"), Figure)
    assert_type(found.plot("regret", env="river_swim", rho=2), Figure)
    assert_type(run.report("run.html"), Path)
    run.to_pandas("trace").head()
    run.to_polars().head()
    run.plot(3)  # pyright: ignore[reportArgumentType]
