"""Tables of runs, comparisons and data sets: what was reached, next to what is possible.

A table of a run also shows what is known about it: the certificate, what was never reached, and the error of
the estimated model. If the model was known, the certificate comes from the run's own transitions. If it was
learned, a certificate costs about ten plans on irregular rows: a second for some hundred states, minutes
for some thousands. So a command leaves it out for a large model, unless it was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from rhocover.cli.output import empty_table, typed_text
from rhocover.cli.parsing import format_stop
from rhocover.collecting.result import EnvironmentRun
from rhocover.errors import Dialect, Part, Setting, format_text, short_names
from rhocover.exploring import Run
from rhocover.exploring.belief.certificates import Certificate
from rhocover.exploring.belief.learned import LearnedModel
from rhocover.exploring.runs.result import is_certificate_cheap, regret_column
from rhocover.exploring.runs.spec import KNOWN
from rhocover.learning.estimate import ModelError
from rhocover.learning.evidence import Evidence
from rhocover.printing import count_of

if TYPE_CHECKING:
    from rhocover.collecting import Collection, TopUp
    from rhocover.datasets import Audit
    from rhocover.experiments import Comparison
    from rhocover.experiments.comparison import MeanEstimate, Row
    from rhocover.experiments.env_comparison import EnvComparison
    from rhocover.exploring.runs.spec import RunSpec

# What is known about a run: the certificate, what was never reached, the model error.

TRUE = (
    "'True' and 'possible' are computed with the model itself, which the explorer did not know; the plug-in "
    "gap and the upper bound use its observations alone."
)
RULE = "The plug-in gap and the certificate use weights estimated from the observed transitions."
LEFT_OUT = (
    "The certificate is left out, because it takes minutes for a model of this size. Pass --until-gap to get "
    "it, or call rhocover.resume(DIR).certificate() in Python."
)


@dataclass(frozen=True, eq=False)
class Knowledge:
    """The certificate of a run, what it never reached, and how far its estimate of the model is off."""

    certificate: Certificate | None  # None: left out
    evidence: Evidence | None  # None: the model was known
    model_error: ModelError | None  # None: the true model is not available

    def document(self, run: Run) -> dict[str, Any]:
        """Returns it ready for JSON, including the name of the pair with the largest error."""
        certificate = self.certificate and asdict(self.certificate)
        evidence = self.evidence and asdict(self.evidence) | {"text": str(self.evidence)}
        error = self.model_error and asdict(self.model_error) | {
            "worst_pair_name": run.problem.pair_name(self.model_error.worst_pair)
        }
        return {"certificate": certificate, "evidence": evidence, "model_error": error}

    def tables(self, run: Run) -> list[Table]:
        """Returns the gap to the best: the true one, the explorer's estimate, and the certified bound."""
        if self.evidence is None:
            return []
        sure = f"upper bound, with probability {1 - self.evidence.delta:g}"
        first = "on observed model" if self.model_error is None else "true"
        table = empty_table("", first, "plug-in", sure)
        table.add_row("gap to the best, nats", *map(_finite_number, (_true_gap(run), *self._gaps())))
        if self.model_error is not None:
            table.add_row("model error", _finite_number(self.model_error.l1_mean), "", "")
        return [table]

    def _gaps(self) -> tuple[float, float]:
        found = self.certificate
        return (math.nan, math.nan) if found is None else (found.plug_in_gap, found.gap)

    def sentences(self, run: Run) -> list[str]:
        """Returns notes: what was never reached, why there is no certificate, which weights it uses."""
        if self.evidence is None:
            return []
        found = [RULE] if _is_by_rule(run) else []
        if self.certificate is None:
            found = [LEFT_OUT]
        elif self.certificate.proves_nothing:
            found = [*found, f"The certificate {self.certificate}."]
        elif not math.isfinite(self.certificate.gap):
            found = [f"{_capital(str(self.certificate))}."]
        found = found if self.model_error is None else [TRUE, *found]
        return [*found, str(self.evidence)] if is_lacking(self.evidence) else found


def knowledge_of(run: Run, delta: float, *, whatever_it_takes: bool = False) -> Knowledge:
    """Returns what is known about a run, with probability 1 - delta if the model was not known."""
    certificate = run.certificate(delta) if whatever_it_takes or is_certificate_cheap(run) else None
    is_known = not isinstance(run, EnvironmentRun)
    return Knowledge(certificate, run.evidence(delta), run.model_error() if is_known else None)


def is_lacking(evidence: Evidence) -> bool:
    """Whether a state was never reached or a pair never visited."""
    return bool(evidence.unmet or evidence.unvisited)


def _is_by_rule(run: Run) -> bool:
    return isinstance(run.belief, LearnedModel) and run.belief.frame.rule is not None


def _true_gap(run: Run) -> float:
    return float(run.trace["excess"][-1])


def _finite_number(value: float) -> str:
    return format(value, ".3g") if math.isfinite(value) else "-"


# Tables of runs and comparisons: what was reached, next to what is possible.

PART = "What is possible is not known, because the observed model covers only some of the pairs."
LONG_RUN = "The column 'possible' refers to the long run: a short run can be better by chance."
BREGMAN = "Bregman · steps"
BREGMAN_NOTE = (
    "Bregman · steps is the controllable part of the suboptimality, times the steps. On average, no explorer "
    "stays below the possible value in the long run."
)
FORMS = ((".2e", ".0e"), (".4g", ".2g"), (".3f", ".3f"))  # of means and errors
EXPONENT_FORM, ERROR_FORM = (".2f", ".2f"), (".3g", ".1g")


def run_table(run: Run, known: Knowledge, asked: RunSpec) -> Group:
    """Returns what a run reached, what is possible, and what its explorer knows about it."""
    (pair, count), steps, column = run.least_visited, run.num_steps, regret_column(run.rho)
    unit = "" if column == "regret" else ", nats"
    rows = [
        ("divergence", run.divergence, run.best.divergence, ".6f"),
        ("worst ratio", run.worst_ratio, run.best.worst_ratio, ".4f"),
        (f"regret{unit}", float(run.trace[column][-1]), 0.0, ".3g"),
        (BREGMAN, steps * float(run.trace["bregman"][-1]), run.trace.kappa_min, ".4g"),
    ]
    table = empty_table("", "reached", "possible")
    for name, reached, possible, form in rows:
        best = possible if run.is_comparable else math.nan
        table.add_row(name, _number(reached, form), _number(best, form))
    if run.num_missing:
        table.add_row("worst ratio, visited pairs", _number(run.visited_worst_ratio, ".4f"), "-")
    place = run.mdp.name or "the model"
    model = "" if run.model == KNOWN else f", model {run.model.replace('_', ' ')}"
    length = f"{count_of(steps, 'step', ',')}, seed {run.seed}"
    title = f"{run.explorer} on {place} at rho = {run.rho:g}{model}: {length}"
    notes = [f"Coverage: {run.coverage_text}. Least visited: {pair}, {count_of(count, 'time', ',')}."]
    notes += [BREGMAN_NOTE, LONG_RUN if run.is_comparable else PART, *run.remarks]
    notes += [format_stop(asked.until, steps, asked.num_steps, is_met=run.is_enough)]
    notes += [*known.sentences(run), run.restriction]
    return Group(Text(title, "bold"), table, *known.tables(run), *(Text(note) for note in notes if note))


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def comparison_tables(found: Comparison) -> list[Group | Text]:
    """Returns one table per model and order, with one row per explorer, and a note on a column."""
    rows = found.table()
    cells = dict.fromkeys((row.env, row.rho) for row in rows)
    tables = (_cell_table([row for row in rows if (row.env, row.rho) == cell], found) for cell in cells)
    return [*tables, Text(BREGMAN_NOTE)]


def found_tables(found: EnvComparison) -> list[Group]:
    """Returns one table per environment, with one row per explorer."""
    return [_found_table(env, found) for env in found.envs]


def _found_table(env: str, found: EnvComparison) -> Group:
    rows = [row for row in found.table() if row.env == env]
    kind = "cells" if found.has_cells else "codes"
    table = empty_table("explorer", "codes", *(["held-out cells"] if found.has_cells else []), "95 % at step")
    for row in rows:
        cells = [] if row.cells is None else [str(row.cells)]
        table.add_row(row.explorer, str(row.codes), *cells, row.when)
    title = f"{env}: {count_of(found.num_steps, 'step', ',')}, {count_of(len(found.seeds), 'seed')}"
    note = f"95 % of {found.most(env, kind):,}, the most {kind} that any run here found. There may be more."
    return Group(Text(title, "bold"), table, Text(note))


def _cell_table(rows: Sequence[Row], found: Comparison) -> Group:
    """Returns one table; its last column is the exponent, or the model error if the model was learned."""
    first, is_known = rows[0], found.model == KNOWN
    theorem = [row.explorer for row in rows if row.theorem_exponent is not None]
    unit = "" if first.regret_unit == "U" else ", nats"
    last = "exponent" if is_known else "model error"
    table = empty_table("explorer", f"regret{unit}", BREGMAN, "worst ratio", last)
    for row in rows:
        table.add_row(row.explorer, *_cells(row), _exponent(row) if is_known else _model_error(row))
    possible = "0", _number(first.kappa_min, ".4g"), _number(first.best_worst_ratio, ".3f")
    table.add_row(Text("possible", "italic"), *possible, "" if is_known else "0")
    length = f"{count_of(found.num_steps, 'step', ',')}, {count_of(first.num_seeds, 'seed')}"
    title = f"{first.env} at rho = {first.rho:g}: {length}"
    title += f"; {found.conditions}" if found.conditions else ""
    named = " and ".join(theorem)
    note = f"Theorem: U* - U of {named} is at most of order t^(-1/3), up to a logarithm; so is the regret."
    return Group(Text(title, "bold"), table, *([Text(note)] if theorem else []))


def _cells(row: Row) -> tuple[str, ...]:
    """Returns the numbers of a row, or how many seeds have none."""
    if row.num_incomplete:
        return f"incomplete ({row.num_incomplete} of {row.num_seeds})", "-", "-"
    found = (row.regret, row.scaled_bregman, row.worst_ratio)
    return tuple(_spread(estimate, *form) for estimate, form in zip(found, FORMS, strict=True))


def _exponent(row: Row) -> str:
    return "-" if row.num_incomplete else _spread(row.exponent, *EXPONENT_FORM)


def _model_error(row: Row) -> str:
    return _spread(row.model_error, *ERROR_FORM)


def _spread(estimate: MeanEstimate, form: str, error_form: str) -> str:
    """Returns mean ± standard error, or the mean alone if there is no standard error."""
    text, error = _number(estimate.mean, form), estimate.standard_error
    return text if math.isnan(error) else f"{text} ± {error:{error_form}}"


# Tables of data sets: what is covered, what is possible, and which pairs are thin.

DIVERGENCE, RATIO, VISITS, GAP = ".6f", ".4f", ",.0f", ".1e"
BY_CHANCE = "The best refers to the long run: a short run can be better by chance."
OF_AUDIT = {"best": "--best", "certificate": "--certificate", "met_only": "--met-only", "mu": "--mu"}
AS_STORED = "States and actions are encoded as in the datasheet of the data set."


def audit_table(found: Audit, num_thin: int, notes: Sequence[str] = ()) -> Group:
    """Returns the coverage of a data set, the best achievable, the thinnest pairs and the verdict."""
    title = f"Audit of {found.tally.source} at rho = {found.rho:g}: {_size(found)}"
    return Group(Text(title, "bold"), _figures(found), *_below(found, num_thin, notes, command="audit"))


def collection_table(found: Collection, num_thin: int, notes: Sequence[str] = ()) -> Group:
    """Returns the coverage of a collection, next to the best achievable and to random actions."""
    audit, settings = found.audit, found.datasheet["settings"]
    title = f"{found.dataset_id}: {_size(audit)} in {audit.tally.source}, seed {settings['seed']}"
    random = found.datasheet["uniform_random_worst_ratio"]
    table = _figures(audit, math.nan if random is None else float(random))
    return Group(Text(title, "bold"), table, *_below(audit, num_thin, notes))


def top_up_table(found: TopUp, num_thin: int, notes: Sequence[str] = ()) -> Group:
    """Returns the coverage before, predicted and after a top-up."""
    before, after, predicted = found.before, found.after, found.predicted
    is_there = after is not None
    table = empty_table("", "before", "predicted", *["after"] * is_there, "all new")
    rows = [
        ("steps", before.num_steps, before.num_steps + found.num_steps, after and after.num_steps,
         before.num_steps + found.num_steps, VISITS),
        ("divergence", before.divergence, predicted.divergence, after and after.divergence,
         math.nan if before.best is None else before.best.divergence, DIVERGENCE),
        ("worst ratio", before.worst_ratio, predicted.worst_ratio, after and after.worst_ratio,
         found.fresh_worst_ratio, RATIO),
        ("certified gap, nats", math.nan, predicted.gap, math.nan, math.nan, GAP),
    ]  # fmt: skip
    covered = [audit.coverage_text.removesuffix(" pairs") for audit in (before, after) if audit is not None]
    planned = f"{predicted.num_pairs:,} of {before.num_pairs:,}"
    table.add_row("pairs covered", covered[0], planned, *covered[1:], planned)
    for name, old, expected, new, fresh, form in rows:
        cells = [old, expected, *[new] * is_there, fresh]
        table.add_row(name, *(_number(cell, form) for cell in cells))
    title = f"{found.num_steps:,} more steps for {before.tally.source} at rho = {before.rho:g}"
    return Group(Text(title, "bold"), table, *_below(after or before, num_thin, notes, found.verdict))


def _size(found: Audit) -> str:
    tally = found.tally
    cut = f", {tally.num_truncated:,} of them truncated" if tally.num_truncated else ""
    return f"{count_of(tally.num_steps, 'step', ',')}, {count_of(tally.num_episodes, 'episode', ',')}{cut}"


def _figures(found: Audit, random: float | None = None) -> Table:
    """Returns the figures of an audit; `random` is the worst ratio of random actions, if it is known."""
    table = empty_table("", "in the data", "best", *["random actions"] * (random is not None))
    best = found.best.divergence if found.best is not None and found.is_best_of_all else math.nan
    seen = math.nan if found.is_best_of_all else found.best_worst_ratio  # over the visited pairs only
    whole = found.best_worst_ratio if found.is_best_of_all else math.nan
    rows: list[tuple[str, float, float, str]] = [
        ("divergence", found.divergence, best, DIVERGENCE),
        ("worst ratio", found.worst_ratio, whole, RATIO),
    ]
    if not found.is_complete:
        rows += [("worst ratio, visited pairs", found.visited_worst_ratio, seen, RATIO)]
    covered = found.coverage_text.removesuffix(" pairs")
    table.add_row("pairs covered", covered, *[""] * (len(table.columns) - 2))
    for name, here, possible, form in rows:
        more = [_number(random if name == "worst ratio" else math.nan, form)] if random is not None else []
        table.add_row(name, _number(here, form), _number(possible, form), *more)
    return table


def _below(
    found: Audit, num_thin: int, notes: Sequence[str], verdict: str = "", command: str = ""
) -> list[Table | Text]:
    """Returns the thinnest pairs, the verdict, the certificate and notes."""
    best = (
        "" if found.is_exact or found.best is None else " The best is computed on the observed transitions."
    )
    dialect = partial(_typed, command)
    certified = f"{_certified(found, dialect)}.{best}"
    own = [
        verdict or found.verdict,
        BY_CHANCE if found.gap < 0 else "",
        certified,
        f"{_capital(found.mixing.statement)}.",
        found.observed_note,
        *(() if found.codes is None else found.codes.notes),
        *found.tally.remarks,
    ]
    texts = [Text(format_text(note, dialect)) for note in [*own, *notes] if note]
    return [*([_thin_table(found, num_thin)] if num_thin and found.thin else []), *texts]


def _typed(command: str, part: Part) -> str:
    """Returns a part of a note as it is typed; a setting that only `audit` has is shown with that command."""
    if isinstance(part, Setting) and command != "audit":
        return f"`rhocover audit {OF_AUDIT[part.name]}`"
    return typed_text(OF_AUDIT, part)


def _certified(found: Audit, dialect: Dialect) -> str:
    """Returns the certificate, or the reason why there is none."""
    if found.certificate is None:
        return f"Certificate: {found.no_certificate}"
    certificate = replace(found.certificate, condition=format_text(found.certificate.condition, dialect))
    if certificate.proves_nothing:
        return f"The certificate {certificate}"
    return f"Certified: {certificate}" if math.isfinite(certificate.gap) else _capital(str(certificate))


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:].rstrip(".")


def _thin_table(found: Audit, num_thin: int) -> Table:
    table = empty_table("thinnest pairs", "visits", "share / target", "of the best policy")
    thin = found.thin[:num_thin]
    for pair, name in zip(thin, short_names([pair.name for pair in thin]), strict=True):
        shares = (_number(share, ".3f") for share in (pair.share, pair.best_share))
        table.add_row(name, f"{pair.count:,}", *shares)
    return table
