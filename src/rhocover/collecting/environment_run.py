"""A run in a world that nobody has a model of: judged, once it is over, by the model that it saw.

The model is the empirical one of all its transitions (`data.observed`), on the part that can be visited for
ever; the trace compares the counts at each of its steps with the best coverage of that model. It is an
estimate of what was possible, made with all the data, and the same for every step: what was not met is not
in it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.checks import IntArray
from rhocover.collecting.expedition import Expedition
from rhocover.coverage import checked_weights
from rhocover.data.observed import Observed, observed_model
from rhocover.data.tally import Tally
from rhocover.exploring.certificates import (
    STATES_UNKNOWN,
    Certificate,
    certify_visits,
    evidence_of,
    open_evidence,
)
from rhocover.exploring.estimated_problem import weights_of
from rhocover.exploring.index import counts_of_moves
from rhocover.exploring.learned import LearnedModel
from rhocover.exploring.problem import Problem, make_problem
from rhocover.exploring.registry import explorer_document, explorer_name
from rhocover.exploring.run import Run
from rhocover.exploring.runner import Runner
from rhocover.exploring.trace import COLUMNS, make_trace, measure
from rhocover.learning.evidence import Evidence

NO_ROW = (np.nan,) * len(COLUMNS)


@dataclass(frozen=True, eq=False)
class EnvironmentRun(Run):
    """A run in an environment without a table. `mdp` is the model that was seen in it.

    Tables are over the states of that model; `keys` says which states of the environment they are. Visits
    outside of it are not in them: `num_outside` says how many there were, `untried` how many pairs of states
    that were met were never tried.
    """

    has_truth: ClassVar[bool] = False

    keys: tuple[Any, ...] = ()
    tally: Tally | None = None  # of everything that was seen, ends counted as leading to the next start
    num_outside: int = 0
    untried: int = 0
    knows_states: bool = False  # whether the explorer was told of all states there can be

    def __str__(self) -> str:
        pair, count = self.least_visited
        head = (
            f"Run of {self.explorer} in {self.tally.source if self.tally else 'a world'} (dynamics learned) "
            f"at rho = {self.rho:g}: {self.num_steps} steps, {self.num_states_met} states met, coverage "
            f"{self.coverage_text}."
        )
        judged = f"over the {self.visits.size} pairs of the model that was seen"
        lines = [
            f"  divergence  {self.divergence:.6g}  (best {self.best.divergence:.6g} {judged})",
            f"  worst ratio {self.worst_ratio:.6g}  (the best plan at this rho: {self.best.worst_ratio:.6g})",
            f"  least visited of them: {pair}, {count} times",
        ]
        return "\n".join([head, *lines, *([f"  {self.restriction}"] if self.restriction else [])])

    __repr__ = __str__

    @property
    def num_states_met(self) -> int:
        """How many states were met."""
        assert self.tally is not None
        return int((self.tally.visits.sum(axis=1) > 0).sum())

    @property
    def restriction(self) -> str:
        """What of what was met is not judged."""
        return self.mdp.note

    def certificate(self, delta: float = 0.05) -> Certificate:
        """Returns how close the visits are to the best, as far as can be known: an estimate only."""
        assert isinstance(self.belief, LearnedModel)
        delta = checks.probability(delta, "delta", open_ends=True)
        found = certify_visits(self.belief, self.belief.moves, delta)
        if self.knows_states or not np.isfinite(found.gap):
            return found
        return replace(found, gap=np.inf, lower_bound=0.0, condition=STATES_UNKNOWN)

    def evidence(self, delta: float = 0.05) -> Evidence | None:
        """Returns how often what was met was tried; nothing can be said of what was not met."""
        assert isinstance(self.belief, LearnedModel)
        delta = checks.probability(delta, "delta", open_ends=True)
        if not self.knows_states:
            return open_evidence(self.belief, self.belief.moves, delta)
        return evidence_of(self.belief, self.belief.moves, int(self.last_states[0]), delta)


def judged_run(
    trip: Expedition, runner: Runner, shots: list[tuple[int, IntArray]], chart: Any, began: float
) -> EnvironmentRun:
    """Returns the run, judged by the model seen in it."""
    standing, settings = runner.standing, trip.settings
    belief = standing.state.belief.at(standing.seen, standing.num_steps)  # type: ignore[attr-defined]
    tally = wired_tally(trip, chart, standing)
    seen = observed_model(tally)
    mdp = replace_note(seen)
    problem = make_problem(mdp, settings.rho, _weights(belief, seen))
    visits = tally.visits.ravel()[seen.pairs]
    rows = [_row(problem, counts, step, seen) for step, counts in shots]
    weighted = _num_weighted(belief, tally)
    trace = replace(make_trace(rows, problem), num_weighted=weighted)
    first = np.flatnonzero(tally.visits.sum(axis=1) > 0)
    kept = seen.pairs // tally.num_actions
    return EnvironmentRun(
        mdp=mdp,
        problem=problem,
        explorer=explorer_name(settings.explorer),
        explorer_settings=explorer_document(settings.explorer),
        seed=settings.seed,
        num_steps=standing.num_steps,
        visits=checks.frozen(visits),
        moves=checks.frozen(_moves(problem, tally, seen)),
        first_states=checks.frozen(standing.first_states),
        last_states=checks.frozen(standing.position.states),
        trace=trace,
        belief=belief,
        model="learned",
        is_enough=standing.is_enough,
        episodes=tuple(standing.episodes),
        seconds=time.perf_counter() - began,
        keys=tuple(tally.keys[s] for s in np.unique(kept)),
        tally=tally,
        num_outside=int(tally.num_steps - visits.sum()),
        untried=int((tally.visits[first] == 0).sum()),
        knows_states=trip.told_states is not None,
    )


def wired_tally(trip: Expedition, chart: Any, standing: Any) -> Tally:
    """Returns all counts, with ends as they were counted: as leading to the next start."""
    index, keys = standing.seen.index, chart.keys
    moves = counts_of_moves(index, standing.seen.moves)
    starts = np.zeros(len(keys), np.int64)
    np.add.at(starts, standing.first_states, 1)
    return Tally.from_counts(
        keys, index.num_actions, moves, np.zeros(index.num_pairs, np.int64), starts,
        state_names=tuple(trip.states.name(key) for key in keys), action_names=trip.actions.names,
        layout=trip.states.layout(keys), source=trip.name,
    )  # fmt: skip


def replace_note(seen: Observed) -> Any:
    """Returns the model that was seen, with what it leaves out as its note."""
    mdp = seen.mdp
    if not seen.note:
        return mdp
    return type(mdp).from_pairs(
        mdp.transitions, mdp.pair_state, mdp.pair_action, num_actions=mdp.num_actions, start=mdp.start,
        state_labels=mdp.state_labels, action_labels=mdp.action_labels, layout=mdp.layout, name=mdp.name,
        note=seen.note,
    )  # fmt: skip


def _weights(belief: LearnedModel, seen: Observed) -> Any:
    """Returns the weights of the pairs of the model that was seen; ones if none of them matters."""
    weights = np.zeros(belief.frame.world.num_pairs)
    weights[belief.known.pairs] = weights_of(belief.frame, belief.known)
    kept = weights[seen.pairs]
    return checked_weights(kept, "mu") if kept.any() else np.ones(kept.size)


def _num_weighted(belief: LearnedModel, tally: Tally) -> int:
    """Returns how many pairs of the states met have a weight, tried or not."""
    weights = np.zeros(belief.frame.world.num_pairs)
    weights[belief.known.pairs] = weights_of(belief.frame, belief.known)
    met = np.repeat(tally.visits.sum(axis=1) > 0, tally.num_actions)
    return int(((weights > 0) & met).sum())


def _row(problem: Problem, counts: IntArray, step: int, seen: Observed) -> list[float]:
    """Returns a row of the trace; shares are of the visits inside the model that was seen."""
    inside = np.zeros(seen.pairs.size, np.int64)
    known = seen.pairs < counts.size
    inside[known] = counts[seen.pairs[known]]
    if inside.sum() == 0:
        row = [*NO_ROW]
        row[COLUMNS.index("visited")] = row[COLUMNS.index("least_pair")] = row[-1] = 0
    else:
        row = measure(problem, inside, int(inside.sum()))
    row[0] = step
    return row


def _moves(problem: Problem, tally: Tally, seen: Observed) -> IntArray:
    """Returns the counts of transitions aligned with the model's own; those that left it are not in it."""
    P = problem.mdp.transitions
    states = np.unique(seen.pairs // tally.num_actions)
    counts = sp.csr_array(tally.moves[seen.pairs][:, states])
    rows = np.repeat(np.arange(P.shape[0]), np.diff(P.indptr))
    return np.asarray(counts[rows, P.indices]).ravel().astype(np.int64)
