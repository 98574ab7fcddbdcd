"""One run of a comparison on environments: an explorer acts, and every new code and cell is noted.

Four kinds of explorers act, all for the same number of steps and with the same actions:

- those of `explore`, which plan over codes (`feedback` and the others);
- `uniform_random`, every action with the same probability;
- `counts`, Q-learning with a bonus for rarely tried pairs (`baselines.count_bonus`);
- PPO with an intrinsic reward (`baselines.deep`), which needs the extra `sb3`.

A code that is fitted to a rollout (`Net`, `QuantileBins`, `SimHash`) is fitted to the first steps of the run:
they are part of its budget for every explorer, also for those that do not look at codes.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover.baselines.count_bonus import CountBonus
from rhocover.baselines.deep import COVERAGE, PPO_EXPLORERS, PPOExplorer
from rhocover.baselines.uniform_random import UniformRandom
from rhocover.checks import IntArray
from rhocover.environments.discoveries import CODE, Discoveries, RecordDiscoveries
from rhocover.environments.encoding import read_action_code, read_state_code
from rhocover.environments.encoding.base import ActionCode, StateCode
from rhocover.environments.encoding.nets import AUTO, NetCode
from rhocover.environments.stepping import random_rollout
from rhocover.errors import InvalidArgumentError, Setting, inside, missing_extra, naming, unknown_name
from rhocover.exploring import explore
from rhocover.exploring.explorers.registry import (
    explorer_document,
    explorer_from_document,
    explorer_name,
    explorer_names,
    make_explorer,
)

COUNTS = "counts"
ENV_EXPLORERS = ("feedback", "uniform_random", COUNTS)  # by default


@dataclass(frozen=True, eq=False)
class Found:
    """What a run found: the steps at which a new code, and a new held-out cell, was seen."""

    codes: IntArray
    cells: IntArray

    @property
    def bits(self) -> bytes:
        """The bytes of the run, the number of codes first: where they end is part of what was found."""
        return b"%d " % self.codes.size + self.codes.tobytes() + self.cells.tobytes()


@dataclass(frozen=True, eq=False)
class EnvTask:
    """One run: everything that determines what it finds. `source.make()` returns a new environment."""

    source: Any
    states: Any
    actions: Any
    held_out: Any
    explorer: Any
    seed: int
    num_steps: int
    rho: float
    mu: Any
    model: Any


# Explorers by name.


def make_env_explorer(given: Any) -> tuple[str, Any]:
    """Returns the name and the object of an explorer."""
    if isinstance(given, str) and given in PPO_EXPLORERS:
        return make_env_explorer(PPO_EXPLORERS[given])
    if isinstance(given, str) and given == COUNTS:
        return COUNTS, CountBonus()
    if isinstance(given, PPOExplorer):
        if importlib.util.find_spec("stable_baselines3") is None:
            raise missing_extra("stable_baselines3", "sb3")
        return given.name, given
    if isinstance(given, CountBonus):
        return COUNTS, given
    if isinstance(given, str) and given not in explorer_names():
        raise unknown_name("explorer", given, (*explorer_names(), COUNTS, *PPO_EXPLORERS))
    made = make_explorer(given)
    return explorer_name(made), made


def is_for_environments(given: Any) -> bool:
    """Whether an explorer, or the name of one, needs an environment and does not act in models."""
    if isinstance(given, str):
        return given == COUNTS or given in PPO_EXPLORERS
    return isinstance(given, PPOExplorer | CountBonus)


def explorer_settings(explorer: Any) -> dict[str, Any] | None:
    """Returns a document from which the explorer can be recreated; None if there is none."""
    if isinstance(explorer, PPOExplorer | CountBonus):
        name = explorer.name if isinstance(explorer, PPOExplorer) else COUNTS
        return {"name": name, "settings": dataclasses.asdict(explorer)}
    try:
        document = explorer_document(explorer)
        return document if document and explorer_from_document(document) == explorer else None
    except (TypeError, ValueError):
        return None


# The run.


def find(task: EnvTask) -> Found:
    """Returns what an explorer finds in an environment."""
    env = task.source.make()
    try:
        held_out = read_held_out(task.held_out, env.observation_space)
        actions = read_action_code(task.actions, env.action_space)
        found = Discoveries(task.num_steps, held_out)
        seen = RecordDiscoveries(env, found)
        states = fitted(task, seen, found)
        _act(task, seen, found, states, actions)
    finally:
        env.close()
    return Found(found.codes, found.cells)


def read_held_out(held_out: Any, space: Any) -> StateCode | None:
    """Returns the held-out code; a code that would have to be fitted first is refused."""
    with naming("held_out"), inside("held_out"):
        return None if held_out is None else read_state_code(held_out, space)


def fitted(task: EnvTask, env: Any, found: Discoveries) -> Any:
    """Returns the code of the states, fitted to the first steps of the run where it has to be fitted."""
    states = task.states
    if hasattr(states, "rollout_steps"):
        if states.rollout_steps >= task.num_steps:
            raise InvalidArgumentError.of(
                "num_steps",
                f"must be more than the {states.rollout_steps} steps that fit {type(states).__name__}",
                str(task.num_steps),
                remedy=("Pass ", Setting("num_steps", f"{2 * states.rollout_steps}"), ", for example."),
            )
        with inside("states"):
            states = states.fit(random_rollout(env, states.rollout_steps, task.seed))
    found.set_states(read_state_code(states, env.observation_space))
    return states


def _act(task: EnvTask, env: Any, found: Discoveries, states: Any, actions: ActionCode) -> None:
    explorer, rng = task.explorer, np.random.default_rng(task.seed)
    if isinstance(explorer, PPOExplorer):
        _learn(task, env, found, actions)
    elif isinstance(explorer, UniformRandom):
        _walk(env, found, actions, lambda code: int(rng.integers(actions.num_actions)), None, task.seed)
    elif isinstance(explorer, CountBonus):
        learner = explorer.learner(actions.num_actions, rng)
        _walk(env, found, actions, learner.choose, learner.learn, task.seed)
    else:
        explore(
            env, task.rho, found.left, task.mu, states=_own(task, states), actions=task.actions,
            explorer=explorer, model=task.model, seed=task.seed,
        )  # fmt: skip


def _own(task: EnvTask, states: Any) -> Any:
    """Returns the code of the explorer itself: it may change a net, what all are scored by stays as it is."""
    if not isinstance(states, NetCode) or task.states is states or task.states.radius != AUTO:
        return states
    own = states.copy()
    own.may_change = True
    return own


def _walk(env: Any, found: Discoveries, actions: ActionCode, choose: Any, learn: Any, seed: int) -> None:
    """Acts by codes until the budget is spent; `learn(code, action, next_code)` is called after each step."""
    code = env.reset(seed=seed)[1][CODE]
    while found.left > 0:
        action = choose(code)
        _, _, terminated, truncated, info = env.step(actions.values[action])
        begun = env.reset()[1][CODE] if terminated or truncated else info[CODE]
        if learn is not None:
            learn(code, action, begun if terminated else info[CODE])
        code = begun


def _learn(task: EnvTask, env: Any, found: Discoveries, actions: ActionCode) -> None:
    """Trains PPO in several copies of the environment until the budget is spent."""
    from rhocover.environments.learners import CoverageBonus, LearnerEnv

    made: list[Any] = []

    def make() -> Any:
        made.append(task.source.make())
        return LearnerEnv(RecordDiscoveries(made[-1], found), actions)

    explorer: PPOExplorer = task.explorer
    own = CoverageBonus(task.rho, actions) if explorer.reward == COVERAGE else None
    try:
        explorer.train(make, CODE, lambda: found.left <= 0, task.seed, own)
    finally:
        for one in made:
            one.close()
