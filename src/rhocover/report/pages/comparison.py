"""The page of a comparison: which explorer is closest to the best, on which model, and how certain that is.

Explorers are ranked by their mean regret over the seeds, if they visited every pair in every run. A lead of
less than two standard errors of the difference does not count as a lead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rhocover.exploring.runs.result import regret_column
from rhocover.report import pages
from rhocover.report.figures.over_time import regret_figure, worst_ratio_figure

if TYPE_CHECKING:
    from rhocover.experiments import Comparison
    from rhocover.experiments.comparison import MeanEstimate, Row

MOST_DRAWN = 12  # models and orders with figures; the others have only their tables
SURE = 2.0  # standard errors
WORST = (
    "The factor by which the least covered pair falls short: lower is better. The dashed line is what the "
    "best plan reaches in the long run; a short run can be better by chance."
)
UNRANKED = "No explorer visited every pair in every run, so none can be ranked."
REGRET = "What better actions could have saved under the same random outcomes: lower is better."


def page_of_comparison(found: Comparison, *, command: str = "") -> pages.Page:
    """Returns the page of a comparison, with a section for each model and rho."""
    cells = cells_of_comparison(found)
    return replace(
        head_of_comparison(found, cells),
        sections=pages.sections(
            *(_cell_section(cell, found, is_drawn=k < MOST_DRAWN) for k, cell in enumerate(cells)),
            pages.settings_section(_entries(found), command),
            pages.glossary_section("pair", "mu", "rho", "worst ratio", "regret", "limit", "plan", "seed"),
        ),
    )


def cells_of_comparison(found: Comparison) -> list[list[Row]]:
    """Returns the rows of each model and rho."""
    rows = found.table()
    return [
        [row for row in rows if (row.env, row.rho) == cell]
        for cell in dict.fromkeys((row.env, row.rho) for row in rows)
    ]


def head_of_comparison(found: Comparison, cells: Sequence[Sequence[Row]]) -> pages.Page:
    """Returns the page of a comparison without its sections: the verdict and the most important numbers."""
    title = f"{len(found.explorers)} explorers on {', '.join(found.envs)}"
    return pages.Page("A comparison of explorers", title, _verdict(cells, found), _numbers(cells, found))


def leaders(rows: Sequence[Row]) -> list[Row]:
    """Returns the rows where every run visited every pair, ordered by increasing regret."""
    known = [row for row in rows if not row.num_incomplete and not math.isnan(row.regret.mean)]
    return sorted(known, key=lambda row: row.regret.mean)


def is_ahead(first: Row, second: Row) -> bool:
    """Whether a lead is larger than chance explains; never with one seed, which has no standard error."""
    spread = math.hypot(first.regret.standard_error, second.regret.standard_error)
    return second.regret.mean - first.regret.mean > SURE * spread


def _verdict(cells: Sequence[Sequence[Row]], found: Comparison) -> pages.Verdict:
    ranked = [leaders(cell) for cell in cells]
    if not any(ranked):
        return pages.Verdict(UNRANKED, "No ranking", "poor")
    names = [rows[0].explorer if rows else "none" for rows in ranked]
    clear = [len(rows) > 1 and is_ahead(*rows[:2]) for rows in ranked]
    is_one = len(set(names)) == 1
    word = f"{names[0]} leads" if is_one else "No single winner"
    tone = "good" if is_one and all(clear) else "fair"
    if len(cells) == 1:
        return pages.Verdict(_lead(cells[0]), word, tone)
    return pages.Verdict(f"{_wins(names)}. {_clarity(clear, len(found.seeds))}.", word, tone)


def _wins(names: Sequence[str]) -> str:
    """Returns how often each explorer has the least regret."""
    if len(set(names)) == 1:
        return f"{names[0]} has the least regret on all {len(names)} problems"
    counted = sorted((-names.count(name), name) for name in set(names))
    (most, first), *others = counted
    return ", ".join(
        [
            f"{first} has the least regret on {-most} of {len(names)} problems",
            *(f"{name} on {-k}" for k, name in others),
        ]
    )


def _clarity(clear: Sequence[bool], num_seeds: int) -> str:
    where = "all of them" if all(clear) else f"{sum(clear)} of them"
    return f"On {where} the lead is larger than chance explains with {num_seeds} seeds"


def _lead(rows: Sequence[Row]) -> str:
    """Returns the leading explorer in one or two sentences."""
    ranked = leaders(rows)
    if not ranked:
        return UNRANKED
    first = ranked[0]
    worst, best = pages.ratio_words(first.worst_ratio.mean), pages.ratio_words(first.best_worst_ratio)
    return (
        f"{first.explorer} has the least regret{_distance(ranked)}. Its least covered pair has 1/{worst} of "
        f"its share; in the best plan it is 1/{best}."
    )


def _distance(ranked: Sequence[Row]) -> str:
    """Returns the end of a sentence: how far the first is ahead of the second."""
    if len(ranked) < 2:
        return " and is the only one that visited every pair in every run"
    first, second = ranked[:2]
    if not is_ahead(first, second):
        return f", but its lead over {second.explorer} may be chance"
    if first.regret.mean <= 0:
        return f": too small to be measured. {second.explorer} is second"
    factor = pages.ratio_words(second.regret.mean / first.regret.mean)
    return f", {factor} times less than {second.explorer}, which is second"


def _numbers(cells: Sequence[Sequence[Row]], found: Comparison) -> tuple[pages.KeyNumber, ...]:
    rows = [row for cell in cells for row in cell]
    ranked = leaders(cells[0])
    lost = sum(row.num_incomplete for row in rows)
    total = len(rows) * len(found.seeds)
    numbers = [
        pages.KeyNumber(pages.share_words(1 - lost / total), "runs with complete coverage",
                  f"{total - lost:,} of {total:,} runs visited every pair with positive weight."),
        pages.KeyNumber(f"{len(found.seeds):,}", "seeds", "Per explorer, the same for all."),
        pages.KeyNumber(f"{found.num_steps:,}", "steps", "Actions taken in each run."),
    ]  # fmt: skip
    if len(cells) == 1 and ranked:
        worst = pages.KeyNumber(
            pages.ratio_words(ranked[0].worst_ratio.mean), f"worst ratio of {ranked[0].explorer}",
            f"The mean over the seeds; the best plan has {pages.ratio_words(ranked[0].best_worst_ratio)}.",
        )  # fmt: skip
        numbers.insert(0, worst)
    return tuple(numbers)


def _cell_section(rows: Sequence[Row], found: Comparison, *, is_drawn: bool) -> pages.Section:
    env, rho = rows[0].env, rows[0].rho
    pictures = _pictures(rows, found) if is_drawn else [f"Only the first {MOST_DRAWN} sections have figures."]
    return pages.section(f"{env}, rho = {pages.order_words(rho)}", _lead(rows), ranked_table(rows), *pictures)


def ranked_table(rows: Sequence[Row]) -> pages.Table:
    """Returns what the explorers reached on one model at one rho, the least regret first."""
    unit = "" if rows[0].regret_unit == "U" else ", nats"
    ranked = [*leaders(rows), *(row for row in rows if row not in leaders(rows))]
    body = [
        (row.explorer, _spread(row.worst_ratio, ".3f"), _spread(row.regret, ".2e"),
         f"{row.num_seeds - row.num_incomplete} of {row.num_seeds}")
        for row in ranked
    ]  # fmt: skip
    possible = ("best plan", f"{rows[0].best_worst_ratio:.3f}", "0", "")
    caption = (
        "Means over the seeds ± standard error, the least regret first. There is no mean if coverage is "
        "incomplete in a run."
    )
    headings = ("explorer", "worst ratio", f"regret{unit}", "runs that visited every pair")
    return pages.Table(caption, headings, (*body, possible))


def _spread(estimate: MeanEstimate, form: str) -> str:
    if math.isnan(estimate.mean):
        return "-"
    error = estimate.standard_error
    return f"{estimate.mean:{form}}" + ("" if math.isnan(error) else f" ± {error:.1g}")


def worst_ratio_picture(rows: Sequence[Row], found: Comparison) -> pages.Picture:
    """Returns the worst ratio of every explorer over time, on one model at one rho."""
    curves = found.curves(rows[0].env, rows[0].rho, "worst_ratio")
    figure = worst_ratio_figure(curves, best=rows[0].best_worst_ratio)
    return pages.Picture(figure, WORST, f"The worst ratio {_alt(found)}")


def _alt(found: Comparison) -> str:
    return f"over {found.num_steps:,} steps, one line per explorer. The table has the final values."


def _pictures(rows: Sequence[Row], found: Comparison) -> list[pages.Picture]:
    env, rho = rows[0].env, rows[0].rho
    column = regret_column(rho)
    in_nats = column != "regret"
    theorem = [row.explorer for row in rows if row.theorem_exponent is not None]
    regret = regret_figure(
        found.curves(env, rho, column),
        kappa_min=math.nan if in_nats else rows[0].kappa_min,
        unit="nats" if in_nats else "U",
        theorem_for=theorem[0] if theorem else None,
    )
    return [worst_ratio_picture(rows, found), pages.Picture(regret, REGRET, f"The regret {_alt(found)}")]


def _entries(found: Comparison) -> list[tuple[str, str]]:
    first, *others = found.seeds
    documents = found.question["explorer_settings"]
    settings = (
        f"{name}: {pages.plain_settings((document or {}).get('settings'))}"
        for name, document in zip(found.explorers, documents, strict=True)
        if document and document.get("settings")
    )
    return [
        ("models", ", ".join(found.envs)),
        ("rho", ", ".join(map(pages.order_words, found.orders))),
        ("explorers", ", ".join(found.explorers)),
        ("their settings", "; ".join(settings)),
        ("conditions", found.conditions),
        ("steps", f"{found.num_steps:,}"),
        ("seeds", ", ".join(map(str, (first, *others))) if len(others) < 10 else f"{first} to {others[-1]}"),
    ]
