"""When to stop early: at most one of the `--until-` options, and what became of it in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rhocover import checks
from rhocover.errors import InvalidArgumentError
from rhocover.exploring.stopping import CertifiedGap, EveryPair, SmallModelError

Rule = EveryPair | CertifiedGap | SmallModelError
DELTA = 0.05
PREFIX = "until_"


def read_doubt(delta: Any, until: Any = None) -> float:
    """Returns delta in (0, 1); if it is not given that of the stopping rule, or 0.05."""
    given = getattr(until, "delta", DELTA) if delta is None else delta
    return checks.probability(given, "delta", open_ends=True)


def read_until(options: Mapping[str, Any], delta: float) -> Rule | None:
    """Returns the stopping rule that was asked for, if any; refuses two of them."""
    given = {name: value for name, value in options.items() if value is not None}
    if len(given) > 1:
        names = " and ".join(f"`{name}`" for name in given)
        raise InvalidArgumentError(f"{names} do not go together. Pass one of them.")
    for name, value in given.items():
        return _rule(name.removeprefix(PREFIX), value, delta)
    return None


def _rule(name: str, value: Any, delta: float) -> Rule:
    """Returns the rule; what it refuses is said by the option's name."""
    try:
        if name == "visits":
            return EveryPair(value)
        return CertifiedGap(value, delta) if name == "gap" else SmallModelError(value, delta)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(str(error).replace(f"`{name}`", f"`{PREFIX}{name}`")) from error


def stop_sentence(until: Any, num_steps: int, budget: int, *, is_met: bool) -> str:
    """Returns whether a rule was met, and when; "" if there was none."""
    if until is None:
        return ""
    if is_met:
        return f"Stopped after {num_steps:,} of {budget:,} steps: {_wish(until)}."
    return f"The {budget:,} steps ended before this was so: {_wish(until)}."


def _wish(until: Any) -> str:
    """Returns what a rule waits for."""
    if isinstance(until, EveryPair):
        return f"every pair with a weight was visited at least {until.visits:,} times"
    if isinstance(until, CertifiedGap):
        return f"the certified gap is at most {until.gap:g} nats (delta = {until.delta:g})"
    return f"the model error is at most {until.error:g} (delta = {until.delta:g})"
