"""Frank-Wolfe for coverage of directions: planning by best responses, a second method.

A point is a mixture of occupancies, and only its information matrix M enters the objective. At M every pair
has the score phi_i'G phi_i, G the negative gradient, and an oracle returns the occupancy with the largest
score, which is also the certificate: D(M) - D* <= log of its value (`feature_objective`). Then weights move:

- "frank_wolfe": from the occupancy that scores least to the one that scores most, by exact line search, until
  no move promises more than a tenth of the oracle's gain (Lacoste-Julien and Jaggi 2015; Tsuji et al. 2022);
- "corrective": to the best mixture of all occupancies so far, by the interior point of `feature_newton` on
  their weights. A mixture has no flow equations, so there is nothing that could be ill-conditioned, and steps
  cost the same for 10^3 and 10^6 pairs. Also at rho = inf, where scores come from the matrix multiplier.

M has k(k+1)/2 entries, so that many occupancies and one more suffice, and usually far fewer have weight.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import brentq

from rhocover.checks import FloatArray
from rhocover.errors import SolverError
from rhocover.occupancy import Occupancies
from rhocover.oracles import Response, make_oracle
from rhocover.planning.feature_newton import DesignProblem, solve_design
from rhocover.planning.feature_objective import FeatureCoverage
from rhocover.planning.information import Blends, Rays

PATIENCE = 0.1  # of the oracle's gain: moving weight for less is not worth it
MAX_ROUNDS = 200  # of moving weight between two best responses
NEGLIGIBLE = 1e-14  # a weight that rounding in the sum of weights could hide
INNER = 0.01  # of the gap to reach: how exactly mixtures are solved
INNER_STEPS = 100
FIRST = 1e-3  # weight of a new occupancy at the start of an inner solve


class StepState(Protocol):
    """What every method here can report."""

    @property
    def steps(self) -> int: ...  # noqa: D102
    @property
    def gap(self) -> float: ...  # noqa: D102


@dataclass(frozen=True, eq=False)
class MixtureStep:
    """A mixture after some best responses, with the gap that the last of them proves."""

    d: FloatArray
    W: FloatArray  # the scores behind the gap, [k, k]
    gap: float
    steps: int
    seconds: float = 0.0


def frank_wolfe_design(
    members: Occupancies,
    rays: Rays,
    coverage: FeatureCoverage,
    d: FloatArray,
    *,
    variant: str,
    stop: Stop,
) -> MixtureStep:
    """Returns the best mixture, beginning at the member d, whose M must have full rank."""
    began, oracle = time.perf_counter(), make_oracle(members)
    mixture = _Blending(rays, coverage, d, INNER * stop.tol)
    answer: Response | None = None
    best: MixtureStep | None = None
    for steps in range(stop.max_steps + 1):
        W = mixture.weighting()
        try:
            answer = oracle.respond(rays.scores(W), warm=answer)
        except SolverError:
            break
        value = float(np.log(answer.upper_bound / mixture.unit(W)))
        gap = mixture.coverage.divergence(mixture.M) + value if coverage.rho == np.inf else value
        now = MixtureStep(mixture.d, W, gap, steps, time.perf_counter() - began)
        best = now if best is None or gap < best.gap else best
        if stop.report is not None:
            stop.report(now)
        if gap <= stop.tol or time.perf_counter() >= stop.deadline:
            break
        if not mixture.advance(answer.occupancy, W, variant):
            break
    return MixtureStep(mixture.d, mixture.weighting(), np.inf, 0) if best is None else best


@dataclass(frozen=True, eq=False)
class Stop:
    """When to stop, and whom to tell how far it is."""

    tol: float
    max_steps: int
    deadline: float = np.inf
    report: Callable[[StepState], None] | None = None


class _Blending:
    """Occupancies, their matrices and weights."""

    def __init__(self, rays: Rays, coverage: FeatureCoverage, d: FloatArray, tol: float) -> None:
        self._rays, self.coverage, self._tol = rays, coverage, tol
        self.points, self.matrices = d[None], rays.information(d)[None]
        self.weights, self.W = np.ones(1), None
        self._combine()

    def _combine(self) -> None:
        self.d = self.weights @ self.points
        self.M = np.tensordot(self.weights, self.matrices, axes=1)

    def weighting(self) -> FloatArray:
        """Returns the matrix whose scores the oracle maximises: G, or at rho = inf a multiplier."""
        if self.coverage.rho < np.inf:
            return self.coverage.gradient(self.M)
        if self.W is None:
            inverse = np.linalg.inv(self.M)
            self.W = (inverse + inverse.T) / 2
        return self.W

    def unit(self, W: FloatArray) -> float:
        """Returns tr(G M), which is 1 up to rounding; at rho = inf tr(W N)."""
        return float(np.sum(W * (self.M if self.coverage.rho < np.inf else self.coverage.target)))

    def advance(self, point: FloatArray, W: FloatArray, variant: str) -> bool:
        """Adds an occupancy and moves the weights; returns whether that changed anything."""
        is_new = not (self.points == point).all(axis=1).any()
        if is_new:
            self.points = np.vstack([self.points, point])
            self.matrices = np.concatenate([self.matrices, self._rays.information(point)[None]])
            self.weights = np.append(self.weights, 0.0)
        if variant == "corrective":
            moved = is_new and self._correct()
        else:
            scores = Blends(self.matrices).scores(W)
            moved = self._blend(float(scores.max() - self.weights @ scores))
        self._drop()
        return moved

    def _correct(self) -> bool:
        """Moves to the best mixture."""
        start = np.maximum((1 - FIRST) * self.weights, FIRST / self.weights.size)
        nothing = np.zeros((0, start.size))
        problem = DesignProblem(self.coverage, Blends(self.matrices), nothing, np.zeros(0))
        end = solve_design(problem, start / start.sum(), tol=self._tol, max_steps=INNER_STEPS)
        self.weights, self.W = end.d / end.d.sum(), end.W
        self._combine()
        return end.steps > 0

    def _blend(self, promise: float) -> bool:
        """Moves weight from what scores least to what scores most, while it is worth it."""
        moved = False
        for _ in range(MAX_ROUNDS):
            scores = Blends(self.matrices).scores(self.coverage.gradient(self.M))
            best = int(np.argmax(scores))
            worst = int(np.argmin(np.where(self.weights > 0, scores, np.inf)))
            if scores[best] - scores[worst] <= PATIENCE * promise:
                break
            length = self._line_search(self.matrices[best] - self.matrices[worst], self.weights[worst])
            self.weights[best] += length
            self.weights[worst] -= length
            self._combine()
            moved |= length > 0
            if length == 0:
                break
        return moved

    def _line_search(self, way: FloatArray, longest: float) -> float:
        """Returns the length at which M + length way has the smallest divergence."""
        if self._slope(way, 0.0) <= 0:
            return 0.0
        if self._slope(way, longest) >= 0:
            return float(longest)
        found = brentq(
            lambda a: self._slope(way, a), 0.0, longest, xtol=1e-13 * longest, full_output=True, disp=False
        )
        return float(found[0])

    def _slope(self, way: FloatArray, length: float) -> float:
        """Returns how fast the divergence falls there; -1 where M is singular."""
        M = self.M + length * way
        if not self.coverage.divergence(M) < np.inf:
            return -1.0
        return float(np.sum(self.coverage.gradient(M) * way))

    def _drop(self) -> None:
        """Removes the occupancies without weight."""
        kept = self.weights > NEGLIGIBLE
        self.points, self.matrices = self.points[kept], self.matrices[kept]
        self.weights = self.weights[kept] / self.weights[kept].sum()
        self._combine()
