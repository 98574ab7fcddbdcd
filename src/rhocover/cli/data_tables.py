"""Tables of data sets: what is covered beside what is possible, and what is thin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from rhocover.cli.tables import empty_table

if TYPE_CHECKING:
    from rhocover.collecting import Collection, TopUp
    from rhocover.data import Audit

DIVERGENCE, RATIO, VISITS = ".6f", ".4f", ",.0f"
LUCK = "The best is that of a run without end: a short one can be luckier."
AS_STORED = "States and actions are counted as its datasheet says they were collected."


def audit_table(found: Audit, num_thin: int, notes: Sequence[str] = ()) -> Group:
    """Returns what a data set covers beside the best achievable, its thinnest pairs, and the verdict."""
    title = f"Audit of {found.tally.source} at rho = {found.rho:g}: {_size(found)}"
    return Group(Text(title, "bold"), _figures(found), *_below(found, num_thin, notes))


def collection_table(found: Collection, num_thin: int, notes: Sequence[str] = ()) -> Group:
    """Returns what was collected beside the best achievable and what random actions come to."""
    audit, settings = found.audit, found.datasheet["settings"]
    title = f"{found.dataset_id}: {_size(audit)} in {audit.tally.source}, seed {settings['seed']}"
    random = found.datasheet["uniform_random_worst_ratio"]
    table = _figures(audit, math.nan if random is None else float(random))
    return Group(Text(title, "bold"), table, *_below(audit, num_thin, notes))


def top_up_table(found: TopUp, num_thin: int, notes: Sequence[str] = ()) -> Group:
    """Returns coverage before and after, and what the addition promises."""
    before, after, promise = found.before, found.after, found.promise
    is_there = after is not None
    table = empty_table("", "before", "promised", *["after"] * is_there, "all of it fresh")
    rows = [
        ("steps", before.num_steps, before.num_steps + found.num_steps, after and after.num_steps,
         before.num_steps + found.num_steps, VISITS),
        ("divergence", before.divergence, promise.divergence, after and after.divergence,
         math.nan if before.best is None else before.best.divergence, DIVERGENCE),
        ("worst ratio", before.worst_ratio, promise.worst_ratio, after and after.worst_ratio,
         found.fresh_worst_ratio, RATIO),
    ]  # fmt: skip
    covered = [audit.coverage_text.removesuffix(" pairs") for audit in (before, after) if audit is not None]
    table.add_row("pairs covered", covered[0], "", *covered[1:], "")
    for name, old, promised, new, fresh, form in rows:
        cells = [old, promised, *[new] * is_there, fresh]
        table.add_row(name, *(_number(cell, form) for cell in cells))
    title = f"{found.num_steps:,} more steps for {before.tally.source} at rho = {before.rho:g}"
    return Group(Text(title, "bold"), table, *_below(after or before, num_thin, notes, found.verdict))


def _size(found: Audit) -> str:
    tally = found.tally
    cut = f", {tally.num_truncated:,} of them cut" if tally.num_truncated else ""
    return f"{tally.num_steps:,} steps, {tally.num_episodes:,} episodes{cut}"


def _figures(found: Audit, random: float | None = None) -> Table:
    """Returns the figures of an audit; `random` is the worst ratio of random actions, where that is told."""
    table = empty_table("", "in the data", "best", *["random actions"] * (random is not None))
    best = math.nan if found.best is None else found.best.divergence
    rows: list[tuple[str, float, float, str]] = [
        ("divergence", found.divergence, best, DIVERGENCE),
        ("worst ratio", found.worst_ratio, found.best_worst_ratio, RATIO),
    ]
    if not found.is_complete:
        rows += [("worst ratio, visited pairs", found.visited_worst_ratio, math.nan, RATIO)]
    covered = found.coverage_text.removesuffix(" pairs")
    table.add_row("pairs covered", covered, *[""] * (len(table.columns) - 2))
    for name, here, possible, form in rows:
        more = [_number(random if name == "worst ratio" else math.nan, form)] if random is not None else []
        table.add_row(name, _number(here, form), _number(possible, form), *more)
    return table


def _below(found: Audit, num_thin: int, notes: Sequence[str], verdict: str = "") -> list[Table | Text]:
    """Returns the thinnest pairs, the verdict, and how sure it is."""
    best = "" if found.is_exact or found.best is None else " The best is that of what the data shows."
    certified = f"{_certified(found)}.{best}" if found.certificate is not None else ""
    luck = LUCK if found.gap < 0 else ""
    said = [
        verdict or found.verdict,
        luck,
        certified,
        f"{_capital(found.mixing.statement)}.",
        found.observed_note,
    ]
    texts = [Text(note.replace("best=True", "--best")) for note in [*said, *notes] if note]
    return [*([_thin_table(found, num_thin)] if num_thin and found.thin else []), *texts]


def _certified(found: Audit) -> str:
    assert found.certificate is not None
    is_sure = math.isfinite(found.certificate.gap)
    return f"Certified: {found.certificate}" if is_sure else _capital(str(found.certificate))


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:].rstrip(".")


def _thin_table(found: Audit, num_thin: int) -> Table:
    table = empty_table("thinnest pairs", "visits", "share of their due", "of the best policy")
    for pair in found.thin[:num_thin]:
        shares = (_number(share, ".3f") for share in (pair.share, pair.best_share))
        table.add_row(pair.name, f"{pair.count:,}", *shares)
    return table


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)
