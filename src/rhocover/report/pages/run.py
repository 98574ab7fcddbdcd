"""The page of a run: what was visited, how close that is to the best, and how it developed over time.

If the model had to be learned, the page shows three gaps to the best: the true one, which can only be
computed from the model; the explorer's own estimate; and the bound that it can certify.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from rhocover.exploring import Run
from rhocover.exploring.belief.certificates import Certificate
from rhocover.exploring.runs.result import regret_column
from rhocover.learning.evidence import Evidence
from rhocover.report import pages
from rhocover.report.figures.lines import curves_of_runs
from rhocover.report.figures.over_time import regret_figure, run_figure
from rhocover.report.pages.visits import PairShares, discovery_figure, least_section, visits_section

CLOSE, NEAR = 0.01, 0.1  # nats: pairs fall short by about 1 and 10 percent more than necessary
KNOWN = "known"
KNOWLEDGE = {
    KNOWN: "the whole model",
    "learned": "its states and actions; the transitions had to be learned",
    "posterior": "its states and actions; the transitions had to be learned, with draws from the posterior",
    "from_scratch": "nothing, not even the number of states",
}
PROVED = "Proved: the divergence is at most this many nats above the best possible."
PROVED_OUTSIDE = (
    "At most this many nats above the best: proved with the true model, which the explorer did not know."
)


def page_of_run(
    run: Run, *, command: str = "", certificate: Certificate | None = None, evidence: Evidence | None = None
) -> pages.Page:
    """Returns the page of a run; shows the certificate and the evidence if they are given."""
    seen = visits_of_run(run)
    shares = {f"after {run.num_steps:,} steps": run.occupancy, "best plan": seen.best}
    return replace(
        head_of_run(run),
        sections=pages.sections(
            visits_section(
                "Where the visits went, and where they should be", seen,
                {key: table for key, table in shares.items() if table is not None},
            ),
            least_section(seen),
            _time_section(run),
            _knowledge_section(run, certificate, evidence),
            pages.section("Limits of these figures", *run.remarks) if run.remarks else None,
            pages.settings_section(_entries(run), command),
            pages.glossary_section(
                "pair", "mu", "rho", "occupancy", "divergence", "worst ratio", "certified gap",
                             "regret", "limit", "plan", "seed"),
        ),
    )  # fmt: skip


def head_of_run(run: Run) -> pages.Page:
    """Returns the page of a run without its sections: the verdict and the most important numbers."""
    return pages.Page(
        "An exploration run",
        f"{run.explorer} on {run.mdp.name or 'the model'}, rho = {pages.order_words(run.rho)}",
        verdict_of_run(run, visits_of_run(run)),
        _numbers(run),
    )


def visits_of_run(run: Run) -> PairShares:
    """Returns the shares of the target, of the visits and, if it is for the same pairs, of the best plan."""
    table = run.problem.table
    best = table(run.problem.d_star) if run.is_comparable else None
    return PairShares(run.mdp, table(run.coverage.mu_bar), run.occupancy, run.counts, best)


def verdict_of_run(run: Run, seen: PairShares) -> pages.Verdict:
    """Returns how good the visits are, in words."""
    if run.num_missing:
        missing, number = run.num_missing, run.trace.num_weighted
        were = "was" if missing == 1 else "were"
        return pages.Verdict(
            f"{missing:,} of the {number:,} pairs with positive weight {were} never visited. Until all of "
            f"them are visited, the distance to the best is not defined.{_covered_note(run)}",
            "Coverage is incomplete", "poor",
        )  # fmt: skip
    if run.is_open or not run.is_comparable or not run.has_truth:
        return _as_far_as_seen(run)
    worst = (
        f"The least covered pair, {seen.least_covered}, has {pages.fraction_words(run.worst_ratio)}; the "
        f"best plan for this rho leaves its worst pair with {pages.fraction_words(run.best.worst_ratio)}."
    )
    if run.gap <= CLOSE:
        return pages.Verdict(
            f"The visits are practically the best possible coverage. {worst}", "Covered", "good"
        )
    if run.gap <= NEAR:
        return pages.Verdict(
            f"The visits are close to the best possible coverage. {worst}", "Nearly there", "fair"
        )
    return pages.Verdict(
        f"Every pair was visited, but better coverage is possible. {worst} More steps or another explorer "
        "would get closer.",
        "Room for improvement", "fair",
    )  # fmt: skip


def _as_far_as_seen(run: Run) -> pages.Verdict:
    """Returns how good the visits are if the model, and perhaps even its states, are not known."""
    what = "of the states met so far " if run.is_open else ""
    others = " Other states may exist, so coverage cannot be called complete." * run.is_open
    best = ""
    if run.is_comparable:
        excess = pages.small_words(float(run.trace["excess"][-1]))
        best = f" In the observed model, the divergence is {excess} nats above the best."
    text = f"Every pair {what}was visited.{others}{best} Nothing is certified.{_covered_note(run)}"
    return pages.Verdict(text, "Covered, as far as observed" if run.is_open else "Covered", "fair")


def _covered_note(run: Run) -> str:
    """Returns what is covered in detail, if the true model is not available."""
    return "" if run.has_truth else f" Covered: {run.coverage_text}."


def _numbers(run: Run) -> tuple[pages.KeyNumber, ...]:
    number, visited = run.trace.num_weighted, int(run.trace["visited"][-1])
    (pair, count), best = run.least_visited, pages.ratio_words(run.best.worst_ratio)
    steps = pages.KeyNumber(f"{run.num_steps:,}", "steps", f"Actions taken, with random seed {run.seed}.")
    if not run.has_truth:
        return *_seen_numbers(run), steps
    if not run.is_complete:
        return (
            pages.KeyNumber(f"{visited:,} of {number:,}", "pairs visited", "Of those with positive weight."),
            pages.KeyNumber(best, "worst ratio of the best plan",
                      f"In the long run, every pair can get at least 1/{best} of its share."),
            steps,
        )  # fmt: skip
    times = "once" if count == 1 else f"{count:,} times"
    return (
        pages.KeyNumber("complete", "coverage",
                  f"All {number:,} pairs with positive weight were visited; {pair} least often: {times}."),
        pages.KeyNumber(pages.ratio_words(run.worst_ratio), "worst ratio",
                  f"The least covered pair has 1/{pages.ratio_words(run.worst_ratio)} of its share; in the "
                  f"best plan, 1/{best}."),
        pages.KeyNumber(
            pages.small_words(run.gap), "certified gap", PROVED if run.model == KNOWN else PROVED_OUTSIDE
        ),
        steps,
    )  # fmt: skip


def _seen_numbers(run: Run) -> tuple[pages.KeyNumber, ...]:
    """Returns the visited pairs among those known, and the worst ratio over all or over visited pairs."""
    number, visited = run.trace.num_weighted, run.trace.num_weighted - run.num_missing
    known = "Of the states met so far; others may exist." if run.is_open else "Of those with positive weight."
    covered = pages.KeyNumber(f"{visited:,} of {number:,}", "pairs visited", known)
    if run.num_missing:
        means = "The factor by which the least covered of the visited pairs falls short."
        worst = pages.ratio_words(run.visited_worst_ratio)
        return covered, pages.KeyNumber(worst, "worst ratio of visited pairs", means)
    worst = pages.ratio_words(run.worst_ratio)
    best = f" In the best plan for the observed model: 1/{pages.ratio_words(run.best.worst_ratio)}."
    means = f"The least covered pair has 1/{worst} of its share.{best * run.is_comparable}"
    return covered, pages.KeyNumber(worst, "worst ratio", means)


def _time_section(run: Run) -> pages.Section:
    regret = regret_picture(run) if is_judged(run) else None
    return pages.section("Over time, against the limit", time_picture(run), regret)


def is_judged(run: Run) -> bool:
    """Whether there are numbers to draw: every pair was visited, and the best is for the same pairs."""
    return not run.num_missing and run.is_comparable


def time_picture(run: Run, title: str = " ") -> pages.Picture:
    """Returns the run in three panels over time, or how many pairs were visited if there are no numbers."""
    if is_judged(run):
        return pages.Picture(run_figure(run, title), PROGRESS, _progress_alt(run))
    trace = run.trace
    figure = discovery_figure(trace["steps"], trace["visited"], trace.num_weighted, title.strip())
    caption = "The number of pairs with positive weight that were visited at least once."
    alt = f"A curve that rises to {int(trace['visited'][-1])} of {trace.num_weighted} pairs."
    return pages.Picture(figure, caption, alt)


PROGRESS = (
    "The run (coloured lines) against the best that any policy reaches in the long run (dashed). Divergence "
    "and worst ratio should approach their dashed lines. The suboptimality should end inside the grey band: "
    "the band is the size of random fluctuations, which no policy avoids, and a run may even be below zero "
    "by chance."
)


def _progress_alt(run: Run) -> str:
    best, last = run.best, float(run.trace["suboptimality"][-1])
    return (
        f"Three curves over {run.num_steps:,} steps. The divergence ends at "
        f"{pages.small_words(run.divergence)} "
        f"(long-run best {pages.small_words(best.divergence)}), the worst ratio at "
        f"{pages.ratio_words(run.worst_ratio)} "
        f"(best plan {pages.ratio_words(best.worst_ratio)}), the suboptimality at {pages.small_words(last)}."
    )


def regret_picture(run: Run, title: str = "") -> pages.Picture | None:
    """Returns the regret over time; None if it was never positive."""
    column = regret_column(run.rho)
    curves = curves_of_runs([run], column)
    values, limit = run.trace[column], run.trace.kappa_min
    if not (np.isfinite(values) & (values > 0)).any():
        return None
    in_nats = column != "regret"
    limit = math.nan if in_nats else limit
    figure = regret_figure(curves, kappa_min=limit, unit="nats" if in_nats else "U", title=title)
    caption = "Regret: what better actions could have saved under the same random outcomes."
    if math.isfinite(limit):
        caption += " Below the dashed line it is smaller than the loss that random outcomes alone cause."
    alt = (
        f"A falling curve of the regret over the steps, which ends at {pages.small_words(float(values[-1]))}."
    )
    return pages.Picture(figure, caption, alt)


def _knowledge_section(
    run: Run, certificate: Certificate | None, evidence: Evidence | None
) -> pages.Section | None:
    """Returns what the explorer knows about its own result, if the model had to be learned."""
    if run.model == KNOWN:
        return None
    whose = "true, from the model itself" if run.has_truth else "in the observed model"
    rows = [(whose, pages.small_words(float(run.trace["excess"][-1])))]
    if certificate is not None:
        sure = f"upper bound, with probability {1 - certificate.delta:g}"
        rows += [("estimated by the explorer", pages.small_words(certificate.plug_in_gap)),
                 (sure, pages.certified_words(certificate))]  # fmt: skip
    caption = "How far the divergence of these visits is above the best, in nats."
    error = ""
    if run.has_truth:
        error = (
            "The L1 error of its estimated transition probabilities is "
            f"{pages.small_words(run.model_error().l1_mean)} on average (0 is exact, 2 is the maximum)."
        )
    return pages.section(
        "What the explorer knows",
        "The explorer did not know the transitions and had to estimate them from its observations.",
        pages.Table(caption, ("gap to the best", "nats"), tuple(rows)),
        error,
        str(evidence) if evidence is not None else "",
    )


def _entries(run: Run) -> list[tuple[str, str]]:
    settings = run.explorer_settings if isinstance(run.explorer_settings, dict) else {}
    return [
        *pages.model_entries(run.mdp), ("rho", pages.order_words(run.rho)),
        ("weights mu", pages.weights_words(run.coverage.mu)),
        ("explorer", run.explorer), ("its settings", pages.plain_settings(settings.get("settings"))),
        ("known about the model", KNOWLEDGE.get(run.model, run.model)),
        ("steps", f"{run.num_steps:,}"), ("seed", str(run.seed)), ("dropped", run.restriction),
        ("stopped early", "yes, because its stopping rule was met" if run.is_enough else ""),
        ("fingerprint of the model", run.mdp.fingerprint[:16]),
    ]  # fmt: skip
