"""A data set held against a model that is known: the same states, or it is another environment's data.

States of the data are found among the model's by what an environment calls them, by the model's labels, or by
number. Visits to what the model does not have, and moves that it gives probability 0, cannot be: such data is
refused, because every figure about it would be wrong.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.data.tally import Tally
from rhocover.errors import InvalidArgumentError, InvalidDataError
from rhocover.mdp import MDP

IMPOSSIBLE = "Is it data of another environment? To judge it by itself, leave `model` out."


@dataclass(frozen=True, eq=False)
class KnownModel:
    """A model; `keys` are what the data calls its states, None for their labels or numbers."""

    mdp: MDP
    keys: tuple[Hashable, ...] | None = None
    spaces: tuple[Any, Any] | None = None  # of observations and actions, where an environment was given


def read_model(model: Any) -> KnownModel | None:
    """Returns an MDP, or that of an environment's table with the environment's numbers of its states."""
    if model is None or isinstance(model, KnownModel):
        return model
    if isinstance(model, MDP):
        return KnownModel(model)
    if hasattr(model, "unwrapped"):
        from rhocover.adapters.tables import read_table

        table, spaces = read_table(model), (model.observation_space, model.action_space)
        return KnownModel(table.model, tuple(table.states.tolist()), spaces)
    raise InvalidArgumentError(
        f"`model` must be an MDP or a Gymnasium environment with a table, got {type(model).__name__}."
    )


def over_model(tally: Tally, known: KnownModel) -> Tally:
    """Returns the tally over the model's states; refuses what the model says cannot be."""
    model = known.mdp
    if tally.num_actions != model.num_actions:
        raise InvalidDataError(
            f"{tally.source} has {tally.num_actions} actions, `model` has {model.num_actions}. {IMPOSSIBLE}"
        )
    labels = model.state_labels
    names = [tally.state_name(state) for state in range(tally.num_states)]
    if known.keys is not None:
        tally = _placed(tally, list(tally.keys), known.keys)
    elif labels is not None and set(names) & set(labels):
        tally = _placed(tally, names, labels)
    else:
        tally = _placed(tally, list(tally.keys), range(model.num_states))
    tally = replace(tally.over(range(model.num_states), labels), action_names=model.action_labels)
    _check_pairs(tally, model)
    _check_moves(tally, model)
    return tally


def _placed(tally: Tally, names: list[Any], whole: Sequence[Any]) -> Tally:
    """Returns the tally with the model's numbers as keys; `whole` is what its states are called."""
    place = {name: number for number, name in enumerate(whole)}
    lost = [name for name in names if name not in place]
    if lost:
        raise InvalidDataError(
            f"{tally.source} has states that `model` does not: {checks.name_some(lost)}; its "
            f"{len(place)} states are {checks.name_some(list(place), 4)}. {IMPOSSIBLE}"
        )
    return replace(tally, keys=tuple(place[name] for name in names))


def _check_pairs(tally: Tally, model: MDP) -> None:
    """Refuses visits to pairs that the model lacks."""
    absent = (tally.visits > 0) & (model.table(np.ones(model.num_pairs)) == 0)
    if absent.any():
        name = tally.pair_name(int(np.flatnonzero(absent)[0]))
        raise InvalidDataError(f"{tally.source} visits {name}, which `model` does not allow. {IMPOSSIBLE}")


def _check_moves(tally: Tally, model: MDP) -> None:
    """Refuses moves that have probability 0."""
    rows = tally.moves[model.pair_state * tally.num_actions + model.pair_action]
    seen = rows.astype(bool).astype(np.int8)
    possible = model.transitions.astype(bool).astype(np.int8)
    impossible = (seen - seen.multiply(possible)).tocoo()
    wrong = np.flatnonzero(impossible.data)
    if wrong.size:
        pair, state = (int(part[wrong[0]]) for part in impossible.coords)
        raise InvalidDataError(
            f"{tally.source} goes from {model.pair_name(pair)} to {tally.state_name(state)}, which `model` "
            f"gives probability 0. {IMPOSSIBLE}"
        )
