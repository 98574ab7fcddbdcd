"""Encodings: how an environment's observations become states and its actions become numbers.

Every count, plan and data set of this library is over finitely many states and actions. Spaces that are
finite already need no setting (`Discrete`, `MultiDiscrete`, `MultiBinary`). Real numbers are cut into bins
(`rhocover.Bins`, `rhocover.QuantileBins`) or grouped around leaders (`rhocover.Net`), hashed
(`rhocover.SimHash`) or, as images, made small (`rhocover.ImageCells`); everything else goes through a
function that the user passes. Nothing is discretised unless the user asks for it: a grid chosen by a library
is a hidden assumption.

A code maps one observation (`key`) or a whole data set (`keys`) to states, and gives each state a name
(`name`) and a position in figures (`layout`). It is stored as a `document`, from which
`state_code_from_document` restores it. Files are data: reading one never runs a function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rhocover.documents import Family, from_document
from rhocover.environments.encoding.actions import read_action_code
from rhocover.environments.encoding.advice import states_advice
from rhocover.environments.encoding.base import (
    ActionCode,
    OutsideSpaceError,
    StateCode,
    check_space,
    counts_and_starts,
)
from rhocover.environments.encoding.bins import BinCode, Bins, QuantileBins, StoredBins, space_bounds
from rhocover.environments.encoding.discrete import WholeNumber, WholeNumbers
from rhocover.environments.encoding.functions import FunctionCode
from rhocover.environments.encoding.hashes import (
    ImageCells,
    SimHash,
    SimHashCode,
    StoredImageCells,
    StoredSimHash,
)
from rhocover.environments.encoding.nets import Net, NetCode, StoredNet
from rhocover.environments.stepping import random_rollout, rollout_of_copy
from rhocover.errors import Argument, Call, InvalidArgumentError, InvalidDataError, Setting, inside

# State and action codes as files store them.


@dataclass(frozen=True)
class StoredFunction:
    """The name of a function that the user passed as `states`."""

    name: str


@dataclass(frozen=True)
class Levels:
    """The levels of each dimension of the actions."""

    levels: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class ListedActions:
    """The actions themselves, one tuple per action."""

    actions: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class ChosenActions:
    """Some of the actions of a finite space, one tuple per action."""

    actions: tuple[tuple[int, ...], ...]


STATES: dict[str, type] = {
    "discrete": WholeNumber, "multi_discrete": WholeNumbers, "bins": StoredBins, "function": StoredFunction,
    "net": StoredNet, "simhash": StoredSimHash, "image": StoredImageCells,
}  # fmt: skip
ACTIONS = {
    "levels": Levels,
    "listed": ListedActions,
    "chosen": ChosenActions,
}  # the other kinds follow from the space
STATE_CODE = Family("a state code", STATES, tag="kind", content=None)
ACTION_CODE = Family("an action code", ACTIONS, tag="kind", content=None)


def state_code_from_document(document: Any, space: Any) -> StateCode:
    """Returns the code that wrote `document`, for the same observation space.

    A document that names a user's function is refused: pass the function itself as `states`.
    """
    try:
        return _of_space(from_document(STATE_CODE, document, "the state code"), space)
    except InvalidDataError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidDataError(f"the state code is damaged or belongs to another space: {error}") from error


def _of_space(stored: Any, space: Any) -> StateCode:
    if isinstance(stored, StoredFunction):
        raise _needs_function(stored.name)
    if isinstance(stored, StoredBins):
        if isinstance(stored.of, str):
            raise _needs_function(stored.of)
        return BinCode(stored.axes(), stored.of).within(space_bounds(space, stored.of, len(stored.names)))
    if isinstance(stored, StoredNet | StoredSimHash | StoredImageCells):
        try:
            return stored.code()
        except LookupError as error:
            raise _needs_function(str(error.args[0])) from error
    is_one = isinstance(stored, WholeNumber)
    given = (int(space.n), int(space.start)) if is_one else counts_and_starts(space)
    if stored != type(stored)(*given):
        raise InvalidDataError(
            f"the states were stored as {stored.document()}, "
            f"but the observation space is {space}: they belong to another environment."
        )
    return stored


def _needs_function(name: str) -> InvalidDataError:
    module, _, function = name.rpartition(".")
    return InvalidDataError(
        f"the states come from the function {name}, which a file cannot store.",
        argument="states",
        remedy=("Pass ", Setting("states", function, f"{module}:{function}"), "."),
    )


__all__ = [
    "ActionCode",
    "BinCode",
    "Bins",
    "FunctionCode",
    "OutsideSpaceError",
    "QuantileBins",
    "StateCode",
    "WholeNumber",
    "WholeNumbers",
    "random_rollout",
    "read_action_code",
    "read_state_code",
    "state_code_from_document",
]


def read_state_code(states: Any, space: Any) -> StateCode:
    """Returns the code described by `states`, for the observations of one environment's `space`.

    `states` is None for a space that is finite already, `Bins`, `ImageCells`, a fitted `QuantileBins`, `Net`
    or `SimHash`, or a function. For a vector environment, pass its `single_observation_space`.
    """
    check_space(space, "space")
    with inside("states"):
        return _state_code(states, space)


FITTED = (QuantileBins, Net, SimHash)  # codes that are fitted to the observations of a rollout


def fitted_to_copy(states: Any, env: Any) -> Any:
    """Returns `states`, fitted to a random rollout in a copy of `env` if it must be and there is one."""
    if not isinstance(states, FITTED):
        return states
    seen = rollout_of_copy(env, states.rollout_steps, seed=0)
    return states if seen is None else states.fit(seen)


def _state_code(states: Any, space: Any) -> StateCode:
    if states is None:
        return _finite_code(space)
    if isinstance(states, Bins):
        return states.code(_boxed(space, states.of))
    if isinstance(states, BinCode):
        return states.within(space_bounds(_boxed(space, states.of), states.of, len(states.axes)))
    if isinstance(states, NetCode):
        return states.copy()
    if isinstance(states, SimHashCode | ImageCells):
        return states
    if isinstance(states, FITTED):
        raise InvalidArgumentError.of(
            "states",
            f"is a {type(states).__name__} that is not fitted yet: call its .fit(observations) with "
            "observations of a run, and pass the result",
        )
    if callable(states):
        return FunctionCode(states)
    raise InvalidArgumentError.of(
        "states",
        "must be None, rc.Bins, rc.QuantileBins, rc.Net, rc.SimHash, rc.ImageCells or a function",
        repr(states),
    )


def _finite_code(space: Any) -> StateCode:
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return WholeNumber(int(space.n), int(space.start))
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        return WholeNumbers(*counts_and_starts(space))
    advice, is_box = states_advice(space), isinstance(space, spaces.Box)
    assert advice is not None  # every other space needs one
    own = Call(
        "a function from an observation to an integer, a string, or anything else that is hashable",
        "module:name, a function of an observation that is imported from there",
    )
    raise InvalidArgumentError(
        f"the observation space {space} {'is not finite' if is_box else 'has no numbered values'}.",
        argument="states",
        remedy=("Pass ", advice, ", or ", Argument("states"), " as ", own, "."),
    )


def _boxed(space: Any, of: Any) -> Any:
    """Returns the space if it can be binned: a Box, or any space if the function `of` returns numbers."""
    from gymnasium import spaces

    if callable(of) or isinstance(space, spaces.Box):
        return space
    python = "pass `of` to the bins, a function from an observation to a few numbers."
    raise InvalidArgumentError(
        f"bins need a Box space, got {space}.",
        argument="states",
        remedy=("Leave ", Argument("states"), " out if it is Discrete, or ", Call(python, "use Python.")),
    )
