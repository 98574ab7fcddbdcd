"""How far codes of observations may be trusted: whether they still grow, what they hide, what they prove.

A run or an audit over codes (bins, nets, hashes, a function) speaks of the codes, not of the observations.

**Growth.** K(n) codes were met in n steps. K(n) - K(n/2) is how many were new in the last half, with a
standard error from batch means, because new codes come in bursts. The Good-Turing share (codes met once, over
n) is not used: it assumes independent draws, and an explorer returns to what it met once. log2 K(n)/K(n/2) is
the exponent: 0 if nothing is new, 1 if every doubling of the steps doubles the codes.

**Dimension.** With T_j the distance from a point to its j-th neighbour, the intrinsic dimension is the
inverse of the mean over points of (1/(k-1)) sum_{j<k} log(T_k/T_j) (Levina and Bickel 2004, averaged as by
MacKay and Ghahramani). A net of dimension D needs about (size/radius)^D codes.

**What codes prove.** Let mu_c and d_c be target and share of code c, and V_rho = sum mu^rho d^(1-rho), the
exponential of (rho - 1) D_rho. Then V_rho(states) = sum_c mu_c^rho d_c^(1-rho) V_rho(within c), so

    D_rho(codes) <= D_rho(states) <= D_rho(codes) + max_c D_rho(within c).

A bad figure in codes proves missing coverage; a good one does not prove coverage. For a target that is
uniform within a code, mu/d at a point is w = T_k^D over its mean in the code, and

    D_rho(within c) = log E[w^rho] / (rho - 1)  (rho = 1: E[w log w]),

less the bias log(Gamma(k+rho)/(Gamma(k) k^rho)) / (rho - 1) of the k-th distance, k >= 4 rho^2. It is an
estimate over the parts of codes that were visited: parts that were never visited are not in it.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln, psi

from rhocover.checks import FloatArray, IntArray
from rhocover.coverage import Coverage
from rhocover.documents import plain
from rhocover.errors import RhocoverWarning
from rhocover.learning.markov import MarkovTest
from rhocover.printing import count_of

NUM_BATCHES = 16  # of the last half of the steps, for the error of the number of new codes
NEIGHBOURS = 12  # of the dimension; fewer are noisier, more see walls and corners
LEAST_POINTS = 200  # distinct observations from which a dimension is estimated
LEAST_STEPS = 1_000  # before which no code is called too fine or too coarse
COLUMNS = 1 << 10  # of observations at a time: pictures have 100,000, and a few copies exist for a moment
STILL_GROWING = 0.4  # exponent; a finished code has about 0, a maze that is still being entered up to 0.8
MOSTLY_STAYS = 0.9  # share of the steps; nets of 2.5 steps have 0.6 to 0.8
HIDES_MUCH = 0.5  # of the variance of the observations is within codes; grids of 5 by 5 hide 0.04 to 0.3
SENTENCE = (
    "All figures are those of the codes: a bad one proves missing coverage of the observations, a good one "
    "does not prove coverage."
)
TOO_FINE = (
    "The codes are too fine for {steps:,} steps: {codes:,} codes with {actions} actions each are more pairs "
    "than steps, and there are {factor:.2g} times as many codes as after half of the steps, so most of them "
    "are met too rarely to plan with. Use a larger radius or wider bins, take more steps, or pick with `of` "
    "what matters, such as positions without velocities."
)
TOO_COARSE = (
    "The codes are too coarse: {stays:.0%} of the steps stay in their code{hidden}, so actions are planned "
    "without knowing where in the code they act. Use a smaller radius or more bins, or repeat each action."
)


@dataclass(frozen=True)
class Growth:
    """How many codes were met, and how many of them were new in the last half of the steps."""

    num_codes: int
    num_steps: int
    num_new: int
    error: float  # standard error of `num_new`
    num_possible: int | None = None  # None: unknown
    noun: str = "codes"

    @property
    def exponent(self) -> float:
        """The exponent of the growth: 1 if a doubling of the steps doubles the codes; nan without any."""
        before = self.num_codes - self.num_new
        return math.log2(self.num_codes / before) if before else math.nan

    def __str__(self) -> str:
        half = f"the last {count_of(self.num_steps - self.num_steps // 2, 'step', ',')}"
        error = max(round(self.error), 1)
        new = f"{self.num_new:,} ± {error:,} new in {half}" if self.num_new else f"none new in {half}"
        if self.num_possible is not None:
            return f"{self.num_codes:,} of {self.num_possible:,} {self.noun}, {new}"
        grows = "still growing: " if self.num_new else "whether there are others is not known: "
        met = f"1 {self.noun[:-1]}" if self.num_codes == 1 else f"{self.num_codes:,} {self.noun}"
        return f"{met} so far, {grows}{new}"

    def document(self) -> dict[str, Any]:
        """Returns the growth, ready for JSON."""
        return plain({**vars(self), "exponent": self.exponent, "text": str(self)})


def growth_of(first: Any, num_steps: int, num_possible: int | None = None, noun: str = "codes") -> Growth:
    """Returns the growth, given the step at which each code was first met.

    >>> print(growth_of([0, 1, 5, 60], 100))
    4 codes so far, still growing: 1 ± 1 new in the last 50 steps
    """
    first, half = np.asarray(first, np.int64), num_steps // 2
    late = first[first >= half] - half
    number = late * NUM_BATCHES // max(num_steps - half, 1)
    per_batch = np.bincount(np.clip(number, 0, NUM_BATCHES - 1), minlength=NUM_BATCHES)
    error = float(per_batch.std(ddof=1)) * math.sqrt(NUM_BATCHES)
    return Growth(first.size, num_steps, late.size, error, num_possible, noun)


@dataclass(frozen=True, eq=False)
class Sample:
    """Some observations as vectors `[m, D]`, and the code of each as a number `[m]`."""

    points: FloatArray
    codes: IntArray


@dataclass(frozen=True)
class Coded:
    """What a tally keeps of the code of its states: a sample of observations, and the held-out code.

    It is not lossy if a held-out code was counted beside states that are numbers already.
    """

    noun: str = "codes"
    is_lossy: bool = True
    sample: Sample | None = None
    held_out: Growth | None = None
    markov: MarkovTest | None = None  # of the first steps; None if they were not kept


def joined_codes(a: Coded | None, b: Coded | None) -> Coded | None:
    """Returns what is known of two data sets together: only whether one of them is coded."""
    known = [coded for coded in (a, b) if coded is not None]
    return Coded(known[0].noun, any(coded.is_lossy for coded in known)) if known else None


@dataclass(frozen=True)
class Dimension:
    """The intrinsic dimension of observations of `num_numbers` numbers, estimated from `num_points`."""

    num_numbers: int
    estimate: float  # nan if there were too few
    error: float
    num_points: int

    def __str__(self) -> str:
        size = "1 number" if self.num_numbers == 1 else f"{self.num_numbers:,} numbers"
        if math.isnan(self.estimate):
            return size
        return (
            f"{size}, intrinsic dimension {self.estimate:.2g} ± {self.error:.1g} (estimate from "
            f"{count_of(self.num_points, 'observation', ',')})"
        )


def dimension_of(points: FloatArray) -> Dimension:
    """Returns the intrinsic dimension of points `[m, D]`, of those that differ.

    The error counts one neighbourhood per k points as independent.
    """
    distinct = _distinct(points)
    if len(distinct) < LEAST_POINTS:
        return Dimension(points.shape[1], math.nan, math.nan, len(distinct))
    distances = _distances(distinct, distinct, NEIGHBOURS + 1)[:, 1:]
    logs = np.log(distances[:, -1:] / distances[:, :-1]).mean(axis=1)
    mean = float(logs.mean())
    if not mean > 0:  # every neighbour at the same distance, as on a grid: no dimension fits
        return Dimension(points.shape[1], math.nan, math.nan, len(distinct))
    error = float(logs.std()) / mean**2 / math.sqrt(len(distinct) / NEIGHBOURS)
    return Dimension(points.shape[1], 1 / mean, error, len(distinct))


def _distinct(points: FloatArray) -> FloatArray:
    """Returns the points that differ; np.unique makes several copies of them, and a type per column."""
    own = {row.tobytes(): place for place, row in enumerate(points + 0.0)}  # -0.0 is 0.0
    return points[list(own.values())]


def _distances(of: FloatArray, to: FloatArray, k: int) -> FloatArray:
    """Returns the distances of points to their k nearest, themselves included, `[m, k]`."""
    from scipy.spatial import KDTree

    return np.asarray(KDTree(to).query(of, k)[0], float)


@dataclass(frozen=True)
class Spread:
    """The largest D_rho within a code, estimated for `num_codes` codes with enough observations."""

    largest: float
    error: float
    num_codes: int


def spread_within(sample: Sample, rho: float, dimension: float) -> Spread | None:
    """Returns the largest D_rho within a code; None if it cannot be estimated from this sample."""
    k = max(8, math.ceil(4 * rho**2))
    _, number, counts = np.unique(sample.codes, return_inverse=True, return_counts=True)
    enough = np.flatnonzero(counts >= 2 * k)  # fewer: the k-th neighbour is outside the code
    if rho == 0 or not math.isfinite(dimension) or not enough.size:
        return None
    weight = _distances(sample.points, sample.points, k + 1)[:, -1] ** dimension
    found = [_within(weight[number == code], rho, k) for code in enough.tolist()]
    value, error = max(found)
    return Spread(max(value, 0.0), error, enough.size)


def _within(weight: FloatArray, rho: float, k: int) -> tuple[float, float]:
    """Returns D_rho of a uniform target within one code, given T_k^D of its points, and its error."""
    if not weight.any():
        return 0.0, 0.0
    w = weight / weight.mean()
    effective = math.sqrt(max(weight.size / k, 1))  # neighbourhoods overlap
    if rho == 1:
        terms = w * np.log(np.maximum(w, np.finfo(float).tiny))
        return float(terms.mean() - psi(k + 1) + math.log(k)), float(terms.std()) / effective
    terms = w**rho
    bias = float(gammaln(k + rho) - gammaln(k) - rho * math.log(k))
    value = (math.log(float(terms.mean())) - bias) / (rho - 1)
    return value, float(terms.std() / terms.mean()) / effective / abs(rho - 1)


def share_within(sample: Sample) -> float:
    """Returns the share of the variance of the observations that is within codes, a mean over coordinates.

    nan if no coordinate varies.
    """
    _, number, counts = np.unique(sample.codes, return_inverse=True, return_counts=True)
    shares = [np.zeros(0)]
    for first in range(0, sample.points.shape[1], COLUMNS):
        points = sample.points[:, first : first + COLUMNS]
        sums = np.zeros((counts.size, points.shape[1]))
        np.add.at(sums, number, points)
        left, total = points - (sums / counts[:, None])[number], points.var(axis=0)
        shares.append((left**2).mean(axis=0)[total > 0] / total[total > 0])
    found = np.concatenate(shares)
    return float(found.mean()) if found.size else math.nan


@dataclass(frozen=True)
class CodeDiagnosis:
    """What is known of the codes of a run or a data set; estimates say so in their texts."""

    growth: Growth
    num_actions: int
    stays: float  # share of the steps that stayed in their code
    rho: float
    divergence: float  # D_rho over the codes, actions summed: a lower bound on that over observations
    hidden: float = math.nan  # share of the observations' variance that is within codes
    dimension: Dimension | None = None
    spread: Spread | None = None
    held_out: Growth | None = None
    is_lossy: bool = True
    markov: MarkovTest | None = None  # of a data set; a run has its own

    @property
    def upper_estimate(self) -> float:
        """D_rho over the codes plus the largest estimate within one; nan without an estimate."""
        return math.nan if self.spread is None else self.divergence + self.spread.largest

    @property
    def is_too_fine(self) -> bool:
        """Whether codes still grow and are more, with their actions, than steps."""
        g = self.growth
        is_growing = g.exponent >= STILL_GROWING and g.num_new > 2 * g.error
        return g.num_steps >= LEAST_STEPS and is_growing and g.num_codes * self.num_actions > g.num_steps

    @property
    def is_too_coarse(self) -> bool:
        """Whether steps mostly stay in their code, and codes hide much of what varies."""
        if self.growth.num_steps < LEAST_STEPS:
            return False
        if math.isnan(self.hidden):  # nothing is known of the observations
            return self.growth.num_codes == 1
        return self.stays >= MOSTLY_STAYS and self.hidden >= HIDES_MUCH

    @property
    def warning(self) -> str:
        """What is wrong with the codes and what to do; "" if nothing was found."""
        g = self.growth
        if not self.is_lossy:
            return ""
        if self.is_too_fine:
            return TOO_FINE.format(
                steps=g.num_steps, codes=g.num_codes, actions=self.num_actions, factor=2**g.exponent
            )
        if not self.is_too_coarse:
            return ""
        hidden = "" if math.isnan(self.hidden) else f", and {self.hidden:.0%} of what varies is within codes"
        return TOO_COARSE.format(stays=self.stays, hidden=hidden)

    @property
    def entries(self) -> list[tuple[str, str]]:
        """The figures, as names and texts."""
        held_out = [("held out", f"{self.held_out} (never planned with)")] if self.held_out else []
        if not self.is_lossy:
            return held_out
        found = [("codes", f"{self.growth}; {self.stays:.0%} of the steps stay in their code")]
        if self.dimension is not None:
            found.append(("observed", str(self.dimension)))
        if math.isfinite(self.divergence):
            found.append((f"D_{self.rho:g}", self._bounds))
        return [*found, *held_out]

    @property
    def _bounds(self) -> str:
        lower = f"of the observations at least {self.divergence:.3g}, that of the codes"
        if self.spread is None:
            return lower
        return (
            f"{lower}; at most about {self.upper_estimate:.3g} ± {self.spread.error:.1g} (estimate from "
            f"neighbours within {self.spread.num_codes:,} of {self.growth.num_codes:,} {self.growth.noun}, "
            "where they were visited)"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """The figures as sentences, a warning if there is one, and what figures of codes prove."""
        told = [f"{name[:1].upper()}{name[1:]}: {text}." for name, text in self.entries]
        return (*told, *self._remarks)

    @property
    def lines(self) -> tuple[str, ...]:
        """The same with the figures in a column."""
        return (*(f"{name:<11} {text}" for name, text in self.entries), *self._remarks)

    @property
    def _remarks(self) -> list[str]:
        if not self.is_lossy:
            return []
        found = self.markov is not None and self.markov.is_found
        return [note for note in (str(self.markov) if found else "", self.warning, SENTENCE) if note]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def document(self) -> dict[str, Any]:
        """Returns everything, ready for JSON: infinities as text, nan as None."""
        return plain({
            "growth": self.growth.document(), "stays": self.stays, "hidden": self.hidden,
            "divergence": self.divergence, "upper_estimate": self.upper_estimate,
            "dimension": self.dimension and vars(self.dimension),
            "spread": self.spread and vars(self.spread),
            "held_out": self.held_out and self.held_out.document(),
            "markov": self.markov and self.markov.document(),
            "is_too_fine": self.is_too_fine, "is_too_coarse": self.is_too_coarse,
            "notes": list(self.notes),
        })  # fmt: skip


def diagnose(
    coded: Coded, growth: Growth, stays: float, weights: FloatArray, visits: IntArray, rho: float
) -> CodeDiagnosis:
    """Returns the diagnosis; `weights` and `visits` are `[S, A]`, with those of codes that were not met."""
    target, seen = weights.sum(axis=1), visits.sum(axis=1)
    divergence = math.nan
    if target.any() and seen.any():
        divergence = Coverage(rho, target).divergence(seen / seen.sum())
    known, sample = (growth, weights.shape[1], stays, rho, divergence), coded.sample
    rest = {"held_out": coded.held_out, "is_lossy": coded.is_lossy, "markov": coded.markov}
    if sample is None or not sample.points.size:
        return CodeDiagnosis(*known, **rest)
    dimension = dimension_of(sample.points)
    spread = spread_within(sample, rho, dimension.estimate) if rho <= 4 else None  # k = 4 rho^2 neighbours
    return CodeDiagnosis(*known, share_within(sample), dimension, spread, **rest)


def warn_of(found: CodeDiagnosis, stacklevel: int) -> None:
    """Warns if codes are too fine or too coarse."""
    if found.warning:
        warnings.warn(found.warning, RhocoverWarning, stacklevel=stacklevel + 1)


def share_of_stays(moves: Any, num_actions: int) -> float:
    """Returns the share of transitions `[S*A, S]` that lead back to their own code; nan without any."""
    table = moves.tocoo()
    total = int(table.data.sum())
    own = table.coords[0] // num_actions == table.coords[1]
    return int(table.data[own].sum()) / total if total else math.nan
