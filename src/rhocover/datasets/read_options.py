"""How data are read, and the codes of their states: given, fitted to the first steps, or grown by reading.

A net, a hash or quantiles that are not fitted yet are fitted to the first steps of the data, as they would be
to a random rollout in an environment. A net also grows while data are read; whoever adds to the data must use
the net as it is afterwards, because its codes are the keys of the tally.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rhocover.datasets.builder import Tallier
from rhocover.datasets.states import StateNumbers, WatchedStates, make_state_numbers
from rhocover.datasets.tally import Tally
from rhocover.environments.encoding import QuantileBins, read_state_code
from rhocover.environments.encoding.base import is_lossy
from rhocover.environments.encoding.hashes import SimHash
from rhocover.environments.encoding.nets import Net
from rhocover.environments.encoding.watching import Watch
from rhocover.errors import calling


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How data are read; the first fields are arguments of `read_tally`."""

    states: Any = None
    actions: Any = None
    num_states: int | None = None
    num_actions: int | None = None
    spaces: tuple[Any, Any] | None = None
    held_out: Any = None
    columns: Any = None
    action_labels: Sequence[str] | None = None  # of the known model; none if it has numbers only
    executor: Any = None  # counts ranges of rows; None: this process counts
    code_spaces: tuple[Any, Any] | None = None  # of the environment, for codes of tables, which have none

    @property
    def codes(self) -> tuple[Any, Any]:
        """`states` and `held_out`, as the caller gave them."""
        return self.states, self.held_out

    @property
    def must_fit(self) -> bool:
        """Whether one of the codes is fitted to the first steps."""
        return any(isinstance(code, FITTED) for code in self.codes)

    def fitted_codes(self, observations: Any, then: Any = None) -> tuple[Any, Any]:
        """Returns `states` and `held_out`, fitted to the first steps of the data if they must be."""
        states, held_out = (fit_states(code, observations, then) for code in self.codes)
        return states, held_out

    def fit_remarks(self, number: int) -> list[str]:
        """Returns the remark that the code of the states was fitted to `number` steps; none if it was not."""
        if not isinstance(self.states, FITTED):
            return []
        kind = type(self.states).__name__
        return [f"The code of the states, {kind}, is fitted to the first {number:,} steps of the data."]


@dataclass(frozen=True, eq=False)
class ReadData:
    """The tally of data, and the code of its states: the one given, or what it became by reading."""

    tally: Tally
    states: Any


# Codes that are fitted to the first steps of the data.

FITTED = (Net, SimHash, QuantileBins)
MOST_FITTED = 10_000  # steps of a data set to which a code is fitted, the first ones
KEPT = 1 << 16  # steps of the Markov test, which then takes a quarter of a second


def fit_states(states: Any, observations: Any, then: Any = None) -> Any:
    """Returns the argument `states`; a net, a hash or quantiles are fitted to the first steps of the data."""
    if isinstance(states, SimHash | QuantileBins):
        return states.fit(observations[:MOST_FITTED])
    if isinstance(states, Net):
        return states.fit(observations[:MOST_FITTED], then=None if then is None else then[:MOST_FITTED])
    return states


def as_read(tally: Tally, tallier: Tallier, coder: StateNumbers, asked: ReadOptions) -> ReadData:
    """Returns what was read: the tally with the Markov test of its codes, and the code after reading."""
    coded, found = tally.coded, tallier.markov_test()
    if coded is not None and found is not None:
        tally = replace(tally, coded=replace(coded, markov=found))
    return ReadData(tally, _grown_code(coder, asked))


def _grown_code(coder: StateNumbers, asked: ReadOptions) -> Any:
    """Returns the code of the states after reading, if it was fitted or has grown; else the one given."""
    inner = coder.inner if isinstance(coder, WatchedStates) else coder
    code = getattr(inner, "code", None)
    is_other = isinstance(asked.states, FITTED) or hasattr(code, "num_leaders")
    return code if code is not None and is_other else asked.states


def watched_states(code: Any, held_out: Any, space: Any) -> StateNumbers:
    """Returns the numbering of a state code, with a sample of the observations and the held-out code."""
    watch = Watch(code, read_held_out(held_out, space))
    return make_state_numbers(code, watch if is_lossy(code) or held_out is not None else None)


def num_kept(numbers: StateNumbers) -> int:
    """Returns how many steps the Markov test needs; it is for codes of observations."""
    return KEPT if isinstance(numbers, WatchedStates) and is_lossy(numbers.watch.code) else 0


def read_held_out(held_out: Any, space: Any) -> Any:
    """Returns the held-out code; None without one."""
    if held_out is None:
        return None
    with calling(states="held_out"):
        return read_state_code(held_out, space)
