"""Supernodes that swallow others store zeros, and no more of them than the rules allow."""

from __future__ import annotations

import numpy as np
import pytest
from test_factorisation import FAMILIES, eliminated, pattern_of, stored

from rhocover.linalg import symbolic
from rhocover.linalg.dissection import nested_dissection
from rhocover.linalg.symbolic import analyse

CASES = [
    pytest.param(family, n, seed, id=f"{family.__name__} {n}")
    for family in FAMILIES
    for seed, n in enumerate((40, 90, 160))
]


def zeros_of(pattern, shape):
    """Returns (width, entries, zeros) of every supernode."""
    filled, held = eliminated(pattern, shape.order), stored(shape)
    for low, high in zip(shape.first[:-1], shape.first[1:], strict=True):
        own = held[:, low:high]
        yield high - low, int(own.sum()), int((own & ~filled[:, low:high]).sum())


@pytest.mark.parametrize(("family", "n", "seed"), CASES)
def test_a_swallowing_supernode_is_narrow_and_half_full_or_has_few_zeros(family, n, seed, monkeypatch):
    monkeypatch.setattr(symbolic, "SUBTREE_COLUMNS", 0)  # no subtree is taken whole
    rng = np.random.default_rng(seed)
    pattern = pattern_of(family(n, rng), n, rng)
    shape = analyse(pattern, nested_dissection(pattern))
    for width, entries, zeros in zeros_of(pattern, shape):
        assert zeros <= (0.5 if width <= symbolic.RELAXED_COLUMNS else symbolic.RELAXED_ZEROS) * entries


@pytest.mark.parametrize(("family", "n", "seed"), CASES)
def test_a_subtree_of_few_columns_is_one_supernode(family, n, seed, monkeypatch):
    monkeypatch.setattr(symbolic, "RELAXED_COLUMNS", 0)
    monkeypatch.setattr(symbolic, "RELAXED_ZEROS", 0)
    rng = np.random.default_rng(seed)
    pattern = pattern_of(family(n, rng), n, rng)
    shape = analyse(pattern, nested_dissection(pattern))
    filled = eliminated(pattern, shape.order)
    parent = [
        int(rows[0]) if rows.size else -1
        for rows in (np.flatnonzero(filled[j + 1 :, j]) + j + 1 for j in range(n))
    ]
    size = np.ones(n, int)
    for j, above in enumerate(parent):
        if above >= 0:
            size[above] += size[j]
    owner = np.repeat(np.arange(shape.first.size - 1), np.diff(shape.first))
    for j, above in enumerate(parent):
        if above >= 0 and size[above] <= symbolic.SUBTREE_COLUMNS:
            assert owner[j] == owner[above]


# Measured: how many blocks and entries a shuffled grid of 30 x 30 has with the usual rules, without whole subtrees,
# and with neither. Integers, so they are the same everywhere; a rule that swallows more or less shows.
GOLDEN = {"usual": (22, 38_047), "no subtrees": (156, 21_987), "nothing swallowed": (598, 14_535)}


@pytest.mark.parametrize("rules", GOLDEN)
def test_swallowing_saves_blocks_on_a_grid(rules, monkeypatch):
    if rules != "usual":
        monkeypatch.setattr(symbolic, "SUBTREE_COLUMNS", 0)
    if rules == "nothing swallowed":
        monkeypatch.setattr(symbolic, "RELAXED_COLUMNS", 0)
        monkeypatch.setattr(symbolic, "RELAXED_ZEROS", 0)
    grid = pattern_of(FAMILIES[2](900, None), 900, np.random.default_rng(0))
    shape = analyse(grid, nested_dissection(grid))
    assert (shape.first.size - 1, shape.num_entries) == GOLDEN[rules]
