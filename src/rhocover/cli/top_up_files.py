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
    rows = [("before", found.before.num_steps, found.before.worst_ratio),
            ("promised", found.before.num_steps + found.num_steps, found.promise.worst_ratio)]  # fmt: skip
    if found.after is not None:
        rows.append(("after", found.after.num_steps, found.after.worst_ratio))
    rows.append(("all of it fresh", found.before.num_steps + found.num_steps, found.fresh_worst_ratio))
    cells = tuple((name, f"{steps:,}", f"{ratio:.4g}") for name, steps, ratio in rows)
    caption = "Coverage before and after, what was promised, and what a fresh collection could come to."
    head = section("What the addition brings", Table(caption, ("", "steps", "worst ratio"), cells))
    verdict = Verdict(found.verdict, page.verdict.word, page.verdict.tone)
    return replace(page, kind="A top-up of a data set", verdict=verdict, sections=(head, *page.sections))
