"""How fast is acting? Nanoseconds a step, beside a Python loop over Gymnasium's FrozenLake.

The simulator plays the same 16-state model as the loop. Feedback's time includes bringing its scores up
to date, and leaves out the trace, planning, and re-planning on the counts, which are reported beside it.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

import rhocover as rc
from benchmarks import models, report
from rhocover.exploring.belief import KnownModel
from rhocover.exploring.explorers import feedback
from rhocover.exploring.problem import Problem, make_problem
from rhocover.exploring.runs.result import measure
from rhocover.exploring.runs.runner import Runner, begin
from rhocover.exploring.worlds import SamplePolicy, Visits
from rhocover.exploring.worlds.simulator import Simulator
from rhocover.planning.problem import Objective

STEPS, LOOP_STEPS = 10_000_000, 30_000
REPEATS = 3  # the fastest counts: what else the machine does only adds


def run() -> None:
    gym_step, lake = gymnasium_loop()
    rows = [measured(name, mdp) for name, mdp in (
        ("frozen lake 4x4", lake), ("river_swim(6)", rc.envs.river_swim()),
        ("grid 10x10", models.slippery_grid(10)), ("grid 100x100", models.slippery_grid(100)),
    )]  # fmt: skip
    rows[0]["Gymnasium loop, ns"] = gym_step
    found = {row["model"]: row for row in rows}
    faster = gym_step / found["frozen lake 4x4"]["simulator, ns"]
    shares = {name: row["simulator, ns"] / row["feedback, ns"] for name, row in found.items()}
    small, large = (found[name]["feedback, ns"] for name in ("river_swim(6)", "grid 100x100"))
    report.write(
        "acting",
        rows,
        {
            f"simulator {faster:.0f} times faster than a loop over FrozenLake (>= 100)": faster >= 100,
            f"feedback at {shares['river_swim(6)']:.2f} of the simulator's speed (>= 0.25)": (
                shares["river_swim(6)"] >= 0.25
            ),
            f"100x100 grid {large / small:.2f} times river_swim(6) a step (<= 3)": large <= 3 * small,
        },
    )


def gymnasium_loop() -> tuple[float, rc.MDP]:
    """Returns nanoseconds a step of the usual loop, and the model that it plays."""
    import gymnasium

    env = gymnasium.make("FrozenLake-v1")
    actions = np.random.default_rng(0).integers(4, size=LOOP_STEPS).tolist()
    return min(_loop(env, actions) for _ in range(REPEATS)), frozen_lake(env.unwrapped)


def _loop(env: Any, actions: list[int]) -> float:
    env.reset(seed=0)
    began = time.perf_counter()
    for action in actions:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    return (time.perf_counter() - began) / len(actions) * 1e9


def frozen_lake(env: Any) -> rc.MDP:
    """Returns FrozenLake's table as a model in which the end of an episode leads to the start."""
    P = np.zeros((16, 4, 16))
    for state, actions in env.P.items():
        for action, outcomes in actions.items():
            for probability, successor, _, done in outcomes:
                P[state, action, 0 if done else successor] += probability
    reached = [s for s in range(16) if not all(out[0][3] for out in env.P[s].values())]
    return rc.MDP(P[np.ix_(reached, range(4), reached)], start=0)


def measured(name: str, mdp: rc.MDP) -> dict[str, Any]:
    began = time.perf_counter()
    problem = make_problem(mdp, Objective(2.0))
    world = Simulator(problem.mdp, problem.start)
    policy = SamplePolicy(problem.mdp.per_pair(problem.best.policy, "policy"))
    planned = time.perf_counter() - began
    simulator = min(_simulated(world, policy) for _ in range(REPEATS))
    acting, again = min(_explored(problem, world) for _ in range(REPEATS))
    return {
        "model": name,
        "states": mdp.num_states,
        "simulator, ns": simulator,
        "feedback, ns": acting,
        "plan, ms": 1e3 * planned,
        "re-planning, ms": 1e3 * again,
        "Gymnasium loop, ns": "",
    }


def _simulated(world: Simulator, policy: SamplePolicy) -> float:
    position, seen, act = world.begin(0), Visits.none(world.mdp), world.follow(policy)
    world.advance(position, act, seen, 1_000)
    began = time.perf_counter()
    world.advance(position, act, seen, STEPS)
    return (time.perf_counter() - began) / STEPS * 1e9


def _explored(problem: Problem, world: Simulator) -> tuple[float, float]:
    """Returns nanoseconds a step of feedback without re-planning, and seconds of re-planning."""
    explorer, spent = rc.Feedback(), [0.0]
    standing = begin(explorer, KnownModel(problem), world.begin(0), Visits.none(problem.mdp))
    times: list[float] = []

    def timed(*arguments: Any) -> Any:
        began = time.perf_counter()
        centre = plain(*arguments)
        spent[0] += time.perf_counter() - began
        return centre

    def after(standing: Any) -> None:
        if len(times) == 0 and len(standing.rows) == 1:
            spent[0] = 0.0
            times.append(time.perf_counter())
        if len(times) == 1 and standing.num_steps == STEPS:
            times.append(time.perf_counter())

    plain, feedback._centre = feedback._centre, timed
    try:
        Runner(partial(measure, problem), explorer, world, [1_000, STEPS], standing).run(after)
    finally:
        feedback._centre = plain
    return (times[1] - times[0] - spent[0]) / (STEPS - 1_000) * 1e9, spent[0]
