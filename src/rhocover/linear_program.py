"""Linear programs max c'x over {matrix x = right_side, x >= lower}, solved by HiGHS and checked here.

The constraints are built once; every `solve` has new costs. HiGHS is fast, but it can fail in ways that a
caller would not notice. Each guard here is against one of them:

- a NaN cost never returns and an infinite one gives zeros: costs are checked before HiGHS sees them;
- costs beyond 1e13 fail erratically: they are divided by their largest magnitude;
- with sum x = 1 it may call a point optimal although entries are as far below zero as others are above:
  x is multiplied by a power of two no less than the number of variables, so that entries are near 1;
- coefficients below 1e-9 are dropped silently: the threshold is lowered to 1e-12;
- on 1,000-state grids with costs spread over 1e8 and tolerances of 1e-10 it gave up in 5 of 28 solves,
  once calling a feasible program infeasible: several methods are tried in turn, and "infeasible" is
  accepted only if no method contradicts it;
- presolve removes equations that depend on others, and the clean-up after it can end at a singular basis
  with no status at all, whatever the method: the last method runs without presolve;
- it reports status and point separately: a point is read only at status Optimal, and equations and
  bounds are computed again from what came back.

Unless `keep_basis=True`, a solve starts cold, so that its result depends on its costs alone, bit for bit,
whatever was solved before: this lets an interrupted run be resumed. Keeping the basis does not always pay:
primal simplex from the last basis took 4 to 8 times less time than a cold solve on random models, 3 times
more on a 16×16 grid, and did not finish at all at 32×32. Hence this rule: a solve from the last basis may
take no more iterations than the last cold solve (plus 32); if these are not enough, the solve starts cold,
and the next 1, 3, 7, ... solves do not try the basis. With costs that change by 1/30 to 1/300 from one solve
to the next, `keep_basis=True` was then 1.6 to 4.7 times faster than `False` on random models of 30 to 300
states, 4 to 20 times on chains of 50 to 500, and 1.1 to 1.4 times slower on grids.

Markov decision processes are not used in this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, Matrix, frozen
from rhocover.errors import InvalidArgumentError, SolverError

FEASIBILITY = 1e-11  # largest violation of an equation or a bound; those of HiGHS are 1e-15 to 1e-12


def _method(solver: str, tolerance: float, *, strategy: int = 1, presolve: str = "choose") -> dict[str, Any]:
    """Returns HiGHS's options; tolerances apply to x times 2^14 or more, so 1e-8 is 1e-12 in x."""
    return {
        "solver": solver, "simplex_strategy": strategy, "presolve": presolve,
        "primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance,
    }  # fmt: skip


_COLD = {  # in the order in which they are tried; at 1e-10 HiGHS fails more often
    "dual simplex": _method("simplex", 1e-9),
    "looser simplex": _method("simplex", 1e-8),
    "interior point": _method("ipm", 1e-8),
    "simplex without presolve": _method("simplex", 1e-9, presolve="off"),
}
_FROM_BASIS = _method("simplex", 1e-9, strategy=4)


class InfeasibleProgramError(SolverError):
    """No point satisfies the equations and the bounds."""


@dataclass(frozen=True, eq=False)
class LPSolution:
    """An optimal point, checked, with its row multipliers.

    `dual` y certifies it: c'x <= right_side'y + lower'(c - matrix'y) whenever matrix'y >= c.
    """

    x: FloatArray
    value: float
    dual: FloatArray
    iterations: int


class LinearProgram:
    """max c'x over {matrix x = right_side, x >= lower} for one set of constraints and many costs.

    >>> import scipy.sparse as sp
    >>> program = LinearProgram(sp.csr_array([[1.0, 1.0]]), [1.0], 0.0)
    >>> program.solve([1.0, 3.0]).value
    3.0
    """

    def __init__(self, matrix: Matrix, right_side: Any, lower: Any, *, keep_basis: bool = False) -> None:
        self.matrix = matrix.tocsr()
        num_rows, num_columns = matrix.shape
        self.right_side = checks.float_array(right_side, "right_side", (num_rows,))
        lower = checks.float_array(lower, "lower")
        self.lower = np.broadcast_to(lower, num_columns) if lower.ndim == 0 else lower
        checks.check_shape(self.lower.shape, "lower", (num_columns,))
        checks.float_array(matrix.data, "matrix.data")
        self.keep_basis = keep_basis
        self.scale = float(2 ** max(14, int(np.ceil(np.log2(max(num_columns, 1))))))
        self._program = _constraints(matrix, self.scale * self.right_side, self.scale * self.lower)
        self._highs = _solver(self._program)
        self._columns = np.arange(num_columns, dtype=np.int32)
        self._last_cold = 0  # iterations that the last cold solve took
        self._waits = _Backoff(ready=False)

    def solve(self, costs: Any) -> LPSolution:
        """Returns an optimal point for `costs` `[N]`; SolverError if none was found and verified."""
        costs = checks.float_array(costs, "costs", (self.matrix.shape[1],))
        size = float(np.abs(costs).max(initial=0.0)) or 1.0
        found = self._from_basis(costs / size) if self.keep_basis else None
        x, dual, iterations = found or self._from_nothing(costs / size)
        return LPSolution(frozen(x), float(costs @ x), frozen(size * dual), iterations)

    def _from_basis(self, costs: FloatArray) -> tuple[FloatArray, FloatArray, int] | None:
        """Returns the solution from the last basis, or None if it takes more iterations than a cold solve."""
        if not self._waits.try_now():
            return None
        self._highs.changeColsCost(self._columns.size, self._columns, costs)
        self._run(_FROM_BASIS, self._last_cold + 32)
        found, _ = self._verified()
        self._waits.report(found is not None)
        return found

    def _from_nothing(self, costs: FloatArray) -> tuple[FloatArray, FloatArray, int]:
        verdicts = {}
        self._program.col_cost_ = costs
        for name, method in _COLD.items():
            self._highs.passModel(self._program)  # clearSolver() keeps some state: last digits differ
            self._run(method, 1000 + 5 * self.matrix.shape[0])  # solves that end take up to 4 per row
            found, verdict = self._verified()
            if found is not None:
                self._last_cold = found[2]
                self._waits.ready = True
                return found
            verdicts[name] = verdict
        raise _failure(verdicts)

    def _run(self, method: dict[str, Any], iteration_limit: int) -> None:
        for name, value in (method | {"simplex_iteration_limit": iteration_limit}).items():
            self._highs.setOptionValue(name, value)
        self._highs.run()

    def _verified(self) -> tuple[tuple[FloatArray, FloatArray, int] | None, str]:
        """Returns (x, dual, iterations) if the status is Optimal and the point is feasible, and a verdict."""
        verdict = self._highs.modelStatusToString(self._highs.getModelStatus())
        if verdict != "Optimal":
            return None, verdict
        solution, info = self._highs.getSolution(), self._highs.getInfo()
        raw = np.array(solution.col_value) / self.scale
        x = np.maximum(raw, self.lower)
        missed = max(self._residual(x), float((x - raw).max(initial=0.0)))
        if not missed <= FEASIBILITY * max(1.0, float(np.abs(self.right_side).max())):
            return None, f"Optimal, but {missed:.1e} off the constraints"
        iterations = max(info.simplex_iteration_count, 0) + max(info.ipm_iteration_count, 0)
        return (x, np.array(solution.row_dual), iterations), verdict

    def _residual(self, x: FloatArray) -> float:
        return float(np.abs(self.matrix @ x - self.right_side).max())


@dataclass
class _Backoff:
    """Decides when to try again: after each failure it waits twice as long."""

    ready: bool
    waiting: int = 0
    patience: int = 1

    def try_now(self) -> bool:
        self.waiting = max(0, self.waiting - 1)
        return self.ready and self.waiting == 0

    def report(self, success: bool) -> None:
        self.patience = 1 if success else 2 * self.patience
        self.waiting = 0 if success else self.patience


def _failure(verdicts: dict[str, str]) -> SolverError:
    """Returns the error for a solve in which no method found a point."""
    infeasible = any("nfeasible" in verdict for verdict in verdicts.values())
    feasible = any(verdict.startswith(("Optimal", "Unbounded")) for verdict in verdicts.values())
    if infeasible and not feasible:
        return InfeasibleProgramError(
            "the linear program has no feasible point: the bounds and the equations contradict each other."
        )
    ends = "; ".join(f"{name}: {verdict}" for name, verdict in verdicts.items())
    return SolverError(f"HiGHS found no verified optimum, by any method ({ends}).")


def _constraints(matrix: Matrix, right_side: FloatArray, lower: FloatArray) -> Any:
    """Returns the constraints in HiGHS's own form, with costs of zero."""
    import highspy

    columns = matrix.tocsc()
    program = highspy.HighsLp()
    program.num_row_, program.num_col_ = columns.shape
    program.sense_ = highspy.ObjSense.kMaximize
    program.col_cost_ = np.zeros(columns.shape[1])
    program.col_lower_, program.col_upper_ = lower, np.full(columns.shape[1], highspy.kHighsInf)
    program.row_lower_ = program.row_upper_ = right_side
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = columns.indptr.astype(np.int32)
    program.a_matrix_.index_ = columns.indices.astype(np.int32)
    program.a_matrix_.value_ = columns.data
    return program


def _solver(program: Any) -> Any:
    """Returns a silent HiGHS instance that accepts the constraints."""
    import highspy

    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("small_matrix_value", 1e-12)
    if highs.passModel(program) == highspy.HighsStatus.kError:
        raise InvalidArgumentError(
            "HiGHS refuses the constraints: `matrix` has entries of 1e15 or more.", argument="matrix"
        )
    return highs
