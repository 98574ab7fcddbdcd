"""Solves with K diag(w) K', the one linear system of a Newton step: dense when small, sparse when not.

Both back ends scale the matrix to a unit diagonal, add a relative 1e-14 to it (the system may be
singular to working precision near a face of the polytope), and refine against the matrix itself, so that
the addition does not bias the answer. If a pivot still fails, the addition is increased.

**Borders** are a few dense rows and columns around K diag(W) K', eliminated by their Schur complement:

    [K W K'   C] [nu]   [flow ]
    [  C'     D] [u ] = [right]

C holds the columns of the mass multiplier and of theta, if those are unknown.

**BLAS uses one thread**: blocks here are small, and the bits do not depend on what else the machine does. On
two busy cores the two-thread BLAS took 13 times as long for one factorisation: its threads wait for each
other at every small block. The number of threads belongs to the whole process (with OpenMP, to each thread).
If several threads plan at the same time, each sets it to one, and the last to end restores the number that
the first found.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
from scipy.linalg import get_lapack_funcs
from threadpoolctl import ThreadpoolController

from rhocover.checks import FloatArray, Matrix
from rhocover.errors import SolverError

dpotrf, dpotrs = get_lapack_funcs(("potrf", "potrs"), dtype=np.float64)

DENSE_ROWS = 200  # up to this size a dense factorisation is no slower; at 400 a grid is twice as fast sparse
DENSE_SHARE = 0.25  # a sparse factor with more of the dense triangle than this is slower than dense
REGULARISATION = (1e-14, 1e-12, 1e-10, 1e-8)
REFINEMENTS = 12
ENOUGH = 1e-12  # residual over right side; later Newton steps correct the rest


class NotPositiveDefiniteError(SolverError):
    """A pivot of the factorisation is not positive."""


class Backend(Protocol):
    """Factorises K diag(w) K' scaled to a unit diagonal plus `extra`, and solves with it."""

    def factorise(self, w: FloatArray, extra: float) -> None: ...  # noqa: D102

    def solve(self, right: FloatArray) -> FloatArray: ...  # noqa: D102


@dataclass(frozen=True, eq=False)
class Solution:
    """x with K diag(w) K'x = right, and `lift` = K'x.

    The lift is kept because K'x, computed from x, cancels: where w is 1e8 the rounding of x alone would leave
    a residual of 1e-9. The residual refers to the lift, and so must its users.
    """

    x: FloatArray
    lift: FloatArray


class NormalEquations:
    """Factorises K diag(w) K' for one fixed K and many w; `solve` refines to working precision.

    `seconds` adds up the time spent in each stage.
    """

    def __init__(self, K: Matrix, KT: Matrix | None = None, groups: tuple[int, int] | None = None) -> None:
        began = time.perf_counter()
        self._K = K
        self._KT = KT if KT is not None else K.T if isinstance(K, np.ndarray) else K.T.tocsr()
        self._backend = choose_backend(K, groups)
        self._w = np.ones(K.shape[1])
        self.seconds = {"analyse": time.perf_counter() - began, "factorise": 0.0, "solve": 0.0}

    @property
    def name(self) -> str:
        """Which back end was chosen."""
        return type(self._backend).__name__

    def factorise(self, w: FloatArray) -> None:
        """Factorises for new weights; raises `SolverError` if no allowed addition makes pivots positive."""
        began = time.perf_counter()
        self._w = w
        for extra in REGULARISATION:
            try:
                self._backend.factorise(w, extra)
                break
            except NotPositiveDefiniteError:
                continue
        else:
            raise SolverError("the Newton system is singular to working precision.")
        self.seconds["factorise"] += time.perf_counter() - began

    def solve(self, right: FloatArray, *, refine: bool = True) -> Solution:
        """Returns the solution; `refine` corrects for the addition to the diagonal.

        The factor is that of a slightly different matrix, so it serves as the preconditioner of a
        conjugate-gradient iteration: near a face of the polytope it finds one by one the few directions in
        which plain refinement would hardly converge.
        """
        began = time.perf_counter()
        x = self._backend.solve(right)
        solution = Solution(x, self._KT @ x)
        solution = self._refined(right, solution) if refine else solution
        self.seconds["solve"] += time.perf_counter() - began
        return solution

    def solve_columns(self, right: FloatArray) -> FloatArray:
        """Returns the solutions for all columns of `right`, `[rows, columns]`, not refined."""
        began = time.perf_counter()
        if isinstance(self._backend, DenseBackend):
            found = self._backend.solve(right)
        else:
            found = np.stack([self._backend.solve(column) for column in right.T], axis=1)
        self.seconds["solve"] += time.perf_counter() - began
        return found

    def _refined(self, right: FloatArray, best: Solution) -> Solution:
        target = ENOUGH * float(np.abs(right).max(initial=0.0))
        x, lift = best.x, best.lift
        residual = right - self._K @ (self._w * lift)
        smallest = float(np.abs(residual).max(initial=0.0))
        direction, last = np.zeros_like(x), np.inf
        for _ in range(REFINEMENTS):
            if smallest <= target:
                break
            step = self._backend.solve(residual)
            product = float(residual @ step)
            direction = step + product / last * direction
            rise = self._KT @ direction
            curvature = float(rise @ (self._w * rise))
            if not (product > 0 and curvature > 0):
                break
            x, lift = x + product / curvature * direction, lift + product / curvature * rise
            residual = right - self._K @ (self._w * lift)
            size, last = float(np.abs(residual).max()), product
            if size < smallest:
                best, smallest = Solution(x, lift), size
        return best


def choose_backend(K: Matrix, groups: tuple[int, int] | None = None) -> Backend:
    """Returns the back end for this K: by size, then by how much a sparse factor would fill in."""
    if K.shape[0] <= DENSE_ROWS:
        return DenseBackend(K)
    from rhocover.linalg.multifrontal import SparseBackend

    sparse = SparseBackend.try_analyse(K, DENSE_SHARE, groups)
    return DenseBackend(K) if sparse is None else sparse


class DenseBackend:
    """LAPACK's Cholesky on the full matrix."""

    def __init__(self, K: Matrix) -> None:
        self._K = K
        self._is_array = isinstance(K, np.ndarray)
        self._KT = K.T if self._is_array else K.T.tocsr()

    def factorise(self, w: FloatArray, extra: float) -> None:
        """Factorises for these weights."""
        if self._K.shape[0] == 0:  # one state: there are no equations
            return
        M = self._product(w)
        diagonal = M.diagonal().copy()
        if not (np.isfinite(diagonal).all() and (diagonal > 0).all()):
            raise NotPositiveDefiniteError("a diagonal entry is not positive.")
        self._scale = 1 / np.sqrt(diagonal)
        M *= self._scale[:, None]
        M *= self._scale
        M.flat[:: M.shape[0] + 1] += extra
        self._factor, info = dpotrf(M.T, lower=1, clean=0, overwrite_a=1)
        if info != 0:
            raise NotPositiveDefiniteError(f"pivot {info} is not positive.")

    def _product(self, w: FloatArray) -> FloatArray:
        if self._is_array:
            return (self._K * w) @ self._KT
        scaled = self._K.copy()
        scaled.data = scaled.data * w[scaled.indices]
        return (scaled @ self._KT).toarray()

    def solve(self, right: FloatArray) -> FloatArray:
        """Returns one triangular solve, or one per column, not refined."""
        if self._K.shape[0] == 0:
            return right
        scale = self._scale if right.ndim == 1 else self._scale[:, None]
        return scale * dpotrs(self._factor, scale * right, lower=1)[0]


# Borders.


class Borders:
    """Solves the bordered system; `set` takes new borders after each factorisation."""

    def __init__(self, equations: NormalEquations, K: Matrix) -> None:
        self._equations = equations
        self._K = K
        self.W = np.ones(K.shape[1])

    def set(self, columns: FloatArray, corner: FloatArray) -> None:
        """Takes C and D, and solves for the columns of C."""
        self._columns, self._corner = columns, corner
        solutions = [self._equations.solve(column) for column in columns.T]
        self._x = np.array([solution.x for solution in solutions]).reshape(len(solutions), self._K.shape[0]).T
        self._lift = (
            np.array([solution.lift for solution in solutions]).reshape(len(solutions), self._K.shape[1]).T
        )
        self._schur = corner - columns.T @ self._x

    def solve(self, flow: FloatArray, right: list[float], refine: bool) -> tuple[Solution, FloatArray]:
        """Returns (nu and its lift, u); with `refine` corrected once as a whole."""
        first, unknowns = self._eliminate(flow, np.array(right))
        if not refine:
            return first, unknowns
        image = self._K @ (self.W * first.lift)
        more, extra = self._eliminate(
            flow - image - self._columns @ unknowns,
            right - self._columns.T @ first.x - self._corner @ unknowns,
        )
        return Solution(first.x + more.x, first.lift + more.lift), unknowns + extra

    def _eliminate(self, flow: FloatArray, right: FloatArray) -> tuple[Solution, FloatArray]:
        inner = self._equations.solve(flow)
        unknowns = np.asarray(np.linalg.solve(self._schur, right - self._columns.T @ inner.x), np.float64)
        x = inner.x - self._x @ unknowns
        return Solution(x, inner.lift - self._lift @ unknowns), unknowns


# BLAS on one thread.

_lock = threading.Lock()
_found: list[list[int]] = []  # one entry per running plan: the numbers of threads before the first


@cache
def _libraries() -> list[Any]:
    """Returns the loaded BLAS libraries; finding them takes milliseconds, so it is done once."""
    import scipy.linalg  # noqa: F401  loads SciPy's own BLAS before the search

    return ThreadpoolController().select(user_api="blas").lib_controllers


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Returns a context in which BLAS uses one thread; the last to end restores the old setting."""
    libraries = _libraries()
    with _lock:
        _found.append(_found[0] if _found else [library.get_num_threads() for library in libraries])
        for library in libraries:
            set_threads(library, 1)
    try:
        yield
    finally:
        with _lock:
            before = _found.pop()
            for library, number in zip(libraries, before, strict=True):
                if not _found or getattr(library, "threading_layer", "") == "openmp":
                    set_threads(library, number)


def set_threads(library: Any, number: int) -> None:
    """Sets the number of threads of one library, whichever thread set it last.

    Newer versions of threadpoolctl let only the thread that set it first change OpenBLAS, as long as it
    lives: the last plan to end could not restore anything.
    """
    getattr(library, "_real_set_num_threads", library.set_num_threads)(number)
