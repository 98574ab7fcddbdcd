"""What `rhocover top-up` writes: the policy as a file, and a page."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

from rhocover.cli.outputs import check_free
from rhocover.collecting import TopUp
from rhocover.errors import InvalidArgumentError
from rhocover.files import save_tensors
from rhocover.report.page import Page, Table, Verdict, section
from rhocover.report.page_audit import page_of_audit
from rhocover.report.page_words import ratio_words

ENDINGS = (".csv", ".safetensors")


def check_policy(path: Path | None, *, force: bool) -> None:
    """Refuses a file for the policy that cannot be written, or that exists already unless `force`."""
    if path is None:
        return
    if path.suffix.lower() not in ENDINGS:
        raise InvalidArgumentError(f"--policy must end in {' or '.join(ENDINGS)}, got {str(path)!r}.")
    check_free(path.parent, [path.name], force=force)


def write_policy(found: TopUp, path: Path) -> None:
    """Writes the policy: rows are states in the order of the data's keys."""
    tally = found.before.tally
    names = [tally.state_name(state) for state in range(tally.num_states)]
    if path.suffix.lower() == ".safetensors":
        actions = list(tally.action_names or map(str, range(tally.num_actions)))
        save_tensors(path, "policy", {"policy": found.policy}, {"states": names, "actions": actions})
        return
    _write_csv(path, names, found)


def _write_csv(path: Path, names: list[str], found: TopUp) -> None:
    tally = found.before.tally
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["state", *(tally.action_names or range(tally.num_actions))])
        for name, row in zip(names, found.policy.tolist(), strict=True):
            writer.writerow([name, *row])


def page_of_top_up(found: TopUp, command: str) -> Page:
    """Returns the page of a top-up: that of the whole data, headed by what the addition brought."""
    page = page_of_audit(found.after or found.before, command=command)
    head = section("What the addition brings", _what_it_brings(found))
    verdict = Verdict(found.verdict, page.verdict.word, page.verdict.tone)
    return replace(page, kind="A top-up of a data set", verdict=verdict, sections=(head, *page.sections))


def _what_it_brings(found: TopUp) -> Table:
    """Returns coverage before and after, each over the pairs that it is about."""
    before, after, promise = found.before, found.after, found.promise
    total = before.num_steps + found.num_steps
    possible = f"{promise.num_pairs} of {before.num_pairs} pairs"
    rows = [("before", before.num_steps, before.coverage_text, before.visited_worst_ratio),
            ("promised in the long run", total, possible, promise.worst_ratio)]  # fmt: skip
    if after is not None:
        rows.append(("after", after.num_steps, after.coverage_text, after.visited_worst_ratio))
    rows.append(("all of it fresh, in the long run", total, possible, found.fresh_worst_ratio))
    cells = tuple((name, f"{steps:,}", pairs, ratio_words(ratio)) for name, steps, pairs, ratio in rows)
    caption = (
        "What was there, what the best addition gives, what it gave, and what a fresh collection comes to."
    )
    return Table(caption, ("", "steps", "covers", "worst ratio over those"), cells, words=(2,))
