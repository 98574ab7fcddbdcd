"""What a run in an environment is about: who acts, what is known, which state is which. Checked at the door.

With a table the model is known and everything is as in `explore` on a model: the environment only takes the
steps. Without one, states join as they are met.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray
from rhocover.collecting.atlas import Atlas, Chart, Map
from rhocover.collecting.naming import looks
from rhocover.coverage import Coverage
from rhocover.environments.encoding import (
    ActionCode,
    StateCode,
    random_rollout,
    read_action_code,
    read_state_code,
)
from rhocover.environments.encoding.bins import QuantileBins
from rhocover.environments.stepping import Alarm, Timed, read_step_timeout
from rhocover.environments.table_model import TabularModel, read_table
from rhocover.errors import Call, EnvironmentFailedError, InvalidArgumentError, join_texts, parse_text
from rhocover.exploring.beliefs import Belief, KnownModel
from rhocover.exploring.explorer import Explorer
from rhocover.exploring.frame import Frame
from rhocover.exploring.index import no_moves
from rhocover.exploring.learned import Learned, LearnedModel
from rhocover.exploring.models import KNOWN, is_self_reliant
from rhocover.exploring.problem import Problem, make_problem
from rhocover.exploring.registry import explorer_name
from rhocover.exploring.settings import CERTIFIED_GAP, OTHER_RULES, PASS_LEARNED, Settings, read_settings
from rhocover.exploring.stopping import CertifiedGap
from rhocover.learning.rules import Rule, read_rule, weights_in_the_end
from rhocover.mdp import MDP

FEW_KEYS = 100_000  # states that an explorer from a paper is told of beforehand
MOST_ROLLOUT = 2**31  # bytes of a rollout's observations, each number as a float64
FROM_TABLE = Call("explore MDP.from_gymnasium(env)", "take a model from rhocover envs")
NOBODY = MDP(np.ones((1, 1, 1)))  # in the place of a model where there is none


@dataclass(frozen=True, eq=False)
class Expedition:
    """An environment, the objective, and who explores it with which knowledge."""

    env: Any
    is_vector: bool
    settings: Settings  # as for a model; its own model is the table's, or nobody's
    states: StateCode
    actions: ActionCode
    table: TabularModel | None  # None: the dynamics are learned
    weights: FloatArray | None  # of keys that are numbers, [keys, A]; None: uniform or a rule
    step_timeout: float | None = None  # seconds for one step or reset

    @cached_property
    def _alarm(self) -> Alarm | None:
        return None if self.step_timeout is None else Alarm(self.step_timeout)

    @property
    def acting(self) -> Any:
        """The environment to act in: its own, or one whose calls are timed while `timing` lasts."""
        return self.env if self._alarm is None else Timed(self.env, self._alarm)

    @property
    def timing(self) -> AbstractContextManager[Any]:
        """What has to be open while the environment is called."""
        return nullcontext() if self._alarm is None else self._alarm

    @property
    def space(self) -> Any:
        """The space of one copy's observations."""
        return self.env.single_observation_space if self.is_vector else self.env.observation_space

    @property
    def action_space(self) -> Any:
        """The space of one copy's actions."""
        return self.env.single_action_space if self.is_vector else self.env.action_space

    @property
    def rule(self) -> Rule | None:
        """The rule that says the weights, if one does."""
        return self.settings.rule

    @cached_property
    def problem(self) -> Problem | None:
        """The true problem, where the model is known."""
        if self.table is None:
            return None
        model, mu = self.table.model, self.settings.mu
        mu = weights_in_the_end(self.rule, model) if self.rule is not None else mu
        return make_problem(model, self.settings.rho, mu)

    def chart(self) -> Map:
        """Returns the numbers of states before the first step."""
        if self.table is not None and self.problem is not None:
            return Chart(self.problem.mdp, self.table.states[self.problem.question.states].tolist())
        atlas = Atlas(self.actions.num_actions, self._weigh if self.weights is not None else None, self.name)
        for key in self.told_states or ():
            atlas.meet(key)
        return atlas

    @property
    def told_states(self) -> range | None:
        """The states that an explorer from a paper is told of beforehand; None where it is told of none."""
        keys = self.states.every_key
        is_told = is_self_reliant(self.settings.explorer) and keys is not None and len(keys) <= FEW_KEYS
        return keys if is_told else None

    @property
    def name(self) -> str:
        """What the environment is called."""
        spec = getattr(self.env, "spec", None)
        return type(self.env.unwrapped).__name__ if spec is None else spec.id

    def _weigh(self, key: Hashable) -> FloatArray:
        assert self.weights is not None
        keys = self.states.every_key
        assert keys is not None
        return self.weights[keys.index(key)]  # type: ignore[arg-type]

    def belief(self, chart: Map) -> Belief:
        """Returns what is known before the first step."""
        if self.problem is not None:
            return KnownModel(self.problem)
        index, settings = chart.index, self.settings
        mu = None if self.rule is not None else index.weights  # type: ignore[union-attr]
        frame = Frame(index, None, settings.rho, mu, self.rule, index.roots, settings.seed)  # type: ignore
        scope = "all" if is_self_reliant(settings.explorer) or not settings.model.discovery else "met"
        return LearnedModel(settings.model, frame, scope, no_moves(index))


def read_expedition(
    env: Any, rho: Any, num_steps: Any, mu: Any, *, explorer: Any, model: Any, schedule: Any, seed: Any,
    until: Any, trace_points: Any, states: Any, actions: Any, step_timeout: Any = None,
) -> Expedition:  # fmt: skip
    """Returns the expedition; refuses what is wrong, by the caller's own names."""
    is_vector = _is_vector(env)
    look_at(env)
    seconds = read_step_timeout(step_timeout)
    space = env.single_observation_space if is_vector else env.observation_space
    table = _table(env, is_vector, model, states)
    settings = read_settings(
        NOBODY if table is None else table.model, rho, num_steps, None if table is None else mu, explorer,
        model, schedule, seed, None, None, None, False, 1, trace_points, until,
    )  # fmt: skip
    Coverage(settings.rho, np.ones(1))  # refuses an order that is none, before anything is written
    if isinstance(states, QuantileBins):
        states = _fitted(states, env, is_vector, settings.seed, seconds)
    code = read_state_code(states, space)
    action_code = read_action_code(actions, env.single_action_space if is_vector else env.action_space)
    if table is not None:
        return Expedition(env, is_vector, settings, code, action_code, table, None, seconds)
    settings = _learning(settings)
    if isinstance(settings.until, CertifiedGap):
        raise InvalidArgumentError(
            (
                CERTIFIED_GAP,
                " needs states that are all known: in an environment there may always be others.",
            ),
            argument="until",
            remedy=OTHER_RULES,
        )
    rule, weights = _read_weights(mu, code, action_code)
    settings = dataclasses.replace(settings, mu=rule)
    return Expedition(env, is_vector, settings, code, action_code, None, weights, seconds)


def _fitted(bins: QuantileBins, env: Any, is_vector: bool, seed: int, seconds: float | None) -> Any:
    """Returns the bins with edges from a random rollout in the environment, which is reset afterwards."""
    if is_vector:
        raise InvalidArgumentError.of(
            "states=QuantileBins(...)",
            "takes its edges from a run in a single environment",
            remedy="Fit it first: "
            "bins.fit(rhocover.environments.encoding.random_rollout(env, 10_000, seed=0)).",
        )
    size = 8 * bins.rollout_steps * math.prod(getattr(env.observation_space, "shape", None) or ())
    if size > MOST_ROLLOUT:
        raise InvalidArgumentError.of(
            "states=QuantileBins(...)",
            f"would hold {size / 1e9:.3g} GB of observations of a rollout of {bins.rollout_steps} steps, at "
            f"most {MOST_ROLLOUT / 1e9:.3g} GB",
            remedy=parse_text(
                "Shorten it (rollout_steps=...), or name what matters of an observation by a function as "
                "`states`."
            ),
        )
    if seconds is None:
        return bins.fit(random_rollout(env, bins.rollout_steps, seed))
    with Alarm(seconds) as alarm:
        seen = random_rollout(Timed(env, alarm), bins.rollout_steps, seed)
    return bins.fit(seen)


def _is_vector(env: Any) -> bool:
    """Whether an environment has many copies; refuses what is no environment."""
    import gymnasium as gym

    if isinstance(env, gym.vector.VectorEnv):
        return True
    if not isinstance(env, gym.Env):
        raise InvalidArgumentError.of(
            "env",
            "must be a Gymnasium environment",
            type(env).__name__,
            remedy='Make one: gymnasium.make("FrozenLake-v1").',
        )
    return False


def look_at(env: Any) -> None:
    """Refuses an environment that raises when it is asked what it is, or has a spec that is none."""
    spaces = ("observation_space", "action_space")
    for name in (*spaces, *(f"single_{space}" for space in spaces), "spec", "unwrapped"):
        try:
            getattr(env, name, None)
        except Exception as error:
            raise EnvironmentFailedError(
                f"the environment raised when its `{name}` was asked for: {type(error).__name__}: "
                f"{looks(error, str)}. Mend the environment."
            ) from error
    spec = getattr(env, "spec", None)
    if spec is not None and not hasattr(spec, "id"):
        raise EnvironmentFailedError(
            f"the environment's `spec` must be a Gymnasium EnvSpec or None, got {type(spec).__name__}. Make "
            "it None."
        )


def _table(env: Any, is_vector: bool, model: Any, states: Any) -> TabularModel | None:
    """Returns the table of a known model; None where the dynamics are to be learned."""
    if not isinstance(model, str) or model != KNOWN:
        return None
    if is_vector or states is not None:
        what = "a vector environment" if is_vector else parse_text("an environment seen through `states`")
        raise InvalidArgumentError(
            join_texts(what, "has no table of its transitions."), argument="model", remedy=PASS_LEARNED
        )
    table = read_table(env)
    start = table.model.start
    if start is None or abs(float(start.sum()) - 1) > 1e-9 or _leaves_out_a_start(env, table):
        raise InvalidArgumentError(
            "the environment's start cannot be visited for ever, so a model of what can be does not have it.",
            argument="model",
            remedy=PASS_LEARNED,
        )
    return table


def _leaves_out_a_start(env: Any, table: TabularModel) -> bool:
    """Whether the environment may begin in a state that its model has not."""
    begins = getattr(env.unwrapped, "initial_state_distrib", None)
    return begins is not None and not set(np.flatnonzero(begins).tolist()) <= set(table.states.tolist())


def _learning(settings: Settings) -> Settings:
    """Returns settings under which nobody knows which states there are; refuses explorers that must."""
    explorer: Explorer = settings.explorer
    if is_self_reliant(explorer) and not getattr(explorer, "in_environments", False):
        raise InvalidArgumentError.of(
            "explorer",
            f"{explorer_name(explorer)!r} needs a model of fixed states and episodes",
            remedy=("Take feedback, tracking, uniform_random or maxent; or ", FROM_TABLE, "."),
        )
    model: Learned = settings.model
    if model.discovery and not is_self_reliant(explorer):
        model = dataclasses.replace(model, know_states=False)
    return dataclasses.replace(settings, model=model)


def _read_weights(mu: Any, code: StateCode, actions: ActionCode) -> tuple[Rule | None, FloatArray | None]:
    """Returns a rule or weights of keys."""
    if mu is None:
        return None, None
    if isinstance(mu, str) or callable(mu):
        return read_rule(mu), None
    if code.num_keys is None:
        raise InvalidArgumentError.of(
            "mu",
            "as an array needs states that are numbered, and these are what a function says, or too large "
            "a grid",
            remedy="Pass a rule: a function of an Estimate.",
        )
    weights = checks.float_array(mu, "mu", (code.num_keys, actions.num_actions))
    if weights.min() < 0 or not weights.any():
        raise InvalidArgumentError.of("mu", "must be non-negative and not all zero")
    return None, weights
