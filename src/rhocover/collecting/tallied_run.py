"""A run in an environment: it can say which episodes it had, and whether its states are Markov.

Its counts of transitions go on where an episode ends, with the next start, as the model does that is planned
on. The tally says what the environment did: ends are ends there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover.checks import BoolArray, IntArray
from rhocover.collecting.expedition import Expedition
from rhocover.collecting.trail import Trail
from rhocover.datasets.tally import Tally
from rhocover.exploring.certificates import Certificate
from rhocover.exploring.index import Index, counts_of_moves
from rhocover.exploring.run import Run
from rhocover.learning.markov import MarkovTest
from rhocover.printing import printed

AS_IF = (
    "Visits are counts and stay true; plans, the best, gaps and certificates are about these states as if "
    "they were Markov, not about the environment."
)
IF_MARKOV = "if these states were Markov, which they are not"


@dataclass(frozen=True, eq=False)
class TalliedRun(Run):
    """A run in an environment. `tally` counts what it did there by the environment's own states."""

    tally: Tally = field(
        kw_only=True
    )  # over the states met; its episodes, ends and starts are those of the run
    trail: Trail = field(kw_only=True, repr=False)

    @cached_property
    def markov(self) -> MarkovTest:
        """Whether the states were seen not to be Markov: what followed pairs depended on what came before."""
        return self.trail.markov_test()

    @property
    def planned_distance(self) -> float:
        """The share of the visits that are in other states than where the best plan would have them.

        Total variation; the plan is that on `problem`. It falls with the steps if the states are Markov.
        """
        excess = (self.visits / max(int(self.visits.sum()), 1) - self.problem.d_star).astype(float)
        return float(np.abs(np.bincount(self.problem.mdp.pair_state, excess)).sum()) / 2

    @property
    def remarks(self) -> tuple[str, ...]:
        """What it means if the states are not Markov; nothing otherwise."""
        if not self.markov.is_found:
            return ()
        away = f"{100 * self.planned_distance:.2g}% of the visits are in other states than the plan asks."
        return (f"{self.markov} {away} {AS_IF}",)

    def certificate(self, delta: float = 0.05) -> Certificate:
        """Returns how close the visits are to the best, as far as can be known, and what that supposes."""
        found = super().certificate(delta)
        return if_markov(found) if self.markov.is_found else found

    def summary(self) -> dict[str, Any]:
        """Returns the numbers of the run, ready for JSON (infinities as text, None for nan)."""
        tally = self.tally
        return super().summary() | {
            "num_episodes": tally.num_episodes,
            "num_truncated": tally.num_truncated,
            "markov": self.markov.document() | {"planned_distance": self.planned_distance},
            "remarks": list(self.remarks),
        }

    @printed
    def __str__(self) -> str:
        return "\n  ".join([super().__str__(), *self.remarks])

    __repr__ = __str__


def if_markov(certificate: Certificate) -> Certificate:
    """Returns a certificate that says that it supposes Markov states where there are none."""
    condition = f"{certificate.condition} and {IF_MARKOV}".removeprefix(" and ")
    return replace(certificate, condition=condition)


def wired_tally(trip: Expedition, index: Index, keys: list[Any], moves: IntArray, trail: Trail) -> Tally:
    """Returns all counts over all states that have a number, with ends as they were counted: as starts."""
    num_states, num_actions = index.num_states, index.num_actions
    rows = np.asarray(index.pair_state) * num_actions + np.asarray(index.pair_action)
    found = counts_of_moves(index, moves).tocoo()
    shape = (num_states * num_actions, num_states)
    table = sp.csr_array((found.data, (rows[found.coords[0]], found.coords[1])), shape=shape)
    starts = np.zeros(num_states, np.int64)
    starts[list(trail.starts)] = list(trail.starts.values())
    return Tally.from_counts(
        keys, num_actions, table, np.zeros(shape[0], np.int64), starts, num_truncated=trail.num_truncated,
        state_names=tuple(trip.states.name(key) for key in keys), action_names=trip.actions.names,
        layout=trip.states.layout(keys), source=trip.name,
    )  # fmt: skip


def true_tally(trip: Expedition, wired: Tally, index: Index, trail: Trail) -> Tally:
    """Returns the counts of what the environment did, over the states met: ends are no moves."""
    A, met = wired.num_actions, np.flatnonzero(met_states(wired))
    rows = np.asarray(index.pair_state) * A + np.asarray(index.pair_action)
    again, ends = restarts_of(trail, rows, wired.moves.shape)
    own = (met[:, None] * A + np.arange(A)).ravel()
    keys = [wired.keys[s] for s in met.tolist()]
    others = set(keys)
    return Tally.from_counts(
        keys, A, (wired.moves - again)[own][:, met], ends[own], wired.starts[met],
        num_truncated=wired.num_truncated, end_keys=tuple(k for k in trail.end_keys if k not in others),
        state_names=tuple(trip.states.name(key) for key in keys), action_names=wired.action_names,
        layout=trip.states.layout(keys), source=wired.source,
    )  # fmt: skip


def met_states(wired: Tally) -> BoolArray:
    """Returns which states were met: acted in, led to, or begun in."""
    led_to = np.asarray(wired.moves.sum(axis=0)).ravel()
    return (wired.counts.sum(axis=1) > 0) | (led_to > 0) | (wired.starts > 0)


def restarts_of(trail: Trail, rows: IntArray, shape: tuple[int, ...]) -> tuple[sp.csr_array, IntArray]:
    """Returns which starts followed ends, `[S*A, S]`, and how often each pair ended its episode, `[S*A]`."""
    places = np.array(list(trail.restarts), np.int64).reshape(-1, 2)
    times = np.fromiter(trail.restarts.values(), np.int64, len(trail.restarts))
    pairs = rows[places[:, 0]]
    ends = np.zeros(shape[0], np.int64)
    np.add.at(ends, pairs, times)
    return sp.csr_array((times, (pairs, places[:, 1])), shape=shape), ends
