"""Results of runs in environments: their episodes, whether their states are Markov, and what they cover.

In the transition counts of a run, an end leads to the next start, as in the model on which it plans. The
tally reports what the environment did: there, ends are ends.

A run without a known model is evaluated after its end on the observed model: the empirical model of all its
transitions (`empirical_model`), restricted to the part that can be visited in the long run. The trace
compares the counts at each of its steps with the best coverage of that model. This best is an estimate of
what was possible, made from all the data and the same for every step; states that were not met are not in it.
It is therefore compared with the visits only if both refer to the same pairs: every weighted pair was
visited, and none lies outside the model. The `Scope` defines which pairs have a weight, met or not.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.checks import BoolArray, FloatArray, IntArray
from rhocover.collecting.actor import Acting, Actor
from rhocover.collecting.env_run import EnvRun
from rhocover.collecting.scope import Scope, make_scope
from rhocover.collecting.state_index import EpisodeCounts, StateIndex
from rhocover.coverage import checked_weights
from rhocover.datasets.empirical_model import Observed, observed_model
from rhocover.datasets.tally import Tally
from rhocover.documents import plain
from rhocover.errors import InvalidArgumentError, short_name
from rhocover.exploring.belief import NEVER
from rhocover.exploring.belief.certificates import (
    IF_MARKOV,
    OF_CODES,
    STATES_UNKNOWN,
    Certificate,
    certify_visits,
    evidence_of,
    on_condition,
    open_evidence,
)
from rhocover.exploring.belief.learned import LearnedModel, allowed_pairs, weights_of
from rhocover.exploring.explorers.registry import explorer_document, explorer_name
from rhocover.exploring.problem import Problem, make_problem
from rhocover.exploring.runs.result import COLUMNS, Run, make_trace, measure
from rhocover.exploring.runs.runner import Runner, run_fields
from rhocover.exploring.worlds import Index, counts_of_moves
from rhocover.learning.codes import Coded, CodeDiagnosis, diagnose, growth_of, share_of_stays
from rhocover.learning.evidence import Evidence
from rhocover.learning.markov import MarkovTest
from rhocover.planning.problem import Objective
from rhocover.printing import count_of, printed

AS_IF = (
    "The visit counts remain correct; plans, the best, gaps and certificates hold for these states as if "
    "they were Markov, not for the environment."
)


@dataclass(frozen=True, eq=False)
class TalliedRun(Run):
    """A run in an environment. `tally` counts its steps by the environment's own states."""

    tally: Tally = field(kw_only=True)  # over the states met, with the episodes, ends and starts of the run
    episode_counts: EpisodeCounts = field(kw_only=True, repr=False)
    codes: CodeDiagnosis | None = field(kw_only=True, default=None)  # None: the states are numbers already
    acting: Acting = field(kw_only=True, repr=False)
    keys: tuple[Any, ...] = field(default=(), kw_only=True)  # of the states of `mdp`, in the environment

    def actor(self, seed: int = 0) -> Actor:
        """Returns what was learned as something that acts: `actor(observation)`, or `actor.predict(...)`.

        It plays the policy of `best`; in a state that `mdp` does not have it acts uniformly at random.
        """
        return Actor(self.acting, self.keys, self.best.policy, seed)

    @cached_property
    def markov(self) -> MarkovTest:
        """The test of whether the states are Markov: whether next states depend on more than the pair."""
        return self.episode_counts.markov_test()

    @property
    def planned_distance(self) -> float:
        """The total variation distance between visits and the best plan, summed over actions.

        It is the share of the visits that are in other states than planned. The plan is that on `problem`. It
        falls with the number of steps if the states are Markov.
        """
        excess = (self.visits / max(int(self.visits.sum()), 1) - self.problem.d_star).astype(float)
        return float(np.abs(np.bincount(self.problem.mdp.pair_state, excess)).sum()) / 2

    @property
    def remarks(self) -> tuple[str, ...]:
        """How far codes may be trusted, and what follows if the states are not Markov."""
        if self.codes is None or not self.codes.is_lossy:
            return (*(() if self.codes is None else self.codes.notes), *self.not_markov)
        return (*self.codes.notes, f"Planned: {self._misplaced}.", *self.not_markov)

    @property
    def not_markov(self) -> tuple[str, ...]:
        """The consequences of states that are not Markov; empty if that was not found."""
        if not self.markov.is_found:
            return ()
        away = f"{100 * self.planned_distance:.2g}% of the visits are in other states than planned."
        return (f"{self.markov} {away} {AS_IF}",)

    @property
    def _told(self) -> tuple[str, ...]:
        """The remarks as they are printed, with figures in a column."""
        if self.codes is None or not self.codes.is_lossy:
            return (*(() if self.codes is None else self.codes.lines), *self.not_markov)
        return (f"planned     {self._misplaced}", *self.codes.lines, *self.not_markov)

    @property
    def _misplaced(self) -> str:
        """How the visits of codes differ from the plan, and for which code most."""
        states, labels = self.problem.mdp.pair_state, self.problem.mdp.state_labels
        planned = np.bincount(states, self.problem.d_star)
        visited = np.bincount(states, self.visits / max(int(self.visits.sum()), 1))
        most = int(np.argmax(np.abs(visited - planned)))
        return (
            f"{self.planned_distance:.0%} of the visits are in other codes than planned, most at "
            f"{labels[most] if labels else most}: {planned[most]:.1%} planned, {visited[most]:.1%} visited"
        )

    def certificate(self, delta: float = 0.05) -> Certificate:
        """Returns a bound on how far the visits are from the best, and the condition for which it holds."""
        return self._conditional(super().certificate(delta))

    def _conditional(self, found: Certificate) -> Certificate:
        """Returns the certificate with what it assumes of the states."""
        if self.codes is not None and self.codes.is_lossy:
            found = on_condition(found, OF_CODES)
        return if_markov(found) if self.markov.is_found else found

    def summary(self) -> dict[str, Any]:
        """Returns the numbers of the run, ready for JSON (infinities as text, None for nan)."""
        tally = self.tally
        return super().summary() | {
            "num_episodes": tally.num_episodes,
            "num_truncated": tally.num_truncated,
            "markov": self.markov.document() | {"planned_distance": self.planned_distance},
            "codes": self.codes and self.codes.document(),
            "remarks": list(self.remarks),
        }

    @printed
    def __str__(self) -> str:
        return "\n  ".join([super().__str__(), *self._told])

    __repr__ = __str__


def if_markov(certificate: Certificate) -> Certificate:
    """Returns the certificate with the condition that the states are Markov, although they are not."""
    return on_condition(certificate, IF_MARKOV)


def restarting_tally(
    asked: EnvRun, index: Index, keys: list[Any], moves: IntArray, episodes: EpisodeCounts
) -> Tally:
    """Returns the counts over all numbered states in which ends lead to the next start."""
    num_states, num_actions = index.num_states, index.num_actions
    rows = np.asarray(index.pair_state) * num_actions + np.asarray(index.pair_action)
    found = counts_of_moves(index, moves).tocoo()
    shape = (num_states * num_actions, num_states)
    table = sp.csr_array((found.data, (rows[found.coords[0]], found.coords[1])), shape=shape)
    starts = np.zeros(num_states, np.int64)
    starts[list(episodes.starts)] = list(episodes.starts.values())
    return Tally.from_counts(
        keys, num_actions, table, np.zeros(shape[0], np.int64), starts, num_truncated=episodes.num_truncated,
        state_names=tuple(asked.states.name(key) for key in keys), action_names=asked.actions.names,
        layout=asked.states.layout(keys), source=asked.name,
    )  # fmt: skip


def true_tally(asked: EnvRun, restarting: Tally, index: Index, episodes: EpisodeCounts) -> Tally:
    """Returns the counts over the states met in which ends are ends, not transitions to a start."""
    A, met = restarting.num_actions, np.flatnonzero(met_states(restarting))
    rows = np.asarray(index.pair_state) * A + np.asarray(index.pair_action)
    again, ends = restarts_of(episodes, rows, restarting.moves.shape)
    own = (met[:, None] * A + np.arange(A)).ravel()
    keys = [restarting.keys[s] for s in met.tolist()]
    others = set(keys)
    return Tally.from_counts(
        keys, A, (restarting.moves - again)[own][:, met], ends[own], restarting.starts[met],
        num_truncated=restarting.num_truncated,
        end_keys=tuple(key for key in episodes.end_keys if key not in others),
        state_names=tuple(asked.states.name(key) for key in keys), action_names=restarting.action_names,
        layout=asked.states.layout(keys), source=restarting.source,
    )  # fmt: skip


def met_states(restarting: Tally) -> BoolArray:
    """Returns which states were met: as the state of a step, as its next state, or as a start."""
    led_to = np.asarray(restarting.moves.sum(axis=0)).ravel()
    return (restarting.counts.sum(axis=1) > 0) | (led_to > 0) | (restarting.starts > 0)


def restarts_of(
    episodes: EpisodeCounts, rows: IntArray, shape: tuple[int, ...]
) -> tuple[sp.csr_array, IntArray]:
    """Returns the counts of restarts, `[S*A, S]`, and how often each pair ended its episode, `[S*A]`."""
    places = np.array(list(episodes.restarts), np.int64).reshape(-1, 2)
    times = np.fromiter(episodes.restarts.values(), np.int64, len(episodes.restarts))
    pairs = rows[places[:, 0]]
    ends = np.zeros(shape[0], np.int64)
    np.add.at(ends, pairs, times)
    return sp.csr_array((times, (pairs, places[:, 1])), shape=shape), ends


NO_TRUTH = (
    "needs the true transitions, which a run that learned an environment does not have. If the "
    'environment has a table, explore rhocover.MDP.from_gymnasium(env) with model="learned"; otherwise '
    "until=SmallModelError(...) bounds the error by the counts alone."
)


@dataclass(frozen=True, eq=False)
class EnvironmentRun(TalliedRun):
    """A run in an environment without a table. `mdp` is the observed model.

    Tables are over the states of that model; `keys` are their keys in the environment. Visits outside of the
    model are not in the tables: `num_outside` is their number. `untried` is the number of pairs that were
    never tried although their state was met. `divergence` and `worst_ratio` are over all weighted pairs.
    """

    has_truth: ClassVar[bool] = False

    restarting: Tally = field(kw_only=True)  # as in the model for planning: ends lead to the next start
    scope: Scope = field(kw_only=True)  # which states coverage refers to
    num_outside: int = 0
    untried: int = 0
    knows_states: bool = False  # whether the explorer knew all possible states in advance
    refits: tuple[int, ...] = ()  # steps before which the code of the states was fitted again

    @printed
    def __str__(self) -> str:
        pair, count = self.least_visited
        head = (
            f"Run of {self.explorer} in {self.tally.source} (dynamics learned) at rho = {self.rho:g}: "
            f"{count_of(self.num_steps, 'step')}, coverage {self.coverage_text}."
        )
        least = f"least visited in the observed model: {short_name(pair)}, {count_of(count, 'time')}"
        notes = [least, self.restriction, self._refits(), *self._told]
        return "\n  ".join([head, *self._figures(), *(note for note in notes if note)])

    __repr__ = __str__

    def _figures(self) -> list[str]:
        """Returns divergence and worst ratio, next to the best if it refers to the same pairs."""
        if self.num_missing:
            part = (
                f"over the {self.scope.num_visited} visited pairs only: divergence "
                f"{self.visited_divergence:.6g}, worst ratio {self.visited_worst_ratio:.6g} (not all pairs, "
                "so there is no best to compare with)"
            )
            all_of_it = f"{self.divergence:.6g}, worst ratio {self.worst_ratio:.6g}: {self._missing()}"
            return [f"divergence  {all_of_it}", *([part] if self.scope.num_visited else [])]
        if not self.is_comparable:
            return [
                f"divergence  {self.divergence:.6g}, worst ratio {self.worst_ratio:.6g}  (the best is not "
                "known, because some pairs are not in the observed model)"
            ]
        judged = f"over the {count_of(self.visits.size, 'pair')} of the observed model"
        return [
            f"divergence  {self.divergence:.6g}  (best {self.best.divergence:.6g} {judged})",
            f"worst ratio {self.worst_ratio:.6g}  (the best plan at this rho: {self.best.worst_ratio:.6g})",
        ]

    def _refits(self) -> str:
        """Returns when the code of the states was fitted again; everything is counted under the last one."""
        steps = ", ".join(f"{step:,}" for step in self.refits)
        codes = count_of(self.scope.num_met, "code", ",")
        return f"code fitted again at step {steps}; {codes}" if steps else ""

    def _missing(self) -> str:
        were = "pair with a weight was" if self.num_missing == 1 else "pairs with a weight were"
        return f"{self.num_missing} {were} never visited"

    @property
    def num_states_met(self) -> int:
        """How many states were met."""
        return self.scope.num_met

    @property
    def restriction(self) -> str:
        """Which of the states and pairs met are not in the observed model."""
        return self.mdp.note

    @property
    def is_open(self) -> bool:
        """Whether coverage refers to the states met so far, because there may be others that matter."""
        return self.scope.is_open

    @property
    def is_complete(self) -> bool:
        """Whether it is known which pairs have a weight, and every one of them was visited."""
        return not self.is_open and self.num_missing == 0

    @property
    def num_missing(self) -> int:
        """How many of the known weighted pairs have no visit."""
        return self.scope.num_missing

    @property
    def is_comparable(self) -> bool:
        """Whether `best` refers to the same pairs as the figures of the visits."""
        return self.num_missing == 0 and bool(np.isfinite(self.trace["divergence"][-1]))

    @property
    def coverage_text(self) -> str:
        """How much is covered: complete, incomplete, or so many pairs of the states met so far."""
        return self.scope.text

    @property
    def divergence(self) -> float:
        """D_rho over all weighted pairs; infinite for rho >= 1 while one of them has no visit."""
        return self.scope.figures(self.rho)[0]

    @property
    def worst_ratio(self) -> float:
        """Max mubar/d_hat over all weighted pairs; infinite while one of them has no visit."""
        return self.scope.figures(self.rho)[1]

    @property
    def visited_divergence(self) -> float:
        """D_rho over the visited pairs only; infinite if none of them has a weight."""
        return self.scope.visited_figures(self.rho)[0]

    @property
    def visited_worst_ratio(self) -> float:
        """Max mubar/d_hat over the visited pairs only; infinite if none of them has a weight."""
        return self.scope.visited_figures(self.rho)[1]

    @property
    def gap(self) -> float:
        """The gap that `certificate()` proves; infinite unless the possible states are known."""
        return self.certificate().gap if self.knows_states and self.is_complete else np.inf

    def certificate(self, delta: float = 0.05) -> Certificate:
        """Returns a bound on how far the visits are from the best; without known states, only an estimate."""
        assert isinstance(self.belief, LearnedModel)
        delta = checks.probability(delta, "delta", open_ends=True)
        if self.num_missing:
            return Certificate(self.divergence, np.inf, np.inf, 0.0, delta)
        found = certify_visits(self.belief, self.belief.moves, delta)
        if self.knows_states or not np.isfinite(found.gap):
            return self._conditional(found)
        return replace(found, gap=np.inf, lower_bound=0.0, condition=STATES_UNKNOWN)

    def evidence(self, delta: float = 0.05) -> Evidence | None:
        """Returns how often the pairs of the states met were tried; the others are unknown.

        Pairs have the numbers of the rows of `tally`; states that were not met have their keys.
        """
        assert isinstance(self.belief, LearnedModel)
        delta = checks.probability(delta, "delta", open_ends=True)
        own = np.repeat(met_states(self.restarting), self.tally.num_actions)
        can = allowed_pairs(self.belief.frame.world)[own]
        unvisited = np.flatnonzero((self.tally.counts.ravel() == 0) & can).tolist()
        names = {
            "noun": self.scope.noun, "unvisited": tuple(unvisited),
            "unvisited_names": tuple(self.tally.pair_name(pair) for pair in unvisited),
        }  # fmt: skip
        if not self.knows_states:
            found = open_evidence(self.belief, self.belief.moves, delta)
            return replace(found, num_possible=self.scope.num_possible, **names)
        found = evidence_of(self.belief, self.belief.moves, int(self.last_states[0]), delta)
        restarting = self.restarting
        unmet = tuple(restarting.keys[s] for s in found.unmet)
        called = tuple(restarting.state_name(s) for s in found.unmet)
        return replace(found, unmet=unmet, unmet_names=called, **names)

    def model_error(self) -> NoReturn:
        """Always raises, because the true transitions are unknown."""
        raise InvalidArgumentError(f"`model_error` {NO_TRUTH}")

    def planning_regret(self, *, num_rewards: int = 100, seed: int = 0) -> NoReturn:
        """Always raises, because the true transitions are unknown."""
        raise InvalidArgumentError(f"`planning_regret` {NO_TRUTH}")

    def summary(self) -> dict[str, Any]:
        """Returns the numbers of the run, ready for JSON (infinities as text, None for nan)."""
        found = super().summary()
        best = ("best_divergence", "best_gap", "best_worst_ratio")
        kept = {name: found[name] if self.is_comparable else None for name in best}
        more = {"scope": self.scope.document(), "oracle_gap": plain(self.gap), "refits": list(self.refits)}
        return found | kept | more


@dataclass(frozen=True, eq=False)
class EnvRecord:
    """What a run in an environment keeps besides its counts; `snapshots` are counts at some of its steps."""

    states: StateIndex
    episodes: EpisodeCounts
    snapshots: list[tuple[int, IntArray]]
    coded: Coded | None = None  # what was seen of the observations, if states are codes or one is held out
    refits: tuple[int, ...] = ()  # steps before which the code of the states was fitted again


def known_run(asked: EnvRun, runner: Runner, record: EnvRecord, seconds: float) -> TalliedRun:
    """Returns the run of a known model, with the tally of its steps in the environment."""
    assert asked.table is not None
    index, keys, episodes = record.states.index, list(record.states.numbers), record.episodes
    restarting = restarting_tally(asked, index, keys, runner.now.seen.moves, episodes)
    fields = run_fields(asked.table.model, asked.spec, runner, seconds)
    tally = true_tally(asked, restarting, index, episodes)
    codes = _diagnosis(asked, record, tally, np.ones(tally.counts.shape), tally.counts)
    states = tuple(asked.table.states.tolist())
    return TalliedRun(
        **fields, tally=tally, episode_counts=episodes, codes=codes, acting=acting_of(asked), keys=states
    )


def acting_of(asked: EnvRun) -> Acting:
    """Returns how a run reads observations and numbers actions."""
    return Acting(asked.states, asked.actions, asked.space)


def _diagnosis(
    asked: EnvRun, record: EnvRecord, tally: Tally, weights: FloatArray, visits: IntArray
) -> CodeDiagnosis | None:
    """Returns how far the codes may be trusted; None if states are numbers and nothing was held out."""
    if record.coded is None:
        return None
    first = record.episodes.first_steps(record.states.index.num_states)
    met = [record.states.numbers[key] for key in tally.keys]
    growth = growth_of(first[met], tally.num_steps, asked.states.num_keys, record.coded.noun)
    stays = share_of_stays(tally.moves, tally.num_actions)
    return diagnose(record.coded, growth, stays, weights, visits, asked.spec.rho)


def judged_run(asked: EnvRun, runner: Runner, record: EnvRecord, seconds: float) -> EnvironmentRun:
    """Returns the run, evaluated on its observed model."""
    now, spec, index, episodes = runner.now, asked.spec, runner.now.seen.index, record.episodes
    belief = now.state.belief.at(now.seen, now.num_steps)  # type: ignore[attr-defined]
    keys = list(record.states.numbers)
    restarting = restarting_tally(asked, index, keys, now.seen.moves, episodes)
    seen, weights = observed_model(restarting), _weights(belief)
    mdp = replace_note(seen)
    problem = make_problem(mdp, Objective(spec.rho, _some(weights[seen.pairs])))
    tally, own = (
        true_tally(asked, restarting, index, episodes),
        np.repeat(met_states(restarting), restarting.num_actions),
    )
    scope = make_scope(asked, tally.keys, tally.end_keys, weights[own], restarting.counts.ravel()[own])
    A = restarting.num_actions
    beyond = np.full((int(scope.num_beyond > 0), A), scope.weight_beyond / A)  # all codes not met, as one
    codes = _diagnosis(
        asked, record, tally, np.vstack([scope.weights.reshape(-1, A), beyond]),
        np.vstack([scope.visits.reshape(-1, A), np.zeros(beyond.shape, np.int64)]),
    )  # fmt: skip
    visits = restarting.counts.ravel()[seen.pairs]
    needed = scope.num_weighted if _is_whole(weights, seen) else NEVER
    rows = [_row(problem, counts, step, seen, weights, needed) for step, counts in record.snapshots]
    acted, can = np.flatnonzero(restarting.counts.sum(axis=1) > 0), allowed_pairs(index)
    return EnvironmentRun(
        mdp=mdp,
        problem=problem,
        explorer=explorer_name(spec.explorer),
        explorer_settings=explorer_document(spec.explorer),
        seed=spec.seed,
        num_steps=now.num_steps,
        visits=checks.frozen(visits),
        moves=checks.frozen(_moves(problem, restarting, seen)),
        first_states=checks.frozen(now.first_states),
        last_states=checks.frozen(now.position.states),
        trace=replace(make_trace(rows, problem), num_weighted=scope.num_weighted),
        belief=belief,
        model="learned",
        is_enough=now.is_enough,
        episodes=tuple(now.episodes),
        seconds=seconds,
        keys=tuple(restarting.keys[s] for s in np.unique(seen.pairs // restarting.num_actions)),
        tally=tally,
        episode_counts=episodes,
        codes=codes,
        acting=acting_of(asked),
        restarting=restarting,
        scope=scope,
        num_outside=int(restarting.num_steps - visits.sum()),
        untried=int(((restarting.counts == 0) & can.reshape(restarting.counts.shape))[acted].sum()),
        knows_states=asked.given_states is not None,
        refits=record.refits,
    )


def replace_note(seen: Observed) -> Any:
    """Returns the observed model, with a note on what it leaves out."""
    mdp = seen.mdp
    if not seen.note:
        return mdp
    return type(mdp).from_pairs(
        mdp.transitions, mdp.pair_state, mdp.pair_action, num_actions=mdp.num_actions, start=mdp.start,
        state_labels=mdp.state_labels, action_labels=mdp.action_labels, layout=mdp.layout, name=mdp.name,
        note=seen.note,
    )  # fmt: skip


def _weights(belief: LearnedModel) -> FloatArray:
    """Returns the weight of each numbered pair, `[n]`: as given, or the current one of a rule."""
    if belief.frame.mu is not None:
        return belief.frame.mu
    weights = np.zeros(belief.frame.world.num_pairs)
    weights[belief.known.pairs] = weights_of(belief.frame, belief.known)
    return weights


def _some(weights: FloatArray) -> FloatArray:
    """Returns the weights to plan for; all ones if every observed pair has weight 0."""
    return checked_weights(weights, "mu") if weights.any() else np.ones(weights.size)


def _is_whole(weights: FloatArray, seen: Observed) -> bool:
    """Whether every weighted pair is in the observed model."""
    inside = np.zeros(weights.size, bool)
    inside[seen.pairs] = True
    return bool(inside[weights > 0].all()) and bool(weights.any())


def _row(
    problem: Problem, counts: IntArray, step: int, seen: Observed, weights: FloatArray, needed: int
) -> list[float]:
    """Returns a row of the trace, with figures once `needed` weighted pairs were visited."""
    visits = np.zeros(weights.size, np.int64)
    visits[: counts.size] = counts
    inside, visited = visits[seen.pairs], int(np.count_nonzero(visits[weights > 0]))
    if visited == needed:
        row = dict(zip(COLUMNS, measure(problem, inside, step), strict=True))
        return list((row | {"gap": np.inf, "oracle_gap": np.inf}).values())  # an estimate certifies nothing
    support = np.flatnonzero(problem.coverage.support)
    least = int(support[np.argmin(inside[support])])
    row = dict.fromkeys(COLUMNS, np.nan) | {"steps": step, "visited": visited}
    return list((row | {"least_pair": least, "least_count": int(inside[least])}).values())


def _moves(problem: Problem, tally: Tally, seen: Observed) -> IntArray:
    """Returns the transition counts aligned with those of the model; transitions out of it are left out."""
    P = problem.mdp.transitions
    states = np.unique(seen.pairs // tally.num_actions)
    counts = sp.csr_array(tally.moves[seen.pairs][:, states])
    rows = np.repeat(np.arange(P.shape[0]), np.diff(P.indptr))
    return np.asarray(counts[rows, P.indices]).ravel().astype(np.int64)
