"""Reading transition probabilities into canonical sparse rows.

They may be dense `P[s, a, s_next]`, sparse `[S*A, S]`, or rows of listed pairs, of any real type. Duplicates
are added and entries sorted, on a copy. An invalid model is refused with an error that names the pair.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.checks import BoolArray, IntArray, Matrix
from rhocover.errors import Call, InvalidArgumentError, InvalidModelError
from rhocover.printing import count_of

ROW_SUM_TOLERANCE = 1e-8
FLOAT32_ROW_SUM_TOLERANCE = 1e-5  # sums of float32 probabilities are off by S times 6e-8
MAX_NUMBER = 2**31 - 2  # of a state or action; tables have an entry for every number up to the largest


def check_fits_in_memory(name: str, num_bytes: int) -> None:
    """Refuses a dense array larger than this machine's memory, and suggests a sparse one."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return
    if num_bytes > 0.8 * total:
        raise InvalidArgumentError.of(
            name,
            f"as a dense array takes {num_bytes / 2**30:.1f} GiB, this machine has {total / 2**30:.1f} GiB",
            remedy="Pass a scipy.sparse matrix of shape [S*A, S] with num_actions=A.",
        )


def read_transitions(P: Any, num_actions: int | None) -> tuple[Matrix, int, float]:
    """Returns rows `[S*A, S]`, the number of actions, and how far a row sum may be off."""
    if sp.issparse(P):
        rows, tolerance = read_sparse(P, "P")
        return rows, _read_num_actions(rows.shape, num_actions), tolerance
    return _read_dense(P, num_actions)


def _read_dense(P: Any, num_actions: int | None) -> tuple[Matrix, int, float]:
    array = checks.any_array(P, "P")
    if array.ndim != 3 or array.shape[0] != array.shape[2] or 0 in array.shape:
        raise InvalidModelError.of(
            "P",
            "must have shape (S, A, S) with P[s, a, s_next]",
            f"{array.shape}",
            remedy=(
                Call("Pass a sparse matrix of shape [S*A, S] with num_actions=A", "Save it in that shape"),
                ".",
            ),
        )
    if num_actions is not None and checks.integer(num_actions, "num_actions", least=1) != array.shape[1]:
        expected = f"is {num_actions}, but P has {count_of(array.shape[1], 'action')}"
        raise InvalidModelError.of("num_actions", expected)
    check_fits_in_memory("P", 8 * array.size)
    S, A, _ = array.shape
    _check_real(array.dtype, "P")
    rows = sp.csr_array(checks.real_array(array.reshape(S * A, S), "P"))
    return rows, A, _row_tolerance(array.dtype)


def read_sparse(P: Any, name: str) -> tuple[Matrix, float]:
    """Returns a canonical copy; the caller's matrix is not changed."""
    P = P if sp.issparse(P) else checks.any_array(P, name)
    if P.ndim != 2 or 0 in P.shape:
        raise InvalidModelError.of(name, "must be a matrix [pairs, states]", f"shape {P.shape}")
    _check_real(P.dtype, name)
    tolerance = _row_tolerance(P.dtype)
    if sp.issparse(P):
        _check_indices(P, name)
    else:
        check_fits_in_memory(name, 8 * P.size)
        P = checks.real_array(P, name)  # float16 has no sparse form
    with np.errstate(over="ignore"):
        rows = sp.csr_array(P, dtype=np.float64, copy=True)
    rows.sum_duplicates()
    return rows, tolerance


def _check_indices(P: Matrix, name: str) -> None:
    """Refuses a compressed matrix whose indices point outside it: SciPy reads past its arrays there."""
    if P.format not in ("csr", "csc", "bsr"):
        return
    try:  # the check changes what it checks, so it gets a new object around the caller's arrays
        shell = type(P)((P.data, P.indices, P.indptr), shape=P.shape, copy=False)
        shell.check_format(full_check=True)
    except ValueError as error:
        raise InvalidModelError.of(name, f"is not a valid {P.format} matrix: {error}") from error


def _check_real(dtype: np.dtype, name: str) -> None:
    if dtype.kind not in "fiu":
        raise InvalidModelError.of(name, "must hold real numbers", f"dtype {dtype}")


def _row_tolerance(dtype: np.dtype) -> float:
    return ROW_SUM_TOLERANCE if dtype.itemsize >= 8 or dtype.kind in "iu" else (
        FLOAT32_ROW_SUM_TOLERANCE
    )  # fmt: skip


def _read_num_actions(shape: tuple[int, ...], num_actions: int | None) -> int:
    if num_actions is None:
        raise InvalidModelError.of(
            "num_actions", f"is needed with a sparse P of shape {shape}: rows are s*A + a"
        )
    num_actions = checks.integer(num_actions, "num_actions", least=1)
    if shape[0] != shape[1] * num_actions:
        raise InvalidModelError.of(
            "P",
            f"must have shape (S*A, S); {shape} with num_actions={num_actions} has {shape[0]} rows, "
            f"expected {shape[1] * num_actions}",
        )
    return num_actions


def read_available(available: Any, num_states: int, num_actions: int) -> BoolArray:
    """Returns which rows `s*A + a` are pairs, shape `[S*A]`."""
    if available is None:
        return np.ones(num_states * num_actions, bool)
    mask = checks.any_array(available, "available")
    checks.check_shape(mask.shape, "available", (num_states, num_actions))
    if mask.dtype != bool:
        raise InvalidArgumentError.of("available", "must be a boolean array", f"dtype {mask.dtype}")
    if not mask.any(axis=1).all():
        state = int(np.flatnonzero(~mask.any(axis=1))[0])
        raise InvalidModelError(
            f"state {state} has no action; every state needs at least one.", argument="available"
        )
    return mask.ravel()


def read_pairs(states: Any, actions: Any, shape: tuple[int, ...]) -> tuple[IntArray, IntArray]:
    """Returns the state and the action of each row, as checked index vectors."""
    result = []
    for value, name in ((states, "states"), (actions, "actions")):
        array = checks.any_array(value, name)
        checks.check_shape(array.shape, name, (shape[0],))
        if array.dtype.kind not in "iu" or (array < 0).any() or (array > MAX_NUMBER).any():
            raise InvalidArgumentError.of(name, f"must hold whole numbers from 0 to {MAX_NUMBER}")
        result.append(array.astype(np.int64))
    if result[0].max() >= shape[1]:
        raise InvalidArgumentError.of(
            "states", f"must be below {shape[1]} (columns of `transitions`)", f"{result[0].max()}"
        )
    return result[0], result[1]


def check_each_state_once(states: IntArray, actions: IntArray, num_states: int) -> None:
    """Refuses states without a pair and pairs given twice; the pairs come sorted."""
    present = np.append(np.unique(states), -1)
    missing = int(np.flatnonzero(present != np.arange(present.size))[0])
    if missing < num_states:
        raise InvalidModelError(
            f"state {missing} has no action; every state needs at least one pair.", argument="states"
        )
    twice = (np.diff(states) == 0) & (np.diff(actions) == 0)
    if twice.any():
        i = int(np.flatnonzero(twice)[0])
        raise InvalidModelError(f"pair ({states[i]}, {actions[i]}) is given twice.", argument="actions")


def checked_rows(rows: Matrix, states: IntArray, actions: IntArray, tolerance: float) -> Matrix:
    """Returns rows without stored zeros that sum to 1 up to rounding; refuses other rows."""
    _refuse_entries(rows, ~np.isfinite(rows.data), "must be finite", states, actions)
    _refuse_entries(rows, rows.data < 0, "must be non-negative", states, actions)
    with np.errstate(over="ignore"):
        sums = np.asarray(rows.sum(axis=1)).ravel()
    wrong = np.flatnonzero(np.abs(sums - 1) > tolerance)
    if wrong.size:
        i = int(wrong[0])
        raise InvalidModelError(
            f"P[{states[i]}, {actions[i]}] sums to {sums[i]:.9g}, expected 1 (tolerance {tolerance:g}).",
            argument="P",
            remedy=f"{wrong.size - 1} more rows are wrong, too." if wrong.size > 1 else "",
        )
    rows.eliminate_zeros()
    off = np.abs(sums - 1) > 1e-14  # normalised rows are not changed by a bit
    if off.any():
        rows.data /= np.repeat(np.where(off, sums, 1.0), np.diff(rows.indptr))
    return rows


def _refuse_entries(rows: Matrix, bad: BoolArray, rule: str, states: IntArray, actions: IntArray) -> None:
    if bad.any():
        place = int(np.flatnonzero(bad)[0])
        i = int(np.searchsorted(rows.indptr, place, side="right")) - 1
        raise InvalidModelError.of(
            "P", f"{rule}", f"P[{states[i]}, {actions[i]}, {rows.indices[place]}] = {rows.data[place]:g}"
        )
