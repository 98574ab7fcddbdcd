"""The page of a tally: what was visited, without an objective.

A tally has counts and nothing to compare them with. The page shows where the visits went and the least
visited pairs, each next to an equal share; an audit judges them by weights, and by what is possible.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rhocover.checks import IntArray
from rhocover.datasets.tally import Tally
from rhocover.errors import InvalidArgumentError, InvalidDataError
from rhocover.printing import count_of
from rhocover.report import pages
from rhocover.report.pages.audit import FEWEST, NO_ORDER, canvas_of, episodes_words, running_counts
from rhocover.report.pages.visits import PairShares, discovery_figure, least_section, visits_section


def page_of_tally(tally: Tally) -> pages.Page:
    """Returns the page of a tally."""
    seen = visits_of_tally(tally)
    steps, _ = progress_of_tally(tally)
    over_time = [] if len(steps) < FEWEST else [pages.section("Over time", discovery_picture(tally))]
    entries = [
        ("data", tally.source),
        ("steps", f"{tally.num_steps:,}"),
        ("episodes", f"{tally.num_episodes:,}"),
    ]
    return replace(
        head_of_tally(tally),
        sections=pages.sections(
            visits_section("Where the visits went", seen, {"visits": seen.share}),
            least_section(seen),
            *over_time,
            pages.settings_section(entries),
            pages.glossary_section("pair", "occupancy"),
        ),
    )


def head_of_tally(tally: Tally) -> pages.Page:
    """Returns the page of a tally without its sections: how much was counted."""
    if not tally.num_steps:
        raise InvalidDataError(f"{tally.source} has no transitions: there is nothing to show.")
    total = tally.counts.size
    verdict = pages.Verdict(
        f"{tally.num_pairs:,} of the {count_of(total, 'pair', ',')} of "
        f"{count_of(tally.num_states, 'state', ',')} were visited. An audit says what that is worth: "
        "audit(tally)."
    )
    least, most = int(tally.counts[tally.counts > 0].min()), int(tally.counts.max())
    numbers = (
        pages.KeyNumber(f"{tally.num_steps:,}", "steps", episodes_words(tally)),
        pages.KeyNumber(f"{tally.num_pairs:,} of {total:,}", "pairs visited", "Of the states that were met."),
        pages.KeyNumber(f"{least:,} to {most:,}", "visits", "Of the pairs that were visited."),
    )
    return pages.Page("Counts of visits", tally.source, verdict, numbers)


def visits_of_tally(tally: Tally) -> PairShares:
    """Returns the shares of the visits, next to equal shares of all pairs of the states that were met."""
    counts = tally.counts
    canvas = canvas_of(tally, tally.layout, np.ones(counts.shape, bool))
    return PairShares(canvas, np.full(counts.shape, 1 / counts.size), counts / tally.num_steps, counts)


def discovery_picture(tally: Tally, title: str = "") -> pages.Picture:
    """Returns how many pairs were visited over the steps of the data; raises if their order is not known."""
    steps, visited = progress_of_tally(tally)
    if len(steps) < FEWEST:
        raise InvalidArgumentError.of("kind", f"cannot be 'over_time': {tally.source} {NO_ORDER}")
    figure = discovery_figure(steps, visited, tally.counts.size, title)
    caption = "The number of pairs that were visited at least once, of all pairs of the states that were met."
    return pages.Picture(figure, caption, f"A curve that ends at {tally.num_pairs:,} pairs.")


def progress_of_tally(tally: Tally) -> tuple[IntArray, IntArray]:
    """Returns steps and pairs visited after each batch of the data, `[K]` each."""
    rows = dict(_progress(tally))
    return np.array([*rows]), np.array([*rows.values()])


def _progress(tally: Tally) -> Iterator[tuple[int, int]]:
    for counts in running_counts(tally):
        yield int(counts.sum()), int(np.count_nonzero(counts))
