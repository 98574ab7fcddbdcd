"""The result of top_up(): coverage before, predicted and reached coverage of the union; and its page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rhocover.checks import FloatArray, frozen
from rhocover.collecting.datasheet import Collection
from rhocover.coverage import Coverage
from rhocover.datasets.empirical_model import observed_model
from rhocover.datasets.result import Audit
from rhocover.documents import plain
from rhocover.errors import InvalidArgumentError, InvalidDataError, parse_text
from rhocover.mdp import MDP
from rhocover.occupancy import Occupancies
from rhocover.planning.problem import Criterion, Objective, PlanningProblem
from rhocover.planning.union import Addition, best_addition
from rhocover.printing import count_of, printed
from rhocover.report.pages import Page, Table, Verdict, ratio_words, section, small_words
from rhocover.report.pages.audit import head_of_audit, page_of_audit
from rhocover.showing import Shown

LOOSE = 0.01  # nats, a hundredth of every share: with a larger gap an addition is not called best
TINY = 1e-6  # nats: a smaller gap makes no noticeable difference
ROUNDING = 1e-12  # the divergence of a perfect match is 0 but for rounding, which may leave it below 0


@dataclass(frozen=True, eq=False)
class PredictedUnion:
    """Prediction for the best addition in the long run: shares of the new visits, policy, union's coverage.

    Tables are `[S, A]` over the states of the audit before. Figures are over the `num_pairs` pairs of the
    model used for planning: if none was given, pairs that were never tried are not in it. `gap` certifies
    that on this model no addition is better by more than this many nats.
    """

    psi: FloatArray
    policy: FloatArray
    num_pairs: int
    before_divergence: float
    before_worst_ratio: float
    divergence: float
    worst_ratio: float
    least_visits: float
    gap: float


@dataclass(frozen=True, eq=False)
class TopUp(Shown):
    """An addition of `num_steps` steps to a data set; with `after` and `collection` if it was collected."""

    num_steps: int
    before: Audit
    predicted: PredictedUnion
    after: Audit | None
    collection: Collection | None

    @property
    def policy(self) -> FloatArray:
        """The policy that improves the union most, `[S, A]`; uniform in states that it never visits.

        If the best addition consists of separate parts of the model, a single run of this policy does not
        visit all of them; `top_up` with an environment does.
        """
        return self.predicted.policy

    @property
    def fresh_worst_ratio(self) -> float:
        """The worst ratio of the best plan at this rho: that of a fresh collection in the long run."""
        return self.before.best_worst_ratio

    @property
    def fresh_divergence(self) -> float:
        """The divergence of the best plan: that of a fresh collection in the long run."""
        return np.nan if self.before.best is None else self.before.best.divergence

    @property
    def fresh_least_visits(self) -> float:
        """Visits of the thinnest pair in a fresh collection of `num_steps` steps by the best plan."""
        target = self.before.weights / self.before.weights.sum()
        return float(self.num_steps * target[target > 0].min() / self.fresh_worst_ratio)

    @property
    def verdict(self) -> str:
        """The effect of the addition, in a sentence."""
        return predicted_sentence(self) if self.after is None else reached_sentence(self, self.after)

    def to_minari(self, dataset_id: str | None = None, *, overwrite: bool = False) -> Any:
        """Returns the new steps as a `minari.MinariDataset`; see `Collection.to_minari`."""
        if self.collection is None:
            raise InvalidArgumentError(
                parse_text("nothing was collected: pass an environment and `out` to `top_up`.")
            )
        return self.collection.to_minari(dataset_id, overwrite=overwrite)

    def summary(self) -> dict[str, Any]:
        """Returns the numbers, ready for JSON."""
        return {
            "verdict": self.verdict,
            "num_steps": self.num_steps,
            "before": self.before.summary(),
            "promised_pairs": self.predicted.num_pairs,
            "promised_worst_ratio": plain(self.predicted.worst_ratio),
            "promised_divergence": plain(self.predicted.divergence),
            "promised_least_visits": plain(self.predicted.least_visits),
            "promise_gap": plain(self.predicted.gap),
            "after": None if self.after is None else self.after.summary(),
            "fresh_worst_ratio": plain(self.fresh_worst_ratio),
            "fresh_divergence": plain(self.fresh_divergence),
            "fresh_least_visits": plain(self.fresh_least_visits),
            "collection": None if self.collection is None else self.collection.summary(),
        }

    @printed
    def __str__(self) -> str:
        return self.verdict

    __repr__ = __str__


def predict_union(before: Audit, num_steps: int) -> PredictedUnion:
    """Returns the prediction for the best addition, on the model of the audit, else on the observed model."""
    mdp, rows = _model(before)
    weights = before.weights.ravel()[rows]
    if not weights.any():
        raise InvalidDataError(
            "no weighted pair can be visited in the long run, according to the transitions in the data.",
            argument="data",
        )
    members, coverage = Occupancies.average(mdp), Coverage(before.rho, weights / weights.sum())
    visits = before.counts.ravel()[rows]
    found = best_addition(members, coverage, visits, num_steps)
    shares = visits / max(int(visits.sum()), 1)
    return PredictedUnion(
        psi=_table(before, rows, found.psi),
        policy=_policy(before, rows, members, found),
        num_pairs=int(np.count_nonzero(coverage.support)),
        before_divergence=coverage.divergence(shares),
        before_worst_ratio=coverage.worst_ratio(shares),
        divergence=found.divergence,
        worst_ratio=coverage.worst_ratio(found.d),
        least_visits=float((found.d * (visits.sum() + num_steps))[coverage.support].min()),
        gap=found.gap,
    )


def _model(before: Audit) -> tuple[MDP, Any]:
    """Returns the model to plan on, and which entry of the audit's tables each of its pairs is.

    It is the part that can be visited in the long run, of the given model or of the observed one.
    """
    if not before.is_exact or before.best is None:
        seen = observed_model(before.tally)
        return seen.mdp, seen.pairs
    model = before.best.mdp
    rows = model.pair_state * model.num_actions + model.pair_action
    weights = before.weights.ravel()[rows]
    question = PlanningProblem.read(model, Objective(before.rho, weights), Criterion(restrict=True))
    return question.members.mdp, rows[np.flatnonzero(question.kept)]


def _table(before: Audit, rows: Any, values: FloatArray, fill: float = 0.0) -> FloatArray:
    table = np.full(before.counts.size, fill)
    table[rows] = values
    return frozen(table.reshape(before.counts.shape))


def _policy(before: Audit, rows: Any, members: Occupancies, found: Addition) -> FloatArray:
    """Returns the policy of the addition; uniform in states that are not in the model."""
    policy = members.flatten(members.to_policy(found.psi), "policy")
    table = np.array(_table(before, rows, policy))
    silent = table.sum(axis=1) == 0
    table[silent] = 1 / table.shape[1]
    return frozen(table)


def reached_sentence(found: TopUp, after: Audit) -> str:
    """Returns what was reached: the pairs covered while some are missing, else the value of the objective."""
    before, steps = found.before, f"{found.num_steps:,} more steps"
    if before.num_missing or after.num_missing:
        head = f"{steps} brought coverage from {before.coverage_text} to {after.coverage_text}"
        return f"{head}; {_visited(after)}." if after.num_missing else f"{head}; {_figure(found, after)}."
    old, new = _objective(before), _objective(after)
    said = f"{steps} brought the {_noun(before)} from {old:.3g} to {new:.3g}; {_fresh(found)}"
    return f"{said}{_luck(found, old, new)}."


def predicted_sentence(found: TopUp) -> str:
    """Returns what is predicted, and over which pairs."""
    predicted, before = found.predicted, found.before
    old, new = predicted.before_divergence, predicted.divergence
    if before.rho == np.inf:
        old, new = predicted.before_worst_ratio, predicted.worst_ratio
    said = f"{found.num_steps:,} more steps would bring the {_noun(before)} from {_number(old)} to {new:.3g}"
    missing = before.num_pairs - predicted.num_pairs
    if missing > 0:
        tried = f"{count_of(predicted.num_pairs, 'pair', ',')} that were tried"
        others = "1 other has" if missing == 1 else f"{missing:,} others have"
        said += f" over the {tried}; {others} to be tried first"
    return f"{said}; {_fresh(found)}{_luck(found, old, new)}; {certified_sentence(found)}."


def certified_sentence(found: TopUp) -> str:
    """Returns the certified gap of the addition, and the model for which it holds."""
    gap, model = found.predicted.gap, "the model" if found.before.is_exact else "the observed model"
    if gap > LOOSE:
        return f"on {model} another addition may be better by up to {gap:.2g} nats: no more is certified"
    return f"on {model} no other addition is better by more than {max(gap, TINY):.2g} nats, certified"


def _luck(found: TopUp, old: float, new: float) -> str:
    """Returns why the union is worse than the data, if the data are better than any policy's visits."""
    if not old < min(new, _fresh_figure(found)):
        return ""
    return (
        "; the union is worse than the data, because by chance the data are better than the visits of any "
        "policy in the long run, and more steps bring them closer to those"
    )


def _objective(audit: Audit) -> float:
    return audit.worst_ratio if audit.rho == np.inf else audit.divergence


def _noun(audit: Audit) -> str:
    return "worst ratio" if audit.rho == np.inf else f"divergence at rho = {audit.rho:g}"


def _figure(found: TopUp, after: Audit) -> str:
    return f"the {_noun(after)} is {_objective(after):.3g} now, and {_fresh(found)}"


def _visited(after: Audit) -> str:
    return f"over the visited pairs the worst ratio is {after.visited_worst_ratio:.3g} now"


def _fresh_figure(found: TopUp) -> float:
    return found.fresh_worst_ratio if found.before.rho == np.inf else found.fresh_divergence


def _fresh(found: TopUp) -> str:
    best = _number(_fresh_figure(found))
    return f"a fresh collection as large as the union reaches {best} in the long run"


def _number(value: float) -> str:
    if np.isnan(value):
        return "an unknown value"
    if abs(value) < ROUNDING:
        return "0"
    return f"{value:.3g}" if np.isfinite(value) else "infinite (some were never tried)"


def page_of_top_up(found: TopUp, command: str) -> Page:
    """Returns the page of a top-up: that of the union, with the effect of the addition first."""
    page = page_of_audit(found.after or found.before, command=command)
    first = section("What the addition brings", what_it_brings(found), _how_sure(found))
    return replace(head_of_top_up(found), sections=(first, *page.sections))


def head_of_top_up(found: TopUp) -> Page:
    """Returns the page of a top-up without its sections: the effect of the addition, and some numbers."""
    head = head_of_audit(found.after or found.before)
    verdict = Verdict(found.verdict, head.verdict.word, head.verdict.tone)
    return replace(head, kind="A top-up of a data set", verdict=verdict)


def _how_sure(found: TopUp) -> str:
    """Returns the certified gap of the prediction; without a collection it is in the verdict."""
    return "" if found.after is None else f"For the prediction: {certified_sentence(found)}."


PREDICTED = "predicted in the long run"


def what_it_brings(found: TopUp) -> Table:
    """Returns the table of coverage before and after, each over its own pairs."""
    before, after, predicted = found.before, found.after, found.predicted
    total = before.num_steps + found.num_steps
    possible = f"{predicted.num_pairs:,} of {count_of(before.num_pairs, 'pair', ',')}"
    rows = [("before", before.num_steps, before.coverage_text, before.visited_worst_ratio),
            (PREDICTED, total, possible, predicted.worst_ratio)]  # fmt: skip
    if after is not None:
        rows.append(("after", after.num_steps, after.coverage_text, after.visited_worst_ratio))
    rows.append(("all of it fresh, in the long run", total, possible, found.fresh_worst_ratio))
    gaps = {PREDICTED: small_words(predicted.gap)}
    cells = tuple(
        (name, f"{steps:,}", pairs, ratio_words(ratio), gaps.get(name, "-"))
        for name, steps, pairs, ratio in rows
    )
    caption = (
        "The data before, the predicted best addition, the addition itself, and a fresh collection instead."
    )
    headings = ("", "steps", "covers", "worst ratio over those", "certified gap, nats")
    return Table(caption, headings, cells, words=(2,))
