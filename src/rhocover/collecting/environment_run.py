"""A run in a world that nobody has a model of: judged, once it is over, by the model that it saw.

The model is the empirical one of all its transitions (`data.observed`), on the part that can be visited for
ever; the trace compares the counts at each of its steps with the best coverage of that model. It is an
estimate of what was possible, made with all the data, and the same for every step: what was not met is not
in it. So it is compared with visits only where these are about the same pairs: where each pair with a weight
was visited, and none of them is outside of it. Which pairs have a weight, met or not, says the `Scope`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NoReturn

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.checks import FloatArray, IntArray
from rhocover.collecting.expedition import Expedition
from rhocover.collecting.scope import Scope, make_scope
from rhocover.collecting.tallied_run import TalliedRun, if_markov, met_states, true_tally, wired_tally
from rhocover.collecting.trail import Trail
from rhocover.coverage import checked_weights
from rhocover.datasets.empirical_model import Observed, observed_model
from rhocover.datasets.tally import Tally
from rhocover.documents import plain
from rhocover.errors import InvalidArgumentError
from rhocover.exploring.beliefs import NEVER
from rhocover.exploring.certificates import (
    STATES_UNKNOWN,
    Certificate,
    certify_visits,
    evidence_of,
    open_evidence,
)
from rhocover.exploring.estimated_problem import weights_of
from rhocover.exploring.learned import LearnedModel
from rhocover.exploring.problem import Problem, make_problem
from rhocover.exploring.registry import explorer_document, explorer_name
from rhocover.exploring.runner import Runner
from rhocover.exploring.trace import COLUMNS, make_trace, measure
from rhocover.learning.evidence import Evidence
from rhocover.printing import printed

NO_TRUTH = (
    "needs the true transitions, and a run that learned an environment does not have them. Where the "
    'environment has a table, explore rhocover.MDP.from_gymnasium(env) with model="learned"; elsewhere '
    "until=SmallModelError(...) bounds the error by the counts alone."
)


@dataclass(frozen=True, eq=False)
class EnvironmentRun(TalliedRun):
    """A run in an environment without a table. `mdp` is the model that was seen in it.

    Tables are over the states of that model; `keys` says which states of the environment they are. Visits
    outside of it are not in them: `num_outside` says how many there were, `untried` how many pairs of states
    that were met were never tried. `divergence` and `worst_ratio` are over all pairs with a weight.
    """

    has_truth: ClassVar[bool] = False

    keys: tuple[Any, ...] = ()
    wired: Tally = field(kw_only=True)  # as planned on: ends lead to the next start
    scope: Scope = field(kw_only=True)  # what there is to be covered
    num_outside: int = 0
    untried: int = 0
    knows_states: bool = False  # whether the explorer was told of all states there can be

    @printed
    def __str__(self) -> str:
        pair, count = self.least_visited
        head = (
            f"Run of {self.explorer} in {self.tally.source} (dynamics learned) at rho = {self.rho:g}: "
            f"{self.num_steps} steps, coverage {self.coverage_text}."
        )
        least = f"least visited in the model that was seen: {pair}, {count} times"
        notes = [least, self.restriction, *self.remarks]
        return "\n  ".join([head, *self._figures(), *(note for note in notes if note)])

    __repr__ = __str__

    def _figures(self) -> list[str]:
        """Returns divergence and worst ratio: beside the best where it is about the same pairs."""
        if self.num_missing:
            part = (
                f"of the {self.scope.num_visited} visited alone: divergence {self.visited_divergence:.6g}, "
                f"worst ratio {self.visited_worst_ratio:.6g} (a part: there is no best to compare it with)"
            )
            all_of_it = f"{self.divergence:.6g}, worst ratio {self.worst_ratio:.6g}: {self._missing()}"
            return [f"divergence  {all_of_it}", *([part] if self.scope.num_visited else [])]
        if not self.is_comparable:
            return [
                f"divergence  {self.divergence:.6g}, worst ratio {self.worst_ratio:.6g}  (no best is known: "
                f"some pairs are not in the model that was seen)"
            ]
        judged = f"over the {self.visits.size} pairs of the model that was seen"
        return [
            f"divergence  {self.divergence:.6g}  (best {self.best.divergence:.6g} {judged})",
            f"worst ratio {self.worst_ratio:.6g}  (the best plan at this rho: {self.best.worst_ratio:.6g})",
        ]

    def _missing(self) -> str:
        were = "pair with a weight was" if self.num_missing == 1 else "pairs with a weight were"
        return f"{self.num_missing} {were} never visited"

    @property
    def num_states_met(self) -> int:
        """How many states were met."""
        return self.scope.num_met

    @property
    def restriction(self) -> str:
        """What of what was met is not judged."""
        return self.mdp.note

    @property
    def is_open(self) -> bool:
        """Whether coverage is that of the states met so far, because there may be others that matter."""
        return self.scope.is_open

    @property
    def is_complete(self) -> bool:
        """Whether every pair with a weight was visited, and it is known which there are."""
        return not self.is_open and self.num_missing == 0

    @property
    def num_missing(self) -> int:
        """How many pairs with a weight have no visit, as far as is known which there are."""
        return self.scope.num_missing

    @property
    def is_comparable(self) -> bool:
        """Whether `best` is about the pairs that the figures of the visits are about."""
        return self.num_missing == 0 and bool(np.isfinite(self.trace["divergence"][-1]))

    @property
    def coverage_text(self) -> str:
        """How much is covered, of what: complete, incomplete, or of the states met so far."""
        return self.scope.text

    @property
    def divergence(self) -> float:
        """D_rho over all pairs with a weight; infinite for rho >= 1 while one of them has no visit."""
        return self.scope.figures(self.rho)[0]

    @property
    def worst_ratio(self) -> float:
        """Max mubar/d_hat over all pairs with a weight; infinite while one of them has no visit."""
        return self.scope.figures(self.rho)[1]

    @property
    def visited_divergence(self) -> float:
        """D_rho over the visited pairs alone; infinite if none of them has a weight."""
        return self.scope.visited_figures(self.rho)[0]

    @property
    def visited_worst_ratio(self) -> float:
        """Max mubar/d_hat over the visited pairs alone; infinite if none of them has a weight."""
        return self.scope.visited_figures(self.rho)[1]

    @property
    def gap(self) -> float:
        """What `certificate()` is sure of; infinite unless it is known which states there are."""
        return self.certificate().gap if self.knows_states and self.is_complete else np.inf

    def certificate(self, delta: float = 0.05) -> Certificate:
        """Returns how close the visits are to the best, as far as can be known: an estimate only."""
        assert isinstance(self.belief, LearnedModel)
        delta = checks.probability(delta, "delta", open_ends=True)
        if self.num_missing:
            return Certificate(self.divergence, np.inf, np.inf, 0.0, delta)
        found = certify_visits(self.belief, self.belief.moves, delta)
        if self.knows_states or not np.isfinite(found.gap):
            return if_markov(found) if self.markov.is_found else found
        return replace(found, gap=np.inf, lower_bound=0.0, condition=STATES_UNKNOWN)

    def evidence(self, delta: float = 0.05) -> Evidence | None:
        """Returns how often what was met was tried; nothing can be said of what was not met.

        Pairs have the numbers of the rows of `tally`; states that were not met, those of the environment.
        """
        assert isinstance(self.belief, LearnedModel)
        delta = checks.probability(delta, "delta", open_ends=True)
        unvisited = np.flatnonzero(self.tally.counts.ravel() == 0).tolist()
        names = {
            "noun": self.scope.noun, "unvisited": tuple(unvisited),
            "unvisited_names": tuple(self.tally.pair_name(pair) for pair in unvisited),
        }  # fmt: skip
        if not self.knows_states:
            found = open_evidence(self.belief, self.belief.moves, delta)
            return replace(found, num_possible=self.scope.num_possible, **names)
        found = evidence_of(self.belief, self.belief.moves, int(self.last_states[0]), delta)
        wired = self.wired
        unmet = tuple(wired.keys[s] for s in found.unmet)
        called = tuple(wired.state_name(s) for s in found.unmet)
        return replace(found, unmet=unmet, unmet_names=called, **names)

    def model_error(self) -> NoReturn:
        """Refuses: nobody knows the true transitions."""
        raise InvalidArgumentError(f"`model_error` {NO_TRUTH}")

    def planning_regret(self, *, num_rewards: int = 100, seed: int = 0) -> NoReturn:
        """Refuses: nobody knows the true transitions."""
        raise InvalidArgumentError(f"`planning_regret` {NO_TRUTH}")

    def summary(self) -> dict[str, Any]:
        """Returns the numbers of the run, ready for JSON (infinities as text, None for nan)."""
        found = super().summary()
        best = ("best_divergence", "best_gap", "best_worst_ratio")
        kept = {name: found[name] if self.is_comparable else None for name in best}
        return found | kept | {"scope": self.scope.document(), "oracle_gap": plain(self.gap)}


def judged_run(
    trip: Expedition, runner: Runner, shots: list[tuple[int, IntArray]], chart: Any, trail: Trail,
    began: float,
) -> EnvironmentRun:  # fmt: skip
    """Returns the run, judged by the model seen in it."""
    standing, settings, index = runner.standing, trip.settings, runner.standing.seen.index
    belief = standing.state.belief.at(standing.seen, standing.num_steps)  # type: ignore[attr-defined]
    wired = wired_tally(trip, index, chart.keys, standing.seen.moves, trail)
    seen, weights = observed_model(wired), _weights(belief)
    mdp = replace_note(seen)
    problem = make_problem(mdp, settings.rho, _some(weights[seen.pairs]))
    tally, own = true_tally(trip, wired, index, trail), np.repeat(met_states(wired), wired.num_actions)
    scope = make_scope(trip, tally.keys, tally.end_keys, weights[own], wired.counts.ravel()[own])
    visits = wired.counts.ravel()[seen.pairs]
    needed = scope.num_weighted if _is_whole(weights, seen) else NEVER
    rows = [_row(problem, counts, step, seen, weights, needed) for step, counts in shots]
    acted = np.flatnonzero(wired.counts.sum(axis=1) > 0)
    return EnvironmentRun(
        mdp=mdp,
        problem=problem,
        explorer=explorer_name(settings.explorer),
        explorer_settings=explorer_document(settings.explorer),
        seed=settings.seed,
        num_steps=standing.num_steps,
        visits=checks.frozen(visits),
        moves=checks.frozen(_moves(problem, wired, seen)),
        first_states=checks.frozen(standing.first_states),
        last_states=checks.frozen(standing.position.states),
        trace=replace(make_trace(rows, problem), num_weighted=scope.num_weighted),
        belief=belief,
        model="learned",
        is_enough=standing.is_enough,
        episodes=tuple(standing.episodes),
        seconds=time.perf_counter() - began,
        keys=tuple(wired.keys[s] for s in np.unique(seen.pairs // wired.num_actions)),
        tally=tally,
        trail=trail,
        wired=wired,
        scope=scope,
        num_outside=int(wired.num_steps - visits.sum()),
        untried=int((wired.counts[acted] == 0).sum()),
        knows_states=trip.told_states is not None,
    )


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


def _weights(belief: LearnedModel) -> FloatArray:
    """Returns the weight of each pair that has a number, `[n]`: as given, or as a rule says it now."""
    if belief.frame.mu is not None:
        return belief.frame.mu
    weights = np.zeros(belief.frame.world.num_pairs)
    weights[belief.known.pairs] = weights_of(belief.frame, belief.known)
    return weights


def _some(weights: FloatArray) -> FloatArray:
    """Returns weights to plan for; ones where nothing that was seen matters."""
    return checked_weights(weights, "mu") if weights.any() else np.ones(weights.size)


def _is_whole(weights: FloatArray, seen: Observed) -> bool:
    """Whether each pair with a weight is in the model that was seen."""
    inside = np.zeros(weights.size, bool)
    inside[seen.pairs] = True
    return bool(inside[weights > 0].all()) and bool(weights.any())


def _row(
    problem: Problem, counts: IntArray, step: int, seen: Observed, weights: FloatArray, needed: int
) -> list[float]:
    """Returns a row of the trace, with figures once so many pairs with a weight were visited."""
    visits = np.zeros(weights.size, np.int64)
    visits[: counts.size] = counts
    inside, visited = visits[seen.pairs], int(np.count_nonzero(visits[weights > 0]))
    if visited == needed:
        row = dict(zip(COLUMNS, measure(problem, inside, step), strict=True))
        return list((row | {"gap": np.inf, "oracle_gap": np.inf}).values())  # what was seen certifies nothing
    support = np.flatnonzero(problem.coverage.support)
    least = int(support[np.argmin(inside[support])])
    row = dict.fromkeys(COLUMNS, np.nan) | {"steps": step, "visited": visited}
    return list((row | {"least_pair": least, "least_count": int(inside[least])}).values())


def _moves(problem: Problem, tally: Tally, seen: Observed) -> IntArray:
    """Returns the counts of transitions aligned with the model's own; those that left it are not in it."""
    P = problem.mdp.transitions
    states = np.unique(seen.pairs // tally.num_actions)
    counts = sp.csr_array(tally.moves[seen.pairs][:, states])
    rows = np.repeat(np.arange(P.shape[0]), np.diff(P.indptr))
    return np.asarray(counts[rows, P.indices]).ravel().astype(np.int64)
