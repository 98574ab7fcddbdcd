"""The page of a top-up: that of the whole data, headed by what the addition brought."""

from __future__ import annotations

from dataclasses import replace

from rhocover.collecting.topped import TopUp, certified_words
from rhocover.report.pages import Page, Table, Verdict, ratio_words, section, small_words
from rhocover.report.pages.audit import page_of_audit


def page_of_top_up(found: TopUp, command: str) -> Page:
    """Returns the page of a top-up: that of the whole data, headed by what the addition brought."""
    page = page_of_audit(found.after or found.before, command=command)
    head = section("What the addition brings", _what_it_brings(found), _how_sure(found))
    verdict = Verdict(found.verdict, page.verdict.word, page.verdict.tone)
    return replace(page, kind="A top-up of a data set", verdict=verdict, sections=(head, *page.sections))


def _how_sure(found: TopUp) -> str:
    """Returns the certified gap of what is promised; the verdict has it where nothing was collected."""
    return "" if found.after is None else f"Of what was promised: {certified_words(found)}."


def _what_it_brings(found: TopUp) -> Table:
    """Returns coverage before and after, each over the pairs that it is about."""
    before, after, promise = found.before, found.after, found.promise
    total = before.num_steps + found.num_steps
    possible = f"{promise.num_pairs:,} of {before.num_pairs:,} pairs"
    rows = [("before", before.num_steps, before.coverage_text, before.visited_worst_ratio),
            ("promised in the long run", total, possible, promise.worst_ratio)]  # fmt: skip
    if after is not None:
        rows.append(("after", after.num_steps, after.coverage_text, after.visited_worst_ratio))
    rows.append(("all of it fresh, in the long run", total, possible, found.fresh_worst_ratio))
    gaps = {"promised in the long run": small_words(promise.gap)}
    cells = tuple(
        (name, f"{steps:,}", pairs, ratio_words(ratio), gaps.get(name, "-"))
        for name, steps, pairs, ratio in rows
    )
    caption = (
        "What was there, what the best addition gives, what it gave, and what a fresh collection comes to."
    )
    headings = ("", "steps", "covers", "worst ratio over those", "certified gap, nats")
    return Table(caption, headings, cells, words=(2,))
