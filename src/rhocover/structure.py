"""Which pairs can carry occupancy at all, and what to do about those that cannot.

A pair can be visited for ever iff it lies in an end component: a set of pairs within which a trajectory
can stay and go anywhere. One trajectory ends up in one of them. So the average criterion needs every
weighted pair in one end component; the criteria with a start need every weighted pair to be reachable.
Anything else makes the coverage infinitely bad for rho >= 1, and is refused with the pairs named, or
dropped on request, with a report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover import chains, checks
from rhocover.checks import BoolArray, FloatArray, IntArray
from rhocover.errors import NotCommunicatingError
from rhocover.mdp import MDP


@dataclass(frozen=True, eq=False)
class Structure:
    """Which of a model's pairs are kept `[n]`, and what share of the weight the others carried."""

    kept: BoolArray
    dropped_weight: float
    num_components: int = 1
    reason: str = ""

    @property
    def dropped_pairs(self) -> IntArray:
        """The numbers of the pairs that were dropped."""
        return np.flatnonzero(~self.kept)

    def describe(self, mdp: MDP) -> str:
        """Returns what was dropped and how much weight it carried; empty if nothing was lost."""
        if self.kept.all() and self.dropped_weight == 0:
            return ""
        states = np.unique(mdp.pair_state[self.kept])
        names = checks.name_some([mdp.pair_name(i) for i in self.dropped_pairs])
        return (
            f"Kept {int(self.kept.sum())} of {mdp.num_pairs} pairs ({states.size} of {mdp.num_states} "
            f"states); dropped, with {self.dropped_weight:.3g} of the weight, {self.reason}: "
            f"{names or 'steps at which a pair is out of reach'}."
        )


def average_structure(mdp: MDP, mu: FloatArray, *, restrict: bool) -> Structure:
    """Returns the end component to plan on: all weighted pairs must lie in it, unless `restrict`.

    With `restrict` it is the one with most weight, among those reachable from the model's start.
    """
    components = chains.maximal_end_components(mdp)
    label, count = components.pair_label, components.count
    chosen = _heaviest(mdp, mu, label, count)
    kept = label == chosen
    lost = ~kept & (mu > 0)
    structure = Structure(kept, _share(mu, lost), count, "which one trajectory cannot keep visiting")
    if lost.any() and not restrict:
        raise _refusal(mdp, label, lost, kept, count)
    return structure


def _heaviest(mdp: MDP, mu: FloatArray, label: IntArray, count: int) -> int:
    """Returns the component with most weight; ties go to more pairs, then to the lowest state."""
    inside = label >= 0
    weight = np.bincount(label[inside], weights=(mu / mu.max())[inside], minlength=count)
    size = np.bincount(label[inside], minlength=count)
    allowed = np.ones(count, bool)
    if mdp.start is not None:
        reached = chains.reachable_states(mdp, mdp.start)[mdp.pair_state]
        allowed = np.bincount(label[inside & reached], minlength=count) > 0
    order = np.lexsort((np.arange(count), -size, -weight, ~allowed))
    return int(order[0])


def _refusal(
    mdp: MDP, label: IntArray, lost: BoolArray, kept: BoolArray, count: int
) -> NotCommunicatingError:
    """Returns the error for weighted pairs outside the chosen component."""
    transient = lost & (label < 0)
    pairs = np.flatnonzero(transient if transient.any() else lost)
    states = np.unique(mdp.pair_state[kept]).size
    way_out = f"Pass restrict=True to plan on the end component of {states} states."
    names = checks.name_some([mdp.pair_name(i) for i in pairs])
    if transient.any():
        text = f"{pairs.size} pairs can never be visited again once left: {names}."
    else:
        text = (
            f"one trajectory stays in one of {count} end components; these pairs lie in another: {names}."
        )
        way_out += " Restarts join the components: pass discount= or horizon= with a start."
    return NotCommunicatingError(f"{text} {way_out}", _as_tuples(mdp, np.flatnonzero(lost)))


def reachable_structure(mdp: MDP, mu: FloatArray, start: FloatArray, *, restrict: bool) -> Structure:
    """Returns the pairs of states that can be reached from `start`, whatever the policy."""
    kept = chains.reachable_states(mdp, start)[mdp.pair_state]
    lost = ~kept & (mu > 0)
    structure = Structure(kept, _share(mu, lost), 1, "which cannot be reached from the start")
    if lost.any() and not restrict:
        raise _out_of_reach(mdp, lost, "from the start")
    return structure


def horizon_structure(mdp: MDP, mu: Any, reached: BoolArray, *, restrict: bool) -> Structure:
    """Returns the pairs that can be reached within the horizon; `reached` is `[H, S, A]`.

    Weights `[S, A]` count a pair as reachable if one step reaches it; weights `[H, S, A]` are held to
    every step.
    """
    ever = reached.any(axis=0)
    weights = np.ones(ever.shape) if mu is None else np.asarray(mu, dtype=float)
    if weights.shape == (mdp.num_pairs,):
        weights = mdp.table(weights)
    exists = mdp.table(np.ones(mdp.num_pairs)) > 0
    possible = reached if weights.shape == reached.shape else ever
    if weights.shape != possible.shape:  # one weight for each entry of the set: all can be reached
        weights = possible.astype(float)
    lost = exists & (weights > 0) & ~possible
    kept = ever[mdp.pair_state, mdp.pair_action]
    reason = f"which cannot be reached within {reached.shape[0]} steps"
    if lost.any() and not restrict:
        anywhere = lost.reshape(-1, *ever.shape).any(axis=0)[mdp.pair_state, mdp.pair_action]
        raise _out_of_reach(mdp, anywhere, f"within {reached.shape[0]} steps from the start")
    return Structure(kept, _share(np.where(exists, weights, 0.0), lost), 1, reason)


def _out_of_reach(mdp: MDP, lost: BoolArray, where: str) -> NotCommunicatingError:
    pairs = np.flatnonzero(lost)
    names = checks.name_some([mdp.pair_name(i) for i in pairs])
    return NotCommunicatingError(
        f"{pairs.size} weighted pairs cannot be reached {where}: {names}. "
        "Give them weight zero, or pass restrict=True to leave them out.",
        _as_tuples(mdp, pairs),
    )


def _share(mu: FloatArray, lost: BoolArray) -> float:
    scaled = mu / mu.max()  # weights near 1e308 must not overflow
    return float(scaled[lost].sum() / scaled.sum())


def _as_tuples(mdp: MDP, pairs: IntArray) -> Sequence[tuple[int, ...]]:
    return [(int(mdp.pair_state[i]), int(mdp.pair_action[i])) for i in pairs]
