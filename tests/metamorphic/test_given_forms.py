"""The form in which numbers are given changes nothing: memory order, types, lists, sparse formats, files.

Bit by bit, because the same numbers are read.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import scipy.sparse as sp

from frames import Frame
from rhocover import MDP, Coverage, Occupancies, audit, budget, explore, plan, weights

QUARTERS = np.array(  # exact in every floating-point type
    [[[0.25, 0.75, 0.0], [0.0, 0.5, 0.5]], [[0.5, 0.0, 0.5], [1.0, 0.0, 0.0]], [[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]]]
)  # fmt: skip
MOVES = np.eye(3)[[[1, 0], [2, 1], [0, 2]]]  # zeros and ones, exact as whole numbers
ARRAY_FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "Fortran order": np.asfortranarray,
    "a list": lambda array: array.tolist(),
    "a tuple": lambda array: tuple(array.tolist()),
    "float32": lambda array: array.astype(np.float32),
    "float16": lambda array: array.astype(np.float16),
    "long double": lambda array: array.astype(np.longdouble),
    "big-endian": lambda array: array.astype(">f8"),
    "a view with gaps": lambda array: np.repeat(array, 2, axis=-1)[..., ::2],
    "reversed twice": lambda array: array[::-1].copy()[::-1],
    "read-only": lambda array: _locked(array.copy()),
    "a subclass": lambda array: array.view(np.matrix) if array.ndim == 2 else array.view(np.recarray),
}
WHOLE_FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    kind.__name__: lambda array, kind=kind: array.astype(kind)
    for kind in (np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64)
}
SPARSE_FORMS = ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")


def _locked(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


@pytest.mark.parametrize("form", ARRAY_FORMS)
def test_transitions_in_any_form_are_the_same_model(form):
    assert MDP(ARRAY_FORMS[form](QUARTERS)).fingerprint == MDP(QUARTERS).fingerprint


@pytest.mark.parametrize("form", WHOLE_FORMS)
def test_whole_probabilities_in_any_type_are_the_same_model(form):
    assert MDP(WHOLE_FORMS[form](MOVES)).fingerprint == MDP(MOVES).fingerprint


@pytest.mark.parametrize("form", SPARSE_FORMS)
@pytest.mark.parametrize("kind", [sp.coo_array, sp.coo_matrix])
def test_sparse_transitions_in_any_format_are_the_same_model(form, kind):
    rows = kind(QUARTERS.reshape(6, 3)).asformat(form)
    mdp = MDP(rows, num_actions=2)
    assert mdp.fingerprint == MDP(QUARTERS).fingerprint
    listed = MDP.from_pairs(rows, [0, 0, 1, 1, 2, 2], [0, 1] * 3)
    assert listed.fingerprint == mdp.fingerprint


def test_entries_of_a_sparse_matrix_may_come_in_parts_and_in_any_order():
    whole = sp.coo_array(QUARTERS.reshape(6, 3))
    row, column = (np.concatenate([part, part])[::-1] for part in whole.coords)
    halves = np.concatenate([whole.data, whole.data])[::-1] / 2
    assert MDP(sp.coo_array((halves, (row, column)), shape=(6, 3)), num_actions=2).fingerprint == (
        MDP(QUARTERS).fingerprint
    )


def test_pairs_may_come_in_any_order():
    order = np.random.default_rng(0).permutation(6)
    rows = sp.csr_array(QUARTERS.reshape(6, 3)[order])
    listed = MDP.from_pairs(rows, np.array([0, 0, 1, 1, 2, 2])[order], np.array([0, 1] * 3)[order])
    assert listed.fingerprint == MDP(QUARTERS).fingerprint


@pytest.mark.parametrize("form", ARRAY_FORMS)
@pytest.mark.parametrize("rho", [0, 2, np.inf])
def test_weights_in_any_form_give_the_same_plan(form, rho):
    mdp, mu = MDP(QUARTERS), np.array([[1.0, 2.0], [0.5, 3.0], [1.5, 0.25]])
    best = plan(mdp, rho, mu)
    assert plan(mdp, rho, ARRAY_FORMS[form](mu)).occupancy.tobytes() == best.occupancy.tobytes()
    assert plan(mdp, rho, ARRAY_FORMS[form](mu.ravel())).occupancy.tobytes() == best.occupancy.tobytes()


@pytest.mark.parametrize("form", WHOLE_FORMS)
def test_whole_weights_in_any_type_give_the_same_plan_and_coverage(form):
    mdp, mu = MDP(QUARTERS), np.array([[1, 2], [5, 3], [4, 7]])
    cast = WHOLE_FORMS[form](mu)
    assert plan(mdp, 2, cast).occupancy.tobytes() == plan(mdp, 2, mu).occupancy.tobytes()
    assert Coverage(2, cast).divergence(mu / mu.sum()) == Coverage(2, mu).divergence(mu / mu.sum())
    assert weights.target(mdp, cast).tobytes() == weights.target(mdp, mu).tobytes()


@pytest.mark.parametrize("start", [1, np.int8(1), [0, 1, 0], np.array([0, 1, 0], np.uint8), (0.0, 1.0, 0.0)], ids=repr)  # fmt: skip
def test_a_start_in_any_form_is_the_same_start(start):
    mdp = MDP(QUARTERS)
    expected = plan(mdp, 2, discount=0.9, start=np.array([0.0, 1.0, 0.0]))
    assert plan(mdp, 2, discount=0.9, start=start).occupancy.tobytes() == expected.occupancy.tobytes()
    run, same = (explore(mdp, 2, 100, start=begin) for begin in (start, 1))
    assert run.visits.tobytes() == same.visits.tobytes()


@pytest.mark.parametrize("kind", [int, np.int16, np.uint64, np.int64])
def test_whole_numbers_of_any_type_are_the_same_numbers(kind):
    mdp = MDP(QUARTERS, start=0)
    assert plan(mdp, kind(2), horizon=kind(3)).divergence == plan(mdp, 2.0, horizon=3).divergence
    one, two = (
        explore(mdp, 2, kind(100), seed=kind(3), num_chains=kind(2)),
        explore(mdp, 2, 100, seed=3, num_chains=2),
    )
    assert one.visits.tobytes() == two.visits.tobytes()
    assert budget(mdp, visits=kind(7)).steps == budget(mdp, visits=7).steps


@pytest.mark.parametrize("form", ARRAY_FORMS)
def test_an_occupancy_in_any_form_is_the_same_member(form):
    mdp = MDP(QUARTERS)
    members = Occupancies.average(mdp)
    policy = np.array([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]])
    expected = members.from_policy(policy)
    assert members.from_policy(ARRAY_FORMS[form](policy)).tobytes() == expected.tobytes()


# --- data ----------------------------------------------------------------------------------------------

STATES = np.array([0, 1, 2, 0, 1, 1, 2, 0, 1, 2])
ACTIONS = np.array([0, 1, 0, 1, 0, 1, 1, 0, 0, 1])
NEXT = np.array([1, 2, 0, 1, 1, 2, 0, 1, 2, 0])
DONE = np.array([False] * 4 + [True] + [False] * 5)
DATA_FORMS: dict[str, Callable[[Any], Any]] = {
    "a tuple": lambda folder: (STATES, ACTIONS, NEXT, DONE),
    "lists": lambda folder: tuple(column.tolist() for column in (STATES, ACTIONS, NEXT, DONE)),
    "text": lambda folder: (STATES.astype(str), ACTIONS, NEXT.astype(str), DONE),
    "small types": lambda folder: (STATES.astype(np.int8), ACTIONS.astype(np.uint8), NEXT.astype(np.uint64), DONE.astype(int)),
    "five columns": lambda folder: (STATES, ACTIONS, NEXT, DONE, np.zeros(10, bool)),
    "a mapping": lambda folder: _columns(),
    "a data frame": lambda folder: Frame(**_columns()),
    "NPZ": lambda folder: _saved(folder / "data.npz", lambda path: np.savez(path, **_columns())),
    "CSV": lambda folder: _saved(folder / "data.csv", _write_csv),
    "Parquet": lambda folder: _saved(folder / "data.parquet", lambda path: parquet.write_table(pa.table(_columns()), path)),
}  # fmt: skip


def _columns() -> dict[str, np.ndarray]:
    return {"s": STATES, "a": ACTIONS, "s_next": NEXT, "done": DONE}


def _saved(path: Any, write: Callable[[Any], None]) -> Any:
    write(path)
    return path


def _write_csv(path: Any) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(_columns())
        writer.writerows(zip(*(column.tolist() for column in _columns().values()), strict=True))


@pytest.mark.parametrize("form", DATA_FORMS)
def test_data_in_any_form_has_the_same_audit(form, tmp_path):
    expected = audit((STATES, ACTIONS, NEXT, DONE))
    found = audit(DATA_FORMS[form](tmp_path))
    assert found.counts.tobytes() == expected.counts.tobytes()
    assert found.divergence == expected.divergence
    assert found.verdict == expected.verdict
    assert str(found.certificate) == str(expected.certificate)
