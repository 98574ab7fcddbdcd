"""How an environment's observations become states and its actions become numbers.

Every count, plan and data set of this library is over finitely many states and actions. What is finite
already needs no word (`Discrete`, `MultiDiscrete`, `MultiBinary`). Real numbers are cut into bins
(`rhocover.Bins`, `rhocover.QuantileBins`), and everything else goes through a function of the user's.
Nothing is discretised without being asked for: a grid chosen by a library is a hidden assumption.

A code reads one observation a step (`key`) or a whole data set at once (`keys`), says what a state is
called (`name`) and where to draw it (`layout`), and goes into files as a `document`, from which
`state_code_from_document` makes it again. No file makes a function run.
"""

from __future__ import annotations

from typing import Any

from rhocover.adapters.action_code import ActionCode
from rhocover.adapters.action_codes import read_action_code
from rhocover.adapters.bin_code import BinCode
from rhocover.adapters.bins import Bins, QuantileBins, space_bounds
from rhocover.adapters.code_documents import state_code_from_document
from rhocover.adapters.function_code import FunctionCode
from rhocover.adapters.pilot import pilot_observations
from rhocover.adapters.spaces import check_space, counts_and_starts
from rhocover.adapters.state_code import OutsideSpaceError, StateCode
from rhocover.adapters.whole_numbers import WholeNumber, WholeNumbers
from rhocover.errors import InvalidArgumentError

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
    "pilot_observations",
    "read_action_code",
    "read_state_code",
    "state_code_from_document",
]


def read_state_code(states: Any, space: Any) -> StateCode:
    """Returns the code that `states` asks for, for the observations of one environment's `space`.

    `states` is None for a space that is finite already, `Bins`, a fitted `QuantileBins`, or a function. Of a
    vector environment, pass its `single_observation_space`.
    """
    check_space(space, "space")
    if states is None:
        return _finite_code(space)
    if isinstance(states, Bins):
        return states.code(_boxed(space, states.of))
    if isinstance(states, BinCode):
        return states.within(space_bounds(_boxed(space, states.of), states.of, len(states.axes)))
    if isinstance(states, QuantileBins):
        raise InvalidArgumentError(
            "`states=QuantileBins(...)` has no edges yet: call its .fit(observations) with observations of a "
            "pilot run, for example pilot_observations(env, num_steps=10_000, seed=0), and pass the result."
        )
    if callable(states):
        return FunctionCode(states)
    raise InvalidArgumentError(
        f"`states` must be None, rc.Bins, a fitted rc.QuantileBins or a function, got {states!r}."
    )


def _finite_code(space: Any) -> StateCode:
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return WholeNumber(int(space.n), int(space.start))
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        return WholeNumbers(*counts_and_starts(space))
    way_out = "a function of an observation that gives a whole number, a text or a tuple of those"
    if isinstance(space, spaces.Box):
        way_out = f"rc.Bins(8) for 8 bins a dimension, rc.QuantileBins(8), or {way_out}"
    raise InvalidArgumentError(
        f"the observation space {space} has no finite states: pass `states`, {way_out}."
    )


def _boxed(space: Any, of: Any) -> Any:
    """Returns the space if bins can cut it; a function `of` makes numbers of any space's observations."""
    from gymnasium import spaces

    if callable(of) or isinstance(space, spaces.Box):
        return space
    raise InvalidArgumentError(
        f"bins cut the numbers of a Box space, got {space}. Leave `states` out if it is Discrete, or give "
        "the bins `of`, a function from an observation to a few numbers."
    )
