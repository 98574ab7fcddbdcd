"""Frank-Wolfe: planning by best responses alone, a second method besides the interior point.

At a point d the divergence falls fastest along p/d, p = softmax(rho log mu + (1-rho) log d). An oracle
returns the member s of the set that earns most under that reward, and d moves towards s:

- "plain": by 2/(k+2), the textbook step;
- "line_search": to the lowest divergence on the segment, the root of the derivative;
- "away": d is kept as a mixture of the responses so far. Weight is moved from the one that earns
  least to the one that earns most, by line search, until no move promises more than a tenth of the oracle's
  gain; then the oracle is called again (pairwise steps: Lacoste-Julien and Jaggi 2015; blended: Tsuji et al.
  2022). On polytopes this avoids zigzagging: RiverSwim-6 at rho = 2 needs 11 responses for a gap of 1e-8,
  where "line_search" is at 5e-7 after 400.

The same best response certifies. For every d > 0 and every rho in (0, inf),

    D_rho(d) - D_rho* <= log max_{d' in D} <p/d, d'>.

At rho = 0 the objective is KL(d || mubar), the reward log(mubar/d), and convexity gives
max <reward, d'> - <reward, d>. Both use the oracle's upper bound, so they hold however accurate it is.

rho = inf is refused: the worst ratio is not differentiable, and a best response to the worst pair
alone says nothing about the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from scipy.optimize import brentq

from rhocover import checks
from rhocover.checks import BoolArray, FloatArray, IntArray, frozen
from rhocover.coverage import Coverage
from rhocover.errors import InvalidArgumentError, parse_text, unknown_name
from rhocover.occupancy import Occupancies
from rhocover.oracles import Oracle, Response, make_oracle
from rhocover.oracles.response import certified_gap, gradient_reward

VARIANTS = ("away", "line_search", "plain")
PATIENCE = 0.1  # of the oracle's gain: moving weight for less is not worth it
MAX_ROUNDS = 200  # of moving weight between two best responses
NEGLIGIBLE = 1e-15  # a weight that rounding in the sum of weights could hide
SOMETHING = 1e-100  # a weight that only keeps a share from being zero


@dataclass(frozen=True, eq=False)
class FrankWolfeResult:
    """A member of the set, and an upper bound on its distance from the smallest divergence."""

    d: FloatArray  # per entry, [N]
    divergence: float
    lower_bound: float  # no member has a divergence below it
    steps: int  # best responses used
    converged: bool

    @property
    def gap(self) -> float:
        """Certified bound on the distance of the divergence from the smallest."""
        return self.divergence - self.lower_bound


@dataclass(frozen=True)
class Step:
    """The state of the method after some steps."""

    steps: int
    seconds: float
    gap: float
    flow: float = 0.0  # a mixture of members is a member


def frank_wolfe(
    members: Occupancies,
    coverage: Coverage,
    *,
    variant: str = "away",
    tol: float = 1e-6,
    max_steps: int = 10_000,
    report: Callable[[Step], None] | None = None,
    deadline: float = np.inf,
) -> FrankWolfeResult:
    """Returns the member of the set with the smallest D_rho, up to a certified gap of `tol`.

    `coverage` has weights per entry, or a table of the set's shape. If `max_steps` or the time until
    `deadline` (a reading of `time.perf_counter`) are not enough, or float64 allows no further progress,
    `converged` is False and the gap is the one that was reached. `report` is called after each step.
    """
    began = time.perf_counter()
    coverage = _checked(members, coverage, variant)
    oracle = make_oracle(members)
    mixture = _Mixture(_start(members, coverage, oracle), coverage.support)
    answer: Response | None = None
    lower, steps, moved = -np.inf, 0, True
    while True:
        reward = gradient_reward(coverage, mixture.d)
        answer = oracle.respond(reward, warm=answer)
        divergence = coverage.divergence(mixture.d)
        lower = max(lower, divergence - certified_gap(coverage.rho, reward, mixture.d, answer))
        if divergence - lower <= tol or steps >= max_steps or not moved or time.perf_counter() >= deadline:
            break
        steps += 1
        if report is not None:
            report(Step(steps, time.perf_counter() - began, divergence - lower))
        moved = _advance(mixture, coverage, reward, answer.occupancy, variant, steps)
    return FrankWolfeResult(frozen(mixture.d), divergence, lower, steps, divergence - lower <= tol)


# Steps.


def _advance(
    mixture: _Mixture, coverage: Coverage, reward: FloatArray, target: FloatArray, variant: str, step: int
) -> bool:
    """Moves the mixture; returns whether that changed anything."""
    if variant == "away":
        promise = float(reward @ (target - mixture.d))
        mixture.earn(reward)  # stores the worst, from which weight is moved first
        return _blend(mixture, coverage, mixture.add(target), promise)
    way = target - mixture.d
    length = 2 / (step + 2) if variant == "plain" else line_search(coverage, mixture.d, way, 1.0)
    mixture.replace(mixture.d + length * way)
    return length > 0


def _blend(mixture: _Mixture, coverage: Coverage, best: int, promise: float) -> bool:
    """Moves weight from the point that earns least to the one that earns most, while it is worth it."""
    moved = False
    for _ in range(MAX_ROUNDS):
        worst = mixture.worst
        way = mixture.points[best] - mixture.points[worst]
        length = line_search(coverage, mixture.d, way, float(mixture.weights[worst]))
        moved |= length > 0
        mixture.shift(worst, best, length)
        earned = mixture.earn(gradient_reward(coverage, mixture.d))
        best = int(np.argmax(earned))
        if length == 0 or earned[best] - earned[mixture.worst] <= PATIENCE * promise:
            break
    mixture.drop()
    return moved


def line_search(coverage: Coverage, d: FloatArray, way: FloatArray, longest: float) -> float:
    """Returns the length in [0, longest] at which d + length way has the smallest divergence."""
    if not _slope(coverage, d, way, 0.0) > 0:
        return 0.0
    if _slope(coverage, d, way, longest) >= 0:
        return longest
    # to 1e-12 of the length: a longer search would gain less than the rounding of the divergence
    found = brentq(
        lambda length: _slope(coverage, d, way, length), 0.0, longest,
        xtol=1e-12 * longest, full_output=True, disp=False,
    )  # fmt: skip
    return float(found[0])


def _slope(coverage: Coverage, d: FloatArray, way: FloatArray, length: float) -> float:
    """Returns how fast the divergence falls there, in [-1, 1]; -1 where a weighted pair has no mass left."""
    point = d + length * way
    if (point[coverage.support] <= 0).any():
        return -1.0
    reward = coverage.reward(np.maximum(point, 0.0))
    size = float(np.abs(reward) @ np.abs(way))
    return float(reward @ way) / size if size > 0 else 0.0


class _Mixture:
    """A point d as a mixture of members of the set."""

    def __init__(self, d: FloatArray, needed: BoolArray) -> None:
        self.replace(d)
        self._needed = needed  # entries that must keep some mass
        self.worst = 0  # the point that earned least, of those with weight

    def replace(self, d: FloatArray) -> None:
        """Starts the mixture with one point."""
        self.points, self.weights, self.d = d[None], np.ones(1), d

    def add(self, point: FloatArray) -> int:
        """Adds a point without weight, unless it is there; returns its place."""
        same = np.flatnonzero((self.points == point).all(axis=1))
        if same.size:
            return int(same[0])
        self.points = np.vstack([self.points, point])
        self.weights = np.append(self.weights, 0.0)
        return self.weights.size - 1

    def earn(self, reward: FloatArray) -> FloatArray:
        """Returns what each point earns, and stores the worst of those with weight."""
        earned = self.points @ reward
        self.worst = int(np.argmin(np.where(self.weights > 0, earned, np.inf)))
        return earned

    def shift(self, source: int, target: int, weight: float) -> None:
        """Moves weight from one point to another; a rest below rounding is moved, too.

        The rest stays if pairs would otherwise have no mass: at rho = 0 the best share of a pair may be below
        rounding.
        """
        is_last = self.weights[source] - weight < NEGLIGIBLE
        is_alone = is_last and self._is_alone(source, target)
        if is_last and not is_alone:
            weight = float(self.weights[source])
        self.weights[source] -= weight
        self.weights[target] += weight
        if is_alone:
            self.weights[source] = max(self.weights[source], SOMETHING)
        self.d = self.weights @ self.points

    def _is_alone(self, source: int, target: int) -> bool:
        """Returns whether a point visits a needed entry that no other with weight does."""
        others = (self.weights > 0) & (np.arange(self.weights.size) != source)
        others[target] = True
        visited = (self.points[others] > 0).any(axis=0)
        return bool((self.points[source] > 0)[self._needed & ~visited].any())

    def drop(self) -> None:
        """Removes the points without weight."""
        kept = self.weights > 0
        self.points, self.weights = self.points[kept], self.weights[kept] / self.weights.sum()
        self.worst = 0
        self.d = self.weights @ self.points


# The start.


def _checked(members: Occupancies, coverage: Coverage, variant: str) -> Coverage:
    """Returns the coverage with weights per entry; refuses an objective that the method cannot handle."""
    if variant not in VARIANTS:
        raise unknown_name("variant", variant, VARIANTS)
    if coverage.rho == np.inf:
        raise InvalidArgumentError(
            "Frank-Wolfe needs rho < inf: the worst ratio has no gradient.",
            argument="rho",
            remedy=parse_text("Use `method='interior_point'`."),
        )
    if coverage.rho == 0 and not coverage.support.all():
        raise InvalidArgumentError(
            "rho=0 measures KL(d || mu), which is infinite once a pair of zero weight is visited.",
            argument="mu",
            remedy="Give every pair some weight, or use a small rho such as 0.05.",
        )
    if coverage.mu.shape == (members.num_pairs,):
        return coverage
    return Coverage(coverage.rho, members.flatten(coverage.mu, "mu"))


def _start(members: Occupancies, coverage: Coverage, oracle: Oracle) -> FloatArray:
    """Returns a member that visits every weighted pair: the uniform policy's, or an average."""
    if members.eta > 0:
        members.check_floor()
        return members.max_floor()[1]
    try:
        d = members.from_policy(1 / np.bincount(members.node)[members.node])
    except InvalidArgumentError:  # several recurrent classes: no unique occupancy
        d = np.zeros(members.num_pairs)
    found = [d] if d.any() else []
    missing = coverage.support & ~(d > 0)
    while missing.any():
        answer = oracle.respond(missing.astype(float))
        if answer.value <= 0:
            _refuse(members, np.flatnonzero(missing))
        found.append(answer.occupancy)
        missing &= ~(answer.occupancy > 0)
    return np.mean(found, axis=0)


def _refuse(members: Occupancies, entries: IntArray) -> NoReturn:
    names = [members.mdp.pair_name(int(pair)) for pair in members.pair[entries]]
    raise InvalidArgumentError(
        f"no policy keeps visiting these pairs: {checks.name_some(names)}.",
        argument="mu",
        remedy=parse_text("Give them weight 0, or plan with `restrict=True`."),
    )
