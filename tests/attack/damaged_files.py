"""Damaged and hostile files of every kind that is read: some of all those that `tests/fuzz` knows, with a new seed."""

from __future__ import annotations

from found import Found, Rng
from rounds import GROUPS, one_round

ROUNDS, SHARE = 0.5, 0.3  # a case is then some hundred files of one group, and half a minute


def files(rng: Rng, number: int) -> Found:
    """Reads some damaged files of one group."""
    group, seed = GROUPS[number % len(GROUPS)], int(rng.integers(2**31))
    result = Found("hostile files", f"{group}, seed {seed}", tried=0)
    for target in one_round(group, seed, ROUNDS, SHARE):
        result.tried += target["count"]
        for case in target["wrong"]:
            result.add(f"{target['target']}, {case['case']}: {case['wrong']}")
    return result
