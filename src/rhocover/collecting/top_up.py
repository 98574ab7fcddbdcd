"""top_up(): plans the best addition to a data set, and collects it if an environment is given.

The old data are T visits. A budget of m more steps is best spent on the occupancy psi for which T + m psi
covers best (`planning.union`): on the environment's own table if it has one, otherwise on the model estimated
from the data. With an environment the steps are taken and stored like a collection. The old data are not
changed.

The explorer (`TopUpExplorer`) re-plans repeatedly: it tracks psi for an eighth of the remaining steps, then
computes psi again from the visits so far and the current model. In this way it uses lucky visits and what it
has learned meanwhile. It starts from the old data: with a table only their visit counts are used; without one
their transitions are the initial estimate, and the restarts after ends are divided among the starts in
proportion, as integers.
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover import checks
from rhocover.collecting.collect import default_id, given_arrays, make_collection
from rhocover.collecting.datasheet import Collection, provenance, repeat_call, settings_of
from rhocover.collecting.env_run import EnvRun, check_attributes, read_env_run
from rhocover.collecting.storage import CollectionFolder, audited, check_spaces, seed_in
from rhocover.collecting.top_up_result import TopUp, predict_union
from rhocover.datasets.audit import audit_tally
from rhocover.datasets.collection.manifest import check_id
from rhocover.datasets.empirical_model import read_model
from rhocover.datasets.read_options import ReadData, ReadOptions
from rhocover.datasets.reading import codes_of_data, find_data, read_data, stored_setting
from rhocover.datasets.tally import Tally
from rhocover.environments.encoding import read_action_code
from rhocover.environments.encoding.base import repr_of
from rhocover.environments.repeating import LONGEST
from rhocover.errors import Call, InvalidArgumentError, InvalidDataError, calling, inside, parse_text
from rhocover.exploring.belief import Belief
from rhocover.exploring.explorers import Block, State, initial_state
from rhocover.exploring.problem import positive_shares
from rhocover.exploring.runs.spec import Encoding, RunSpec
from rhocover.exploring.worlds import LowestScore, Visits
from rhocover.files import tensor_digest
from rhocover.folders import locate
from rhocover.mdp import MDP
from rhocover.planning.problem import Objective
from rhocover.planning.union import best_addition
from rhocover.printing import count_of
from rhocover.progress import Report, progress

if TYPE_CHECKING:
    from rhocover.arguments import (
        Actions,
        Columns,
        Data,
        Environment,
        Knowledge,
        Location,
        States,
        WeightsOrRule,
        Whole,
    )

SHARE = 8  # one block takes this fraction of the remaining steps
SHORTEST = 64  # least number of steps of a block
TOLERANCE = 1e-5


@dataclass(frozen=True)
class TopUpExplorer:
    """Plays the best addition until `last_step`, which includes the steps of the old data."""

    last_step: int

    def init(self, belief: Belief) -> State:
        """Returns the state before the first step."""
        return initial_state(belief)

    def policy(self, state: State) -> Block:
        """Returns the block that tracks the currently best addition for a part of the remaining steps."""
        problem, left = state.problem, max(1, self.last_step - state.num_steps)
        psi = best_addition(problem.members, problem.coverage, state.counts, left, tol=TOLERANCE).psi
        length = min(left, max(SHORTEST, left // SHARE))
        return Block(LowestScore(np.zeros(psi.size), psi, 1 / positive_shares(psi)), length)

    def update(self, state: State, visits: Visits) -> State:
        """Returns the state with the visits added."""
        return state.after(visits)


def top_up(
    data: Data,
    env: MDP | Environment | None = None,
    num_steps: Whole = 0,
    rho: float = 2.0,
    mu: WeightsOrRule | None = None,
    *,
    out: Location | None = None,
    dataset_id: str | None = None,
    states: States | None = None,
    actions: Actions | None = None,
    repeat: int | None = None,
    model: Knowledge | None = None,
    seed: int | None = 0,
    step_timeout: float | None = None,
    resume: bool = False,
    report: Report | None = None,
    command: str | None = None,
    columns: Columns | None = None,
) -> TopUp:
    """Returns the best addition of `num_steps` steps to a data set, and with an environment the new data.

    `data` and `columns` are anything that `audit` takes. Without `out` only the policy is planned: on the
    model estimated from the data, or on `env`, an MDP or an environment with a table. With a Gymnasium
    environment and a new folder `out` the steps are taken and stored there as a separate collection;
    `model` is then "known" (the environment's table, the default if there is one) or "learned".
    `resume=True` continues after an interruption. `repeat` is for how many steps each action is held, by
    default as in the data, if they come from `collect`. `step_timeout` is how many seconds one step or reset
    of the environment may take.
    """
    num_steps = checks.integer(num_steps, "num_steps", least=1, most=2**53)
    out = None if out is None else locate(out)  # the environment may change the working directory
    check_attributes(env)
    with inside("data", "repeat"):
        states, actions = _codes(data, env, states, actions)
        held = _repeat(data) if repeat is None else checks.integer(repeat, "repeat", least=1, most=LONGEST)
    if env is None or isinstance(env, MDP):
        _refuse_out(out)
    with progress("topping up", report) as told:
        given = _read(data, env, ReadOptions(states=states, actions=actions, columns=columns))
        read, states = given.tally, given.states  # a code that was fitted to the data, or has grown with them
        if out is None:
            _check_table(env, held)
            with calling(model="env"):
                before = audit_tally(read, rho, mu, model=read_model(env, actions))
            return TopUp(num_steps, before, predict_union(before, num_steps), None, None)
        seed = seed_in(out) if seed is None and resume else seed
        spec = RunSpec(Objective(rho, mu), num_steps, model=model or _knowledge(env, states, held), seed=seed)
        encoding = Encoding(states, actions, held)
        asked = read_env_run(env, spec, encoding, step_timeout)
        _check_actions(read, asked)
        before = audited(asked, read)
        predicted = predict_union(before, num_steps)
        asked = _after(asked, read)
        with _folder(asked, out, dataset_id, resume) as folder:
            words = command or repeat_call(asked, "top_up(data, ")
            found = make_collection(asked, folder, encoding, _shifted(told, read.num_steps), words)
        return TopUp(num_steps, before, predicted, audited(asked, read + found.tally), found)


def _codes(data: Any, env: Any, states: Any, actions: Any) -> tuple[Any, Any]:
    """Returns states and actions for the encoding: the given ones, or those stored with the data."""
    if isinstance(data, Collection):
        known = data.states, data.actions
    elif isinstance(data, str | os.PathLike) and hasattr(env, "observation_space") and states is None:
        known = codes_of_data(find_data(os.fspath(data)))
    else:
        return states, actions
    return known[0] if states is None else states, known[1] if actions is None else actions


def _repeat(data: Any) -> Any:
    """Returns for how many steps an action was held in the data, if that is known; otherwise 1."""
    if isinstance(data, Collection):
        return data.datasheet["settings"].get("repeat", 1)
    if isinstance(data, str | os.PathLike):
        return stored_setting(find_data(os.fspath(data)), "repeat") or 1
    return 1


def _read(data: Any, env: Any, asked: ReadOptions) -> ReadData:
    """Returns the tally of the old data; the number of actions comes from the environment or model."""
    if isinstance(getattr(data, "tally", data), Tally):
        return dataclasses.replace(read_data(data, ReadOptions(columns=asked.columns)), states=asked.states)
    if isinstance(env, MDP):
        labels = env.action_labels or ()
        asked = dataclasses.replace(asked, num_actions=env.num_actions, action_labels=labels)
    space = getattr(env, "single_action_space", getattr(env, "action_space", None))
    if space is not None:
        seen = getattr(env, "single_observation_space", getattr(env, "observation_space", None))
        number = read_action_code(asked.actions, space).num_actions
        asked = dataclasses.replace(asked, num_actions=number, action_labels=(), code_spaces=(seen, space))
    return read_data(data, asked)


def _refuse_out(out: Any) -> None:
    if out is not None:
        raise InvalidArgumentError.of(
            "out",
            parse_text("is the folder for new data, which need an environment as `env`"),
            remedy="Leave it out.",
        )


def _check_table(env: Any, repeat: int) -> None:
    if repeat > 1 and env is not None and not isinstance(env, MDP):
        raise InvalidArgumentError.of(
            "env",
            parse_text(f"has a table of single steps, but the data hold each action for {repeat} (`repeat`)"),
            remedy="Leave it out to plan on the data.",
        )


def _knowledge(env: Any, states: Any, repeat: int) -> str:
    """Returns "known" for an environment with a table, otherwise "learned"."""
    has_table = hasattr(getattr(env, "unwrapped", None), "P") and states is None and repeat == 1
    return "known" if has_table and not hasattr(env, "num_envs") else "learned"


def _check_actions(tally: Tally, asked: EnvRun) -> None:
    """Raises if the data have more actions than the environment, or were counted with fewer."""
    came, expected = tally.num_actions, asked.actions.num_actions
    if came > expected:
        raise InvalidDataError.of(
            "data",
            parse_text(f"has {came} actions, but `env` has {expected}: it belongs to another environment"),
        )
    if came < expected:
        raise InvalidDataError.of(
            "data",
            parse_text(f"was counted with {count_of(came, 'action')}, but `env` has {expected}"),
            remedy=(
                "Count it with all of them: ",
                Call(
                    f"read_tally(data, num_actions={expected}), from rhocover.datasets",
                    f"--num-actions {expected}",
                ),
                ".",
            ),
        )


def _after(asked: EnvRun, old: Tally) -> EnvRun:
    """Returns the run whose explorer adds to the old data and starts from them."""
    explorer = TopUpExplorer(old.num_steps + asked.spec.num_steps)
    return dataclasses.replace(asked, spec=dataclasses.replace(asked.spec, explorer=explorer), earlier=old)


def _shifted(report: Report, num_before: int) -> Report:
    """Returns the progress report for the new steps only."""
    return lambda done, total: report(done - num_before, total)


def _folder(asked: EnvRun, out: Any, dataset_id: str | None, resume: bool) -> CollectionFolder:
    """Returns the folder for the new data, stored like a collection."""
    assert asked.earlier is not None
    check_spaces(asked)
    name = default_id(asked).replace("/rho-", "/top-up-rho-") if dataset_id is None else dataset_id
    check_id(name)
    document = {"dataset_id": name, **settings_of(asked), **provenance()}
    document["data"] = tensor_digest(_counts(asked.earlier) | given_arrays(asked))
    return CollectionFolder(out, asked, document, resume=resume)


def _counts(tally: Tally) -> dict[str, Any]:
    """Returns the counts of a tally as arrays, from which its digest is computed."""
    moves = tally.moves
    return {
        "data": moves.data, "indices": moves.indices, "indptr": moves.indptr, "ends": tally.ends,
        "starts": tally.starts, "keys": np.frombuffer(_written(tally.keys).encode(), np.uint8),
    }  # fmt: skip


def _written(keys: tuple[Any, ...]) -> str:
    """Returns keys as text, also those of a large grid, which have more digits than Python prints."""
    large = any(isinstance(key, int) and key.bit_length() > 256 for key in keys)
    return repr(tuple(map(repr_of, keys))) if large else repr_of(keys)
