"""The result of a run: its visits, how close they are to the best coverage, and the trace over time.

The trace has these columns, on a logarithmic grid of steps:

| column | meaning |
|---|---|
| steps | t, the steps so far |
| visited | how many pairs that have a weight were visited |
| divergence | D_rho of mubar and d_hat |
| gap | certified: divergence minus the plan's dual bound, which no occupancy is below |
| oracle_gap | certified without the plan: log max <p/d_hat, d'> over occupancies d', for any d_hat |
| excess | divergence - D*, of either sign, because d_hat is not an occupancy |
| pathwise_excess | divergence minus the least with the same flow residual, >= 0 |
| pathwise_gap | the numerical error of pathwise_excess |
| worst_ratio | max mubar/d_hat |
| suboptimality | xi = U* - U(d_hat), of either sign; it fluctuates by sigma/sqrt(t) |
| bregman | its controllable part, >= 0, at best kappa_min/t on average |
| regret | pathwise: U of the best with the same flow residual, minus U(d_hat) |
| least_pair, least_count | the pair with a weight that was visited least, and how often |

U has weights that sum to 1. While a pair with a weight is unvisited, coverage is incomplete and all columns
from `divergence` to `regret` are nan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, IntArray, Matrix, frozen
from rhocover.coverage import Coverage
from rhocover.documents import plain
from rhocover.errors import InvalidArgumentError, short_name, unknown_name
from rhocover.exploring.belief import Belief
from rhocover.exploring.belief.certificates import Certificate, certify_visits, evidence_of
from rhocover.exploring.belief.learned import LearnedModel
from rhocover.exploring.problem import Problem
from rhocover.files import save_tensors
from rhocover.learning.estimate import ModelError, model_error
from rhocover.learning.evidence import Evidence
from rhocover.learning.reward_free import PlanningRegret, planning_regret
from rhocover.mdp import MDP
from rhocover.oracles import PolicyIteration
from rhocover.planning import Plan
from rhocover.planning.frank_wolfe import certified_gap, gradient_reward
from rhocover.planning.problem import LONG_RUN, counted_visits
from rhocover.printing import count_of, printed
from rhocover.showing import Shown

COLUMNS = (
    "steps", "visited", "divergence", "gap", "oracle_gap", "excess", "pathwise_excess", "pathwise_gap",
    "worst_ratio", "suboptimality", "bregman", "regret", "least_pair", "least_count",
)  # fmt: skip
WHOLE = ("steps", "visited", "least_pair", "least_count")
PATHWISE_TOLERANCE = 1e-10
LARGEST_READABLE = 8.0  # up to this order, values of U have a readable size
JUDGED_BY_TRUTH = (
    "Best, gap and regret are computed with the model that was passed, which the explorer did not know; "
    "run.certificate() uses its observations alone."
)
LARGEST = 100_000  # pairs times states up to which the certificate of a learned model is made by default


@dataclass(frozen=True, eq=False)
class Trace:
    """Columns over time, such as `trace["regret"]`; `fluctuation` and `limit` are theory's predictions."""

    columns: Mapping[str, np.ndarray]
    sigma: float
    kappa_min: float
    num_weighted: int

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.columns:
            raise unknown_name("column", name, tuple(self.columns))
        return self.columns[name]

    def keys(self) -> tuple[str, ...]:
        """Returns the names of the columns."""
        return tuple(self.columns)

    def __repr__(self) -> str:
        steps = self.columns["steps"]
        return f"Trace({len(self)} rows, steps {steps[0]} to {steps[-1]}; columns: {', '.join(self.columns)})"

    def __len__(self) -> int:
        return int(self.columns["steps"].size)

    @property
    def fluctuation(self) -> FloatArray:
        """sigma/sqrt(t): how far the suboptimality fluctuates under any behaviour."""
        return self.sigma / np.sqrt(self.columns["steps"])

    @property
    def limit(self) -> FloatArray:
        """kappa_min/t: a lower bound on the mean of the Bregman part in the long run."""
        return self.kappa_min / self.columns["steps"]


def grid_of_steps(num_steps: int, per_decade: int, num_chains: int = 1) -> list[int]:
    """Returns the steps to report at: `per_decade` per decade, and the last; multiples of the chains."""
    powers = range(per_decade * len(str(num_steps)) + 1)
    marks = {-(-round(10 ** (k / per_decade)) // num_chains) * num_chains for k in powers}
    return sorted({mark for mark in marks if mark < num_steps} | {num_steps})


def measure(problem: Problem, counts: IntArray, num_steps: int) -> list[float]:
    """Returns one row of the trace, in the order of `COLUMNS`."""
    coverage, support = problem.coverage, np.flatnonzero(problem.coverage.support)
    least = int(support[np.argmin(counts[support])])
    visited = int(np.count_nonzero(counts[support]))
    row = dict.fromkeys(COLUMNS, np.nan)
    row |= {"steps": num_steps, "visited": visited, "least_pair": least, "least_count": int(counts[least])}
    if visited == support.size:
        d_hat = counts / num_steps
        row["divergence"] = coverage.divergence_unchecked(d_hat)
        row |= _against_the_best(problem, d_hat, row["divergence"])
        row |= _against_the_path(problem, d_hat, row["divergence"])
    return [row[name] for name in COLUMNS]


def _against_the_best(problem: Problem, d_hat: FloatArray, divergence: float) -> dict[str, float]:
    best, limits = problem.best, problem.limits
    return {
        "gap": max(divergence - best.lower_bound, 0.0),
        "oracle_gap": oracle_gap(problem, d_hat),
        "excess": divergence - best.divergence,
        "worst_ratio": problem.coverage.worst_ratio(d_hat),
        "suboptimality": limits.suboptimality(d_hat),
        "bregman": limits.bregman(d_hat),
    }


def _against_the_path(problem: Problem, d_hat: FloatArray, divergence: float) -> dict[str, float]:
    path = problem.pathwise.best(d_hat, tol=PATHWISE_TOLERANCE)
    excess = max(divergence - path.divergence, 0.0)
    regret = regret_in_value(problem.coverage, divergence, excess)
    return {"pathwise_excess": excess, "pathwise_gap": path.gap, "regret": regret}


def oracle_gap(problem: Problem, d_hat: FloatArray) -> float:
    """Returns a certified bound on D(d_hat) - D*, for any d_hat that is positive on pairs with a weight.

    log max <p/d_hat, d'> over occupancies d', p = softmax(rho log mu + (1-rho) log d_hat), by Jensen's
    inequality; at rho = 0 it is the linear bound max <log(mubar/d_hat), d' - d_hat>.
    """
    # a problem has one end component and no floor, so there is nothing to choose: Howard's method
    oracle = problem.once("trace oracle", lambda: PolicyIteration(problem.members))
    reward = gradient_reward(problem.coverage, d_hat)
    return certified_gap(problem.coverage.rho, reward, d_hat, oracle.respond(reward))


def regret_in_value(coverage: Coverage, divergence: float, excess: float) -> float:
    """Returns U(better) - U(d_hat) for two divergences, `excess` apart; inf beyond float64."""
    rho = coverage.rho
    if rho in (0, 1) or excess == 0:
        return excess
    order = 1.0 if rho == np.inf else rho - 1
    with np.errstate(over="ignore"):
        return float(-np.exp(order * divergence) * np.expm1(-order * excess) / order)


def regret_column(rho: float) -> str:
    """Returns the column to show as the regret: in units of U, or in nats where values of U are too large.

    U of order rho grows like the worst ratio to the power rho - 1: beyond 8 its values are astronomical. At
    inf it is a ratio again.
    """
    return "pathwise_excess" if LARGEST_READABLE < rho < np.inf else "regret"


def make_trace(rows: list[list[float]], problem: Problem) -> Trace:
    """Returns the rows as columns, with the predictions of theory."""
    table = np.array(rows, float).reshape(-1, len(COLUMNS))
    columns = {
        name: frozen(table[:, k].astype(np.int64) if name in WHOLE else table[:, k].copy())
        for k, name in enumerate(COLUMNS)
    }
    limits = problem.limits
    return Trace(columns, limits.sigma, limits.kappa_min, int(problem.coverage.support.sum()))


@dataclass(frozen=True, eq=False)
class Episode:
    """One Frank-Wolfe episode: tau steps after step t with the direction psi; psi_hat are its visits.

    After a few million stored numbers, psi and psi_hat are empty.
    """

    k: int
    t: int  # steps before it
    tau: int
    beta: float  # tau over all steps so far, the step size
    gap: float  # of Frank-Wolfe before it, <grad U(d_hat), psi - d_hat>
    psi: FloatArray  # per pair
    psi_hat: FloatArray


@dataclass(frozen=True, eq=False)
class Run(Shown):
    """The result of a run. Tables are `[S, A]`, or `[H, S, A]` for episodes of H steps.

    Coverage is finite once every pair with a weight was visited. Before that `gap` and `worst_ratio` are
    infinite, and for rho >= 1 so is `divergence`; `coverage_text` says how many pairs were visited, and
    `visited_divergence` and `visited_worst_ratio` are over these pairs alone.
    """

    mdp: MDP  # the caller's
    problem: Problem
    explorer: str
    explorer_settings: Any  # as a document; None for your own explorer
    seed: int
    num_steps: int
    visits: IntArray  # per pair of the acting model
    moves: IntArray  # per transition of the acting model, aligned with problem.mdp.transitions
    first_states: IntArray  # where the chains began, and where they are now
    last_states: IntArray
    trace: Trace
    episodes: tuple[Episode, ...]  # of Algorithm 1; empty for explorers without directions
    belief: Belief  # what the explorer knew of the dynamics at the end
    model: str  # "known", "learned", ...
    is_enough: bool  # a stopping rule was met
    seconds: float  # in this process

    has_truth: ClassVar[bool] = True  # whether `problem` is the true one

    @cached_property
    def counts(self) -> IntArray:
        """Visits as a table of integers."""
        return frozen(self.problem.table(self.visits).astype(np.int64))

    @cached_property
    def occupancy(self) -> FloatArray:
        """d_hat = T/(t-1): the share of each pair, as a table."""
        return frozen(self.problem.table(self.visits / self.num_steps))

    @property
    def restriction(self) -> str:
        """What was dropped because no run can visit it again and again; "" if nothing was."""
        return self.problem.restriction

    def certificate(self, delta: float = 0.05) -> Certificate:
        """Returns how close the visits are to the best, given what the explorer knows.

        With a known model this is certain and `delta` is not used.
        """
        delta = checks.probability(delta, "delta", open_ends=True)
        if isinstance(self.belief, LearnedModel):
            return certify_visits(self.belief, self.moves, delta)
        if not self.is_complete:
            return Certificate(self.divergence, np.inf, np.inf, self.best.lower_bound, 0.0)
        excess = float(self.trace["excess"][-1])
        return Certificate(self.divergence, excess, self.gap, self.best.lower_bound, 0.0)

    def evidence(self, delta: float = 0.05) -> Evidence | None:
        """Returns what was never reached, with a lower bound on the expected steps from the first chain.

        None with a known model, and with a horizon, where the states of the run are (step, state).
        """
        delta = checks.probability(delta, "delta", open_ends=True)
        if not isinstance(self.belief, LearnedModel) or self.problem.question.members.num_steps is not None:
            return None
        found = evidence_of(self.belief, self.moves, int(self.last_states[0]), delta)
        question = self.problem.question
        kept = np.flatnonzero(question.kept)
        unmet, unvisited = question.states[list(found.unmet)].tolist(), kept[list(found.unvisited)].tolist()
        labels = self.mdp.state_labels
        return replace(
            found, unmet=tuple(unmet), unvisited=tuple(unvisited),
            unmet_names=tuple(labels[s] if labels else str(s) for s in unmet),
            unvisited_names=tuple(self.mdp.pair_name(i) for i in unvisited),
        )  # fmt: skip

    def actor(self, seed: int = 0) -> Any:
        """Returns what was learned as a function of observations; only a run in an environment has any."""
        raise InvalidArgumentError(
            "`actor` reads observations, and a model has none: run.best.policy is its policy, `[S, A]`."
        )

    def model_error(self) -> ModelError:
        """Returns the error of the model estimated from the transitions, against the acting model."""
        return model_error(self.problem.mdp, self.transitions)

    def planning_regret(self, *, num_rewards: int = 100, seed: int = 0) -> PlanningRegret:
        """Returns the loss of policies that are planned on the transitions, for rewards given afterwards."""
        return planning_regret(self.problem.mdp, self.transitions, num_rewards=num_rewards, seed=seed)

    @property
    def transitions(self) -> Matrix:
        """How often each successor followed each pair of the acting model, sparse `[n, S]`."""
        import scipy.sparse as sp

        P = self.problem.mdp.transitions
        return sp.csr_array((self.moves, P.indices, P.indptr), shape=P.shape)

    @property
    def coverage(self) -> Coverage:
        """The objective, with weights that sum to 1, over the acting model's pairs."""
        return self.problem.coverage

    @property
    def rho(self) -> float:
        """The order of the objective."""
        return self.coverage.rho

    @property
    def best(self) -> Plan:
        """The best that any behaviour reaches in the long run (in the acting model)."""
        return self.problem.best

    @property
    def is_complete(self) -> bool:
        """Whether every pair with a weight was visited."""
        return int(self.trace["visited"][-1]) == self.trace.num_weighted

    @property
    def coverage_text(self) -> str:
        """`complete`, or how many of the pairs with a weight were visited."""
        if self.is_complete:
            return "complete"
        return f"incomplete ({int(self.trace['visited'][-1])} of {self.trace.num_weighted})"

    @property
    def num_missing(self) -> int:
        """The number of known pairs with a weight that were never visited."""
        return self.trace.num_weighted - int(self.trace["visited"][-1])

    @property
    def is_open(self) -> bool:
        """Whether coverage is that of the states met so far, because there may be others with a weight."""
        return False

    @property
    def is_comparable(self) -> bool:
        """Whether `best` is over the same pairs as the figures of the visits."""
        return True

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences that qualify the figures; most runs have none."""
        return ()

    @property
    def divergence(self) -> float:
        """D_rho of the visits; infinite for rho >= 1 while a pair with a weight has no visit."""
        return float(self.coverage.divergence_unchecked(self.visits / self.num_steps))

    @property
    def gap(self) -> float:
        """Certified: the divergence is at most this above the best possible; infinite while incomplete.

        It is computed with the model that acts, even if the explorer had to learn it; what its data alone
        prove is `certificate`.
        """
        return float(self.trace["gap"][-1]) if self.is_complete else np.inf

    @property
    def worst_ratio(self) -> float:
        """Max mubar/d_hat; infinite while incomplete."""
        return self.coverage.worst_ratio(self.visits / self.num_steps)

    @property
    def visited_divergence(self) -> float:
        """D_rho over the visited pairs alone; infinite if none of them has a weight."""
        seen = self._over_the_visited()
        return np.inf if seen is None else seen.divergence(self.visits / self.num_steps)

    @property
    def visited_worst_ratio(self) -> float:
        """Max mubar/d_hat over the visited pairs alone; infinite if none of them has a weight."""
        seen = self._over_the_visited()
        return np.inf if seen is None else seen.worst_ratio(self.visits / self.num_steps)

    def _over_the_visited(self) -> Coverage | None:
        weights = np.where(self.visits > 0, self.coverage.mu, 0.0)
        return Coverage(self.rho, weights) if weights.any() else None

    @property
    def regret(self) -> float:
        """Pathwise regret at the end; nan while incomplete."""
        return float(self.trace["regret"][-1])

    @property
    def least_visited(self) -> tuple[str, int]:
        """The name of the pair that was visited least, and how often."""
        pair = int(self.trace["least_pair"][-1])
        return self.problem.pair_name(pair), int(self.visits[pair])

    @property
    def _knowledge(self) -> str:
        return "" if self.model == "known" else f" (model {self.model.replace('_', ' ')})"

    @property
    def _criterion(self) -> str:
        """Which visits count, unless these are all visits of one long run."""
        members = self.problem.question.members
        visits = counted_visits(members.discount, members.num_steps)
        return "" if visits == LONG_RUN else f", {visits}"

    def _shown_regret(self) -> str:
        column = regret_column(self.rho)
        return f"{self.trace[column][-1]:.2e}" + (" nats" if column != "regret" else "")

    def identity_error(self) -> float:
        """Returns how far xi is from Breg - (1/n)[h(s_1) - h(s_{n+1}) + M_n], relative to 1 + |U|.

        M_n is summed over the observed transitions, so a miscounted visit, a wrong row or a price of another
        model makes it large. nan while incomplete. If an environment's time limit cut episodes, the identity
        holds only up to these jumps.
        """
        limits, P = self.problem.limits, self.problem.mdp.transitions
        if not self.is_complete or not np.isfinite(limits.value):
            return np.nan
        h, d_hat, n = limits.potential, self.visits / self.num_steps, self.num_steps
        martingale = float(self.moves @ h[P.indices]) - float(self.visits @ (P @ h))
        ends = float(h[self.first_states].sum() - h[self.last_states].sum())
        error = limits.suboptimality(d_hat) - limits.bregman(d_hat) + (ends + martingale) / n
        return abs(error) / (1 + abs(limits.coverage.value(d_hat)))

    def summary(self) -> dict[str, Any]:
        """Returns the numbers of the run as a JSON document (infinities as text, None for nan)."""
        pair, count = self.least_visited
        last = {name: plain(self.trace[name][-1]) for name in COLUMNS if name != "least_pair"}
        return {
            "model": self.mdp.name or repr(self.mdp),
            "fingerprint": self.mdp.fingerprint,
            "explorer": self.explorer,
            "explorer_settings": self.explorer_settings,
            "known": self.model,
            "is_enough": self.is_enough,
            "rho": plain(self.rho),
            "seed": self.seed,
            "coverage": self.coverage_text,
            **last,
            "divergence": plain(self.divergence),
            "gap": plain(self.gap),
            "worst_ratio": plain(self.worst_ratio),
            "num_weighted": self.trace.num_weighted,
            "num_missing": self.num_missing,
            "visited_divergence": plain(self.visited_divergence),
            "visited_worst_ratio": plain(self.visited_worst_ratio),
            "least_visited": pair,
            "least_count": count,
            "best_divergence": plain(self.best.divergence),
            "best_gap": plain(self.best.gap),
            "best_worst_ratio": plain(self.best.worst_ratio),
            "sigma": plain(self.trace.sigma),
            "kappa_min": plain(self.trace.kappa_min),
            "restriction": self.restriction,
            "seconds": self.seconds,
        }

    def save(self, path: Path | str, *, overwrite: bool = False) -> None:
        """Writes counts, transitions, trace and the numbers to one file (see `rhocover.files`).

        The file is for other programs. To load a run again, let `explore` store it: `resume(out)` returns it.
        """
        tensors = {"counts": self.counts, "moves": self.moves}
        tensors |= {f"trace.{name}": self.trace[name] for name in COLUMNS}
        save_tensors(path, "run", tensors, self.summary(), overwrite=overwrite)

    @printed
    def __str__(self) -> str:
        pair, count = self.least_visited
        place = f"{self.mdp.name or 'the model'}{self._knowledge}"
        head = (
            f"Run of {self.explorer} on {place} at rho = {self.rho:g}{self._criterion}: "
            f"{count_of(self.num_steps, 'step')}, coverage {self.coverage_text}."
        )
        least = f"\n  least visited {short_name(pair)}, {count_of(count, 'time')}"
        least += f"\n  {self.restriction}" if self.restriction else ""
        if not self.is_complete:
            return head + least
        return (
            f"{head}\n  divergence  {self.divergence:.6g}  (long-run best {self.best.divergence:.6g}, which "
            f"a short run can beat by chance; certified gap {self.gap:.2e})"
            f"\n  worst ratio {self.worst_ratio:.6g}  (best plan {self.best.worst_ratio:.6g})"
            f"\n  regret      {self._shown_regret()}  (pathwise: avoidable with better actions)"
            f"{least}{self._judge}"
        )

    @property
    def _judge(self) -> str:
        """Which numbers know the true model, if the explorer had to learn it."""
        return "" if self.model == "known" else f"\n  {JUDGED_BY_TRUTH}"

    __repr__ = __str__


def is_certificate_cheap(run: Run) -> bool:
    """Whether a certificate needs no plans on a large estimate, also because pairs are missing anyway."""
    mdp, belief = run.problem.mdp, run.belief
    if not isinstance(belief, LearnedModel) or mdp.num_pairs * mdp.num_states <= LARGEST:
        return True
    return (belief.settings.know_states or not run.has_truth) and run.num_missing > 0
