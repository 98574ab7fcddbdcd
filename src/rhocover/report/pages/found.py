"""The page of a comparison on environments: which explorer finds most, and when.

The most that any run found need not be all that there is, so nothing on the page is called complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rhocover.report import pages

if TYPE_CHECKING:
    from rhocover.experiments.env_comparison import EnvComparison, FoundRow

WORDS = {"codes": "distinct codes of the states", "cells": "distinct cells of a code that no explorer knew"}


def page_of_found(found: EnvComparison) -> pages.Page:
    """Returns the page of a comparison on environments, with a section for each."""
    first, *others = found.seeds
    entries = [
        ("environments", ", ".join(found.envs)), ("explorers", ", ".join(found.explorers)),
        ("steps", f"{found.num_steps:,}"),
        ("seeds", ", ".join(map(str, (first, *others))) if len(others) < 10 else f"{first} to {others[-1]}"),
    ]  # fmt: skip
    return replace(
        head_of_found(found),
        sections=pages.sections(
            *(pages.section(env, found_table(found, env), found_picture(found, env)) for env in found.envs),
            pages.settings_section(entries),
            pages.glossary_section("seed"),
        ),
    )


def head_of_found(found: EnvComparison) -> pages.Page:
    """Returns the page of a comparison on environments without its sections: who finds most, and where."""
    kind = "cells" if found.has_cells else "codes"
    winners = {env: ordered(found, env)[0].explorer for env in found.envs}
    lead = ", ".join(f"{name} in {env}" for env, name in winners.items())
    verdict = pages.Verdict(f"Found most {kind} on average: {lead}. There may be more than any run found.")
    numbers = (
        pages.KeyNumber(
            f"{found.most(found.envs[0], kind):,}",
            kind,
            f"The most that a run found in {found.envs[0]}: {WORDS[kind]}.",
        ),
        pages.KeyNumber(f"{len(found.seeds):,}", "seeds", "Per explorer, the same for all."),
        pages.KeyNumber(f"{found.num_steps:,}", "steps", "Actions taken in each run."),
    )
    title = f"{len(found.explorers)} explorers in {', '.join(found.envs)}"
    return pages.Page("A comparison of explorers", title, verdict, numbers)


def ordered(found: EnvComparison, env: str) -> list[FoundRow]:
    """Returns the rows of an environment, the explorer that found most first."""
    rows: Sequence[FoundRow] = [row for row in found.table() if row.env == env]
    return sorted(rows, key=lambda row: -(row.codes if row.cells is None else row.cells).mean)


def found_table(found: EnvComparison, env: str) -> pages.Table:
    """Returns what each explorer found in an environment."""
    kind = "cells" if found.has_cells else "codes"
    headings = ("explorer", "codes", *["held-out cells"] * found.has_cells, "95 % at step")
    rows = tuple(
        (row.explorer, str(row.codes), *([] if row.cells is None else [str(row.cells)]), row.when)
        for row in ordered(found, env)
    )
    caption = (
        f"Means over the seeds, with the least and the most. The last column is when 95 % of "
        f"{found.most(env, kind):,}, the most {kind} that any run found, were seen."
    )
    return pages.Table(caption, headings, rows)


def found_picture(found: EnvComparison, env: str, title: str = " ") -> pages.Picture:
    """Returns what was found over time."""
    caption = "What each explorer has found after so many steps: the mean, and the range over the seeds."
    return pages.Picture(
        found.figure(env, title=title), caption, f"{caption} The table has the final values."
    )
