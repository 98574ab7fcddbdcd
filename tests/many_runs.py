"""Many runs of one explorer in one model, cheaply: the problem is planned once, and only moves are kept.

What is measured at each of them: the paper's suboptimality xi, its controllable part Breg, and the pathwise
regret, all in units of U_rho with weights that sum to 1; and two martingales whose expectation is zero
whatever is played, to be subtracted where a mean is wanted (control variates):

    M_n = sum_t h(s_{t+1}) - (P h)(s_t, a_t),      Z_n = W_n'K W_n - n tr K Sigma(d_hat_n).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover.exploring.belief import KnownModel
from rhocover.exploring.explorers.registry import make_explorer
from rhocover.exploring.problem import Problem
from rhocover.exploring.runs.result import regret_in_value
from rhocover.exploring.runs.runner import Runner, begin
from rhocover.exploring.worlds import Visits
from rhocover.exploring.worlds.simulator import Simulator
from rhocover.linalg.normal_equations import one_blas_thread


@dataclass(frozen=True, eq=False)
class Many:
    """Runs of one explorer: `moves[r, k]` are those of run r after `steps[k]` steps, as the model stores them."""

    problem: Problem
    steps: np.ndarray  # [K]
    moves: np.ndarray  # [R, K, transitions]
    last: np.ndarray  # [R, K]: the state that was reached

    @property
    def visits(self) -> np.ndarray:
        """Visits of each pair, `[R, K, n]`."""
        return np.add.reduceat(self.moves, self.problem.mdp.transitions.indptr[:-1], axis=-1)

    @property
    def occupancy(self) -> np.ndarray:
        """d_hat, `[R, K, n]`."""
        return self.visits / self.steps[:, None]

    @property
    def walk(self) -> np.ndarray:
        """W_n = sum_t e(s_{t+1}) - P(s_t, a_t), `[R, K, S]`: a martingale under any behaviour."""
        P = self.problem.mdp.transitions
        arrivals = np.apply_along_axis(
            lambda m: np.bincount(P.indices, m, P.shape[1]), -1, self.moves.astype(float)
        )
        return arrivals - self.visits @ P.toarray()

    def each(self, number: Any) -> np.ndarray:
        """Returns a function of d_hat at every run and time, `[R, K]`."""
        return np.apply_along_axis(number, -1, self.occupancy)

    @property
    def suboptimality(self) -> np.ndarray:
        """The paper's xi."""
        return self.each(self.problem.limits.suboptimality)

    @property
    def bregman(self) -> np.ndarray:
        """The controllable part of xi."""
        return self.each(self.problem.limits.bregman)

    @property
    def regret(self) -> np.ndarray:
        """The pathwise regret."""
        return self.each(lambda d: pathwise_regret(self.problem, d))

    @property
    def steered(self) -> np.ndarray:
        """Returns xi + M_n/n, `[R, K]`: of the same mean as xi, without the noise that nobody steers."""
        return self.suboptimality + self.walk @ self.problem.limits.potential / self.steps

    def centred_energy(self, K: np.ndarray) -> np.ndarray:
        """Returns Z_n for a quadratic form K `[S, S]`, `[R, K]`."""
        walk = self.walk
        energy = np.einsum("rks,st,rkt->rk", walk, K, walk)
        return energy - self.visits @ energy_of_a_step(self.problem, K)


def energy_of_a_step(problem: Problem, K: np.ndarray) -> np.ndarray:
    """Returns tr K (diag P_i - P_i P_i') for each pair, `[n]`."""
    P = problem.mdp.transitions.toarray()
    return P @ np.diag(K) - np.einsum("is,st,it->i", P, K, P)


def residual_form(problem: Problem) -> np.ndarray:
    """Returns K `[S, S]` with w'K w = min {u'H u: A u = w, 1'u = 0}, densely; the last row and column are 0."""
    rho, d, mu = problem.coverage.rho, problem.d_star, problem.coverage.mu_bar
    H = rho * mu**rho / d ** (rho + 1) if rho > 0 else 1 / d
    B = np.vstack([problem.members.flow.toarray()[:-1], np.ones(d.size)])
    K = np.zeros((len(B), len(B)))
    K[:-1, :-1] = np.linalg.inv(B / H @ B.T)[:-1, :-1]
    return K


def pathwise_regret(problem: Problem, d: np.ndarray) -> float:
    divergence = problem.coverage.divergence_unchecked(d)
    path = problem.pathwise.best(d, tol=1e-12)
    return regret_in_value(problem.coverage, divergence, max(divergence - path.divergence, 0.0))


def many_runs(problem: Problem, explorer: Any, steps: Sequence[int], seeds: Iterable[int]) -> Many:
    """Returns the runs of an explorer, by name or as an object, one for each seed."""
    explorer = make_explorer(explorer)
    with one_blas_thread():
        rows = [_moves(problem, explorer, list(steps), seed) for seed in seeds]
    moves = np.array([[moves for moves, _ in row] for row in rows])
    last = np.array([[state for _, state in row] for row in rows])
    return Many(problem, np.array(steps), moves, last)


def _moves(problem: Problem, explorer: Any, steps: list[int], seed: int) -> list[tuple[np.ndarray, int]]:
    world = Simulator(problem.mdp, problem.start)
    standing = begin(explorer, KnownModel(problem), world.begin(seed), Visits.none(problem.mdp))
    runner = Runner(
        lambda *_: (standing.seen.moves.copy(), int(standing.position.states[0])),  # type: ignore[arg-type, return-value]
        explorer, world, steps, standing,
    )  # fmt: skip
    runner.run(lambda _: None)
    return standing.rows  # type: ignore[return-value]


def mean_and_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the mean over runs and its standard error, `[K]` each."""
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


def exponent(steps: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """Returns the slope of log mean against log t by least squares, and its standard error by leaving runs out."""
    slope = np.polyfit(np.log(steps), np.log(values.mean(axis=0)), 1)[0]
    total, n = values.sum(axis=0), len(values)
    others = np.log((total - values) / (n - 1))  # the mean without each run
    slopes = np.polyfit(np.log(steps), others.T, 1)[0]
    return float(slope), float(np.sqrt((n - 1) * slopes.var()))
