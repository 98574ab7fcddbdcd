"""The settings of a run in an environment, checked: explorer, encoding, what is known of the model.

If the environment has a table of its transitions and the model is taken as known, a run is the same as
`explore` on a model, except that the environment takes the steps. Otherwise states are added as they are met.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, IntArray
from rhocover.collecting.state_index import FixedStateIndex, GrowingStateIndex, StateIndex, shown_as
from rhocover.coverage import Coverage
from rhocover.datasets.tally import Tally
from rhocover.environments.encoding import (
    ActionCode,
    StateCode,
    random_rollout,
    read_action_code,
    read_state_code,
)
from rhocover.environments.encoding.base import is_lossy
from rhocover.environments.encoding.bins import QuantileBins
from rhocover.environments.encoding.encoders import LearnedFeatures
from rhocover.environments.encoding.hashes import SimHash
from rhocover.environments.encoding.nets import Net, NetCode
from rhocover.environments.encoding.watching import Watch
from rhocover.environments.repeating import LONGEST, repeated
from rhocover.environments.stepping import (
    Alarm,
    Timed,
    labelled_rollout,
    read_step_timeout,
    rollout_of_copy,
)
from rhocover.environments.table_model import TabularModel, read_table
from rhocover.errors import (
    Call,
    EnvironmentFailedError,
    InvalidArgumentError,
    Setting,
    calling,
    join_texts,
    parse_text,
)
from rhocover.exploring.belief import Belief, KnownModel
from rhocover.exploring.belief.learned import Frame, Learned, LearnedModel
from rhocover.exploring.explorers import Explorer, State
from rhocover.exploring.explorers.registry import explorer_name
from rhocover.exploring.problem import Problem, make_problem
from rhocover.exploring.runs.spec import (
    CERTIFIED_GAP,
    KNOWN,
    OTHER_RULES,
    PASS_LEARNED,
    Encoding,
    RunSpec,
    is_self_reliant,
)
from rhocover.exploring.runs.stopping import CertifiedGap
from rhocover.exploring.worlds import no_moves
from rhocover.learning.rules import Rule, final_weights, read_rule
from rhocover.mdp import MDP, NO_WEIGHTS
from rhocover.planning.problem import Objective

if TYPE_CHECKING:
    from rhocover.collecting.workers import Workers

Fitted = QuantileBins | Net | SimHash  # codes that are fitted to a random rollout
FEW_KEYS = 100_000  # states that a published explorer gets before its first step, at most
MOST_POINTS = 2**30  # bytes of what a net compares of all observations of a run
MOST_ROLLOUT = 2**31  # bytes of the observations of a rollout, each number as a float64
FROM_TABLE = Call("explore MDP.from_gymnasium(env)", "take a model from rhocover envs")


@dataclass(frozen=True, eq=False)
class EnvRun:
    """A run in an environment: everything that determines its steps."""

    env: Any
    is_vector: bool
    spec: RunSpec
    states: StateCode
    actions: ActionCode
    table: TabularModel | None  # None: the dynamics are learned
    weights: FloatArray | None  # for keys that are numbers, [keys, A]; None: uniform, or given by a rule
    step_timeout: float | None = None  # seconds for one step or reset
    earlier: Tally | None = None  # data from before the explorer's first step, by key
    repeat: int = 1  # steps of the environment for which an action is held
    held_out: StateCode | None = None  # a second code of observations, which is only counted
    learner: Net | None = None  # what fits the code again during the run
    workers: Workers | None = None  # who act in environments of their own; None: this process, in `env`

    @cached_property
    def _alarm(self) -> Alarm | None:
        return None if self.step_timeout is None else Alarm(self.step_timeout)

    @property
    def acting(self) -> Any:
        """The environment to act in; with a time limit, a wrapper that times its calls inside `timing`."""
        return self.env if self._alarm is None else Timed(self.env, self._alarm)

    @property
    def timing(self) -> AbstractContextManager[Any]:
        """The context in which the environment must be called."""
        return nullcontext() if self._alarm is None else self._alarm

    @property
    def space(self) -> Any:
        """The observation space of one copy."""
        return self.env.single_observation_space if self.is_vector else self.env.observation_space

    @property
    def action_space(self) -> Any:
        """The action space of one copy."""
        return self.env.single_action_space if self.is_vector else self.env.action_space

    @property
    def rule(self) -> Rule | None:
        """The rule that computes the weights, if there is one."""
        return self.spec.rule

    @cached_property
    def problem(self) -> Problem | None:
        """The true problem if the model is known, otherwise None."""
        if self.table is None:
            return None
        model, mu = self.table.model, self.spec.mu
        mu = final_weights(self.rule, model) if self.rule is not None else mu
        return make_problem(model, Objective(self.spec.rho, mu))

    @property
    def is_watched(self) -> bool:
        """Whether observations are seen beside the states: not if those are numbers and none is held out."""
        return is_lossy(self.states) or self.held_out is not None

    def watch(self) -> Watch | None:
        """Returns what sees observations beside the run; None if nothing does."""
        return Watch(self.states, self.held_out) if self.is_watched else None

    def state_index(self) -> StateIndex:
        """Returns the state index before the first step."""
        if self.table is not None and self.problem is not None:
            keys = self.table.states[self.problem.question.states].tolist()
            return FixedStateIndex(self.problem.mdp, keys)
        weigh = self._weigh if self.weights is not None else None
        is_coded = is_lossy(self.states)
        index = GrowingStateIndex(self.actions.num_actions, weigh, self.name, is_coded=is_coded)
        for key in self.given_states or ():
            index.add(key)
        return index

    @property
    def given_states(self) -> range | None:
        """The states that a published explorer knows before its first step; None if it knows none."""
        keys = self.states.every_key
        is_given = is_self_reliant(self.spec.explorer) and keys is not None and len(keys) <= FEW_KEYS
        return keys if is_given else None

    @property
    def name(self) -> str:
        """The environment's name."""
        spec = getattr(self.env, "spec", None)
        return type(self.env.unwrapped).__name__ if spec is None else spec.id

    def _weigh(self, key: Hashable) -> FloatArray:
        assert self.weights is not None
        keys = self.states.every_key
        assert keys is not None
        return self.weights[keys.index(key)]  # type: ignore[arg-type]

    def belief(self, states: StateIndex) -> Belief:
        """Returns the belief before the first step."""
        if self.problem is not None:
            return KnownModel(self.problem)
        index, spec = states.index, self.spec
        mu = None if self.rule is not None else index.weights  # type: ignore[union-attr]
        frame = Frame(index, None, spec.rho, mu, self.rule, index.roots, spec.seed)  # type: ignore
        return LearnedModel(spec.model, frame, spec.scope, no_moves(index))


def read_env_run(env: Any, spec: RunSpec, encoding: Encoding, step_timeout: Any = None) -> EnvRun:
    """Returns the checked settings of a run in an environment; errors use the caller's argument names."""
    is_vector = _is_vector(env)
    check_attributes(env)
    repeat = checks.integer(encoding.repeat, "repeat", least=1, most=LONGEST)
    if repeat > 1:
        env = repeated(env, repeat, is_vector=is_vector)
    seconds = None if step_timeout is None else read_step_timeout(step_timeout)
    space = env.single_observation_space if is_vector else env.observation_space
    actions = read_action_code(encoding.actions, env.single_action_space if is_vector else env.action_space)
    table, mu = _table(env, is_vector, spec.model, encoding.states, actions, repeat), spec.mu
    spec = (spec if table is not None else spec.with_mu(None)).checked()
    Coverage(spec.rho, np.ones(1))  # raises if rho is not an order, before anything is written
    states, held_out = encoding.states, encoding.held_out
    if isinstance(states, Fitted):
        states = _fitted(states, env, is_vector, spec.seed, seconds, actions.values)
    code = read_state_code(states, space)
    if isinstance(held_out, Fitted):
        held_out = _fitted(held_out, env, is_vector, spec.seed, seconds, actions.values, "held_out")
    if held_out is not None:
        with calling(states="held_out"):
            held_out = read_state_code(held_out, space)
    if table is not None:
        if getattr(spec.explorer, "needs_horizon", False):
            raise _needs_a_model(spec.explorer)
        return EnvRun(env, is_vector, spec, code, actions, table, None, seconds, held_out=held_out)
    spec = _learning(spec)
    if isinstance(spec.until, CertifiedGap):
        raise InvalidArgumentError(
            (
                CERTIFIED_GAP,
                " needs a model whose states are all known; an environment may have more than those met.",
            ),
            argument="until",
            remedy=OTHER_RULES,
        )
    rule, weights = _read_weights(mu, code, actions)
    learner = encoding.states if is_learner(encoding.states) else None
    if learner is None and not is_vector and adapts(encoding.states, code, spec):
        learner = encoding.states if isinstance(encoding.states, Net) else Net()
    spec = spec.with_mu(rule)
    return EnvRun(
        env, is_vector, spec, code, actions, None, weights, seconds, repeat=repeat, held_out=held_out,
        learner=learner,
    )  # fmt: skip


def is_learner(states: Any) -> bool:
    """Whether a code is trained on what is collected."""
    return isinstance(states, Net) and isinstance(states.of, LearnedFeatures)


def adapts(states: Any, code: StateCode, spec: RunSpec) -> bool:
    """Whether the radius of a net may change during the run: not a given one, nor if that takes too much."""
    is_auto = isinstance(states, Net) and isinstance(states.radius, str)
    is_auto = is_auto or (isinstance(states, NetCode) and states.may_change)
    return is_auto and isinstance(code, NetCode) and 8 * code.num_features * spec.num_steps <= MOST_POINTS


def _fitted(
    code: Fitted,
    env: Any,
    is_vector: bool,
    seed: int,
    seconds: float | None,
    values: list[Any],
    argument: str = "states",
) -> Any:
    """Returns the code, fitted to a random rollout in the environment, which is reset afterwards."""
    asked = f"{argument}={type(code).__name__}(...)"
    if is_vector:
        seen = rollout_of_copy(env, code.rollout_steps, seed)
        if seen is not None:
            return code.fit(seen)
        raise InvalidArgumentError.of(
            asked,
            "is fitted to a rollout in a single environment, not a vector of them",
            remedy="Fit it first, to observations of a single environment: states.fit(observations).",
        )
    size = 8 * code.rollout_steps * math.prod(getattr(env.observation_space, "shape", None) or ())
    if size > MOST_ROLLOUT:
        raise InvalidArgumentError.of(
            asked,
            f"would keep {size / 1e9:.3g} GB of observations from a rollout of {code.rollout_steps} steps; "
            f"the limit is {MOST_ROLLOUT / 1e9:.3g} GB",
            remedy=parse_text(
                "Shorten the rollout (rollout_steps=...), or pass `states` as a function that returns the "
                "part of an observation that matters."
            ),
        )
    with nullcontext() if seconds is None else Alarm(seconds) as alarm:
        timed = env if alarm is None else Timed(env, alarm)
        if isinstance(code, Net) and is_learner(code):
            found = labelled_rollout(timed, code.rollout_steps, seed, values)
        else:
            found = (random_rollout(timed, code.rollout_steps, seed),)
    return code.fit(*found)


def _is_vector(env: Any) -> bool:
    """Whether `env` is a vector environment; raises if it is not an environment."""
    import gymnasium as gym

    if isinstance(env, gym.vector.VectorEnv):
        return True
    if not isinstance(env, gym.Env):
        raise InvalidArgumentError.of(
            "env",
            "must be a Gymnasium environment",
            type(env).__name__,
            remedy=f"Make one with {_way_to_environment(env)}.",
        )
    return False


def _way_to_environment(given: Any) -> str:
    if isinstance(given, MDP):
        return 'gymnasium.make("FrozenLake-v1"); a model is explored with rc.explore(mdp)'
    return f"gymnasium.make({given if isinstance(given, str) else 'FrozenLake-v1'!r})"


def check_attributes(env: Any) -> None:
    """Raises if reading the environment's spaces or spec fails, or if its spec is not an EnvSpec."""
    spaces = ("observation_space", "action_space")
    for name in (*spaces, *(f"single_{space}" for space in spaces), "spec", "unwrapped"):
        try:
            getattr(env, name, None)
        except Exception as error:
            raise EnvironmentFailedError(
                f"the environment raised an error when its `{name}` was read: {type(error).__name__}: "
                f"{shown_as(error, str)}. Fix the environment."
            ) from error
    spec = getattr(env, "spec", None)
    if spec is not None and not hasattr(spec, "id"):
        raise EnvironmentFailedError(
            f"the environment's `spec` must be a Gymnasium EnvSpec or None, got {type(spec).__name__}. Set "
            "it to None."
        )


def _table(
    env: Any, is_vector: bool, model: Any, states: Any, actions: ActionCode, repeat: int
) -> TabularModel | None:
    """Returns the table of a known model; None if the dynamics are to be learned."""
    if not isinstance(model, str) or model != KNOWN:
        return None
    if is_vector or states is not None or repeat > 1:
        how = "encoded by `states`" if states is not None else "with `repeat`"
        what = "a vector environment" if is_vector else parse_text(f"an environment {how}")
        raise InvalidArgumentError(
            join_texts(what, "has no table of its transitions."), argument="model", remedy=PASS_LEARNED
        )
    table = read_table(env, actions=actions.chosen)
    start = table.model.start
    if start is None or abs(float(start.sum()) - 1) > 1e-9 or _leaves_out_a_start(env, table):
        raise InvalidArgumentError(
            "the environment's start cannot be visited in the long run, so the known model, which has only "
            "such states, does not contain it.",
            argument="model",
            remedy=PASS_LEARNED,
        )
    return table


def _leaves_out_a_start(env: Any, table: TabularModel) -> bool:
    """Whether the environment may begin in a state that its model does not contain."""
    begins = getattr(env.unwrapped, "initial_state_distrib", None)
    return begins is not None and not set(np.flatnonzero(begins).tolist()) <= set(table.states.tolist())


def _learning(spec: RunSpec) -> RunSpec:
    """Returns the spec for a run in which the states are not known; refuses explorers that need them."""
    explorer: Explorer = spec.explorer
    if is_self_reliant(explorer) and not getattr(explorer, "in_environments", False):
        raise _needs_a_model(explorer)
    model: Learned = spec.model
    if model.discovery and not is_self_reliant(explorer):
        model = dataclasses.replace(model, know_states=False)
    return dataclasses.replace(spec, model=model)


def _needs_a_model(explorer: Explorer) -> InvalidArgumentError:
    """Returns the error for an explorer that cannot act in environments."""
    return InvalidArgumentError.of(
        "explorer",
        f"{explorer_name(explorer)!r} needs a model with fixed states and episodes",
        remedy=(
            "Pass ", Setting("explorer", "'feedback'"), ", tracking, uniform_random or maxent; or ",
            FROM_TABLE, ".",
        ),
    )  # fmt: skip


def _read_weights(mu: Any, code: StateCode, actions: ActionCode) -> tuple[Rule | None, FloatArray | None]:
    """Returns the rule or the weights `[keys, A]`; None for both means uniform weights."""
    if mu is None:
        return None, None
    if isinstance(mu, str) or callable(mu):
        return read_rule(mu), None
    if code.num_keys is None:
        raise InvalidArgumentError.of(
            "mu",
            "as an array needs numbered states, but these come from a function or a grid that is too large",
            remedy="Pass a rule: a function of an Estimate.",
        )
    weights = checks.float_array(mu, "mu")
    if weights.shape != (code.num_keys, actions.num_actions):
        raise InvalidArgumentError.of(
            "mu",
            f"must have shape {(code.num_keys, actions.num_actions)}",
            f"{weights.shape}",
            remedy=NO_WEIGHTS,
        )
    if weights.min() < 0 or not weights.any():
        raise InvalidArgumentError.of("mu", "must be non-negative and not all zero")
    return None, weights


def earlier_moves(states: StateIndex, before: Tally) -> IntArray | None:
    """Returns the transition counts of earlier data; None if the transitions are known from a table."""
    if not isinstance(states, GrowingStateIndex):
        return None
    number = np.array([states.numbers.get(key, -1) for key in before.keys], np.int64)
    for place, key in enumerate(before.keys):
        if number[place] < 0:
            number[place] = states.add(key)
        if before.starts[place]:
            states.note_start(int(number[place]))
    moves = (before.moves + _restarts(before)).tocoo()
    pair, state = moves.coords
    A = before.num_actions
    return states.count_earlier(number[pair // A] * A + pair % A, number[state], moves.data)


def _restarts(before: Tally) -> Any:
    """Returns the restarts after ends as integer counts, divided among the starts by their frequency."""
    import scipy.sparse as sp

    pairs = np.flatnonzero(before.ends)
    starts = np.flatnonzero(before.starts) if before.starts.any() else np.arange(before.num_states)
    weight = np.maximum(before.starts[starts], 1) / np.maximum(before.starts[starts], 1).sum()
    rows, columns, counts = [], [], []
    for pair in pairs.tolist():
        exact = before.ends[pair] * weight
        whole = np.floor(exact).astype(np.int64)
        rest = int(before.ends[pair] - whole.sum())
        whole[np.argsort(whole - exact, kind="stable")[:rest]] += 1
        used = np.flatnonzero(whole)
        rows.append(np.full(used.size, pair))
        columns.append(starts[used])
        counts.append(whole[used])
    shape = before.moves.shape
    if not rows:
        return sp.csr_array(shape, dtype=np.int64)
    place = (np.concatenate(rows), np.concatenate(columns))
    return sp.csr_array((np.concatenate(counts), place), shape=shape)


def state_after(asked: EnvRun, states: StateIndex, before: Tally, moves: IntArray) -> State:
    """Returns the explorer's state after earlier data."""
    belief, steps, actor = asked.belief(states), before.num_steps, asked.spec.actor
    if isinstance(belief, LearnedModel):
        belief = dataclasses.replace(belief, moves=moves.copy(), num_steps=steps).renewed()
        return dataclasses.replace(actor.init(belief), counts=belief.counts, num_steps=steps)
    index = states.index
    number = np.array([states.numbers[key] for key in before.keys], np.int64)
    table = np.zeros((index.num_states, index.num_actions), np.int64)
    table[number] = before.counts
    counts = table[index.pair_state, index.pair_action]
    return dataclasses.replace(actor.init(belief), counts=counts, num_steps=int(counts.sum()))
