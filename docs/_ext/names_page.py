"""The list of all public names with what each of them is, from the first lines of their docstrings."""

from __future__ import annotations

import inspect
from typing import Any

import rhocover

GROUPS = {
    "Models": ("MDP", "Layout", "envs", "weights"),
    "Planning": (
        "plan", "Plan", "at_most", "at_least", "within", "Condition", "best", "tradeoff", "Tradeoff",
        "plan_agents", "AgentsPlan", "plan_features", "FeaturePlan", "Coverage", "Occupancies",
        "budget", "Budget",
    ),
    "Exploring": (
        "explore", "resume", "Run", "Feedback", "Tracking", "Stationary", "Algorithm1", "Quadratic", "Power",
        "Constant", "Doubling", "LineSearch", "Learned", "EveryPair", "CertifiedGap", "SmallModelError",
        "learning", "baselines",
    ),
    "Environments and data sets": (
        "collect", "Collection", "audit", "Audit", "top_up", "TopUp", "Bins", "QuantileBins",
        "Net", "SimHash", "ImageCells",
        "RandomFeatures", "LearnedFeatures", "ReadState", "RepeatAction",
    ),
    "Rewards": (
        "CoverageReward", "CountVisits", "CoverageRewardVector", "CountVisitsVector", "DensityReward",
        "Neighbours", "Ellipse", "CoverageCallback", "CoverageVecEnv", "CoverageReplayBuffer",
    ),
    "Experiments": ("compare", "Comparison", "reproduce", "engines"),
    "Errors": ("errors",),
}  # fmt: skip
PAGES = {
    "envs": "models.md#named-environments", "weights": "models.md#weights", "learning": "learning.md",
    "baselines": "baselines.md", "errors": "errors.md",
}  # fmt: skip


def names() -> str:
    """Returns a table for each group; a public name that no group has is an error."""
    missing = set(rhocover.__all__) - {"__version__"} - {name for group in GROUPS.values() for name in group}
    if missing:
        raise LookupError(f"docs/_ext/names_page.py: no group has {sorted(missing)}")
    return "\n\n".join(_table(title, group) for title, group in GROUPS.items())


def _table(title: str, group: tuple[str, ...]) -> str:
    rows = [f"| {_link(name)} | {first_sentence(getattr(rhocover, name))} |" for name in group]
    return "\n".join([f"**{title}**", "", "| | |", "|:--|:--|", *rows])


def _link(name: str) -> str:
    return f"[`rc.{name}`]({PAGES[name]})" if name in PAGES else f"`rc.{name}`"


def first_sentence(thing: Any) -> str:
    """Returns the first paragraph of a docstring as one cell of a table."""
    text = " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())
    return text.replace("|", "\\|").replace("*", "\\*")
