"""Damaged and hostile files of every kind that is read: some of all those that `tests/fuzz` knows, with a new seed."""

from __future__ import annotations

from functools import cache
from typing import Any

from found import Found, Rng
from rounds import GROUPS, one_round

ROUNDS, SHARE = 0.5, 0.3  # a case is then some hundred files of one group, and half a minute
MADE_TO_HURT, AT_ONCE = "made to hurt", 24  # of the kinds that are not damaged but made so, as many a case
MOST_MB = 2048  # that reading one of them may take


def files(rng: Rng, number: int) -> Found:
    """Reads some damaged files of one group."""
    group, seed = (*GROUPS, MADE_TO_HURT)[number % (len(GROUPS) + 1)], int(rng.integers(2**31))
    result = Found("hostile files", f"{group}, seed {seed}", tried=0)
    if group == MADE_TO_HURT:
        return _made_to_hurt(result, rng, seed)
    for target in one_round(group, seed, ROUNDS, SHARE):
        result.tried += target["count"]
        for case in target["wrong"]:
            result.add(f"{target['target']}, {case['case']}: {case['wrong']}")
    return result


def _made_to_hurt(result: Found, rng: Rng, seed: int) -> Found:
    """Reads some files of the kinds that are made to hurt, each in a copy of this process."""
    kinds = _kinds()
    for name in rng.choice(list(kinds.KINDS), AT_ONCE, replace=False):
        came = kinds.attack_apart(str(name), seed)
        result.tried += 1
        if came["said"].startswith("wrong"):
            result.add(f"{name}: {came['said']}")
        if came["MB"] > MOST_MB:
            result.add(f"{name}: took {came['MB']} MB")
    return result


@cache
def _kinds() -> Any:
    import hostile_kinds

    hostile_kinds.warm_up()
    return hostile_kinds
