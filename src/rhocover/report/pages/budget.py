"""The page of a budget: how many steps a goal takes, with the best policy and with a given one."""

from __future__ import annotations

import math
from dataclasses import replace

from rhocover.report import pages
from rhocover.report.pages.plan import visits_of_plan
from rhocover.report.pages.visits import least_section, visits_section
from rhocover.theory import Budget, Effort


def page_of_budget(budget: Budget) -> pages.Page:
    """Returns the page of a budget."""
    seen = visits_of_plan(budget.plan)
    entries = [
        *pages.model_entries(budget.mdp), ("goal", budget.wish), ("dropped", budget.plan.restriction),
    ]  # fmt: skip
    return replace(
        head_of_budget(budget),
        sections=pages.sections(
            pages.section("Steps of each policy", efforts_table(budget), *_notes(budget)),
            visits_section("Where the best policy goes", seen, {"best policy": seen.share}),
            least_section(seen),
            pages.settings_section(entries),
            pages.glossary_section("pair", "mu", "occupancy", "worst ratio", "plan"),
        ),
    )


def head_of_budget(budget: Budget) -> pages.Page:
    """Returns the page of a budget without its sections: the goal, and the steps of the best policy."""
    best = budget.best
    verdict = pages.Verdict(
        f"In the long run the best policy takes {steps_words(best.steps)} steps for {budget.wish}, and no "
        f"policy takes fewer than {budget.lower_bound_steps:,}. What takes longest: {best.bottleneck}."
    )
    numbers = [pages.KeyNumber(steps_words(best.steps), "steps", "In the long run, with the best policy.")]
    if best.expected_steps is not None:
        text = "From the start, until the expected visits are reached."
        numbers.append(pages.KeyNumber(steps_words(best.expected_steps), "expected steps", text))
    if best.sure_steps is not None:
        text = f"Until all visits are reached with probability {1 - budget.delta:g}, certified."
        numbers.append(pages.KeyNumber(steps_words(best.sure_steps), "sure steps", text))
    title = f"{budget.mdp.name or 'the model'}: {budget.wish}"
    return pages.Page("A budget of steps", title, verdict, tuple(numbers))


def efforts_table(budget: Budget) -> pages.Table:
    """Returns the steps that the best policy and the given one take."""
    efforts = {"best policy": budget.best} | ({} if budget.given is None else {"given policy": budget.given})
    rows = tuple((name, *_steps(effort), effort.bottleneck) for name, effort in efforts.items())
    headings = (
        "",
        "in the long run",
        "expected",
        f"with probability {1 - budget.delta:g}",
        "what takes longest",
    )
    return pages.Table("Steps until the goal is reached.", headings, rows, words=(4,))


def _steps(effort: Effort) -> tuple[str, ...]:
    numbers = effort.steps, effort.expected_steps, effort.sure_steps
    return tuple("-" if number is None else steps_words(number) for number in numbers)


def _notes(budget: Budget) -> list[str]:
    return [effort.note for effort in (budget.best, budget.given) if effort is not None]


def steps_words(steps: float) -> str:
    """Returns a number of steps, or "never"."""
    return "never" if math.isinf(steps) else f"{steps:,.0f}"
