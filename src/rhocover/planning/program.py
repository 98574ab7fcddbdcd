"""A planning problem in the solver's form, {K d = k0 theta, d >= floor theta}, and certified lower bounds.

theta is the mass of d. Divergences do not depend on the scale of d, so a solver may work on the cone
and divide by the mass at the end. K are the flow equations in the basis of `rows`. For the average criterion
k0 = 0, and the mass row is kept separate because it is dense. The discounted and the horizon criterion have
k0 = inflow and imply the mass. The weights sum to 1.

**Rows for nearly closed sets.** If two parts of a model exchange states once in 10^9 steps, their potentials
differ by about 10^9, and float64 has no digits left for the differences inside either part; nor do the flows
of d through the states of a part, each to 16 digits, determine the exchange. Another basis solves both
problems. The flow of a whole set C of states is the sum of its states' rows, and in that row everything that
stays inside cancels:

    sum_{i in C} P(leaves C | i) d_i  -  sum_{i not in C} P(enters C | i) d_i  =  0,

where all numbers are small, and computed without subtraction. So the states are grouped into strongly
connected parts by transitions of probability above 10^-3, those into parts by rarer transitions, and so on,
up to the whole. Each part has its row, except for one part of each larger one, whose row follows from the
others. A row's multiplier is the potential of its part relative to the larger one. Without rare transitions
this is the flow matrix without its last row. Under a discount near 1 the whole itself is nearly closed, and
has a row, too.

**Lower bounds that hold whatever the solver did.** Any multipliers (nu, alpha, z >= 0) give
y = K'nu + alpha - z with <y, d> <= Y for every d of the set, Y = k0'nu + alpha - floor sum z. By Hölder's
inequality every such d has

    D_rho(mubar || d) >= rho/(rho-1) log sum mubar y^((rho-1)/rho) - log Y,      y >= 0,

sum mubar log y - log Y at rho = 1, log sum mubar y - log Y at rho = inf. At rho = 0 Gibbs' variational
inequality gives KL(d || mubar) >= -Y - log sum mubar exp(-y), y of any sign.

Floating point: the exact y of these multipliers is at least the computed one minus `_rounding`, entry by
entry, and the bounds increase with y, so they are evaluated at that lower end. If it is negative, all of y is
raised until it is 0, which raises <y, d> by this amount times the sum of d: 1, or `room` at most. After
division by Y, so that the scale of the multipliers does not matter, the rounding errors of logarithms and
sums are subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from rhocover.checks import BoolArray, FloatArray, IntArray, Matrix
from rhocover.coverage import Coverage, log_sum_exp
from rhocover.occupancy import Occupancies

# Rows for nearly closed sets.

RARE = 1e-3  # a transition below this costs three of the sixteen digits, so its part gets a row
MAX_LEVELS = 12  # of parts within parts


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows K of an occupancy set, `[m, N]`, and how their multipliers give potentials of states.

    Row k is the flow of the states with `labels[level[k]] == part[k]`.
    """

    K: Matrix
    k0: FloatArray
    labels: list[IntArray]  # per level, from the whole to single states: the part of each state
    level: IntArray
    part: IntArray
    head: IntArray  # a state whose potential is the part's
    base: IntArray  # a state whose potential is the larger part's; -1 if there is none

    def potential(self, nu: FloatArray) -> FloatArray:
        """Returns the potential of each state, `[S]`, from the multipliers of the rows."""
        total = np.zeros(self.labels[0].size)
        for k, labels in enumerate(self.labels):
            here = self.level == k
            step = np.zeros(labels.max(initial=0) + 1)
            step[self.part[here]] = nu[here]
            total += step[labels]
        return total

    def multipliers(self, potential: FloatArray) -> FloatArray:
        """Returns the multipliers of the rows, `[m]`, from a potential of each state."""
        return potential[self.head] - np.where(self.base >= 0, potential[self.base], 0.0)


def flow_rows(members: Occupancies) -> Rows:
    """Returns the flow equations of a set, independent, with a row for every nearly closed part."""
    labels = _nested_parts(members)
    level, part, head, base = (np.concatenate(column) for column in zip(*_tree(members, labels), strict=True))
    blocks = [members.flow_of_parts(parts)[part[level == k]] for k, parts in enumerate(labels)]
    K = sp.csr_array(sp.vstack(blocks, format="csr"))
    inflow = [_summed(members.inflow, parts)[part[level == k]] for k, parts in enumerate(labels)]
    return Rows(K, np.concatenate(inflow), labels, level, part, head, base)


def _summed(values: FloatArray, part: IntArray) -> FloatArray:
    return np.bincount(part, values, int(part.max(initial=0)) + 1).astype(np.float64, copy=False)


def _nested_parts(members: Occupancies) -> list[IntArray]:
    """Returns partitions of the states from the whole to single states, each within the one before."""
    num_states = members.flow.shape[0]
    whole, single = np.zeros(num_states, np.int64), np.arange(num_states)
    if members.criterion == "horizon" or num_states == 0:
        return [single]
    moves = _moves(members)
    found = [whole]
    for threshold in _thresholds(moves.data):
        labels = _strong_parts(moves, threshold)
        if labels.max() > found[-1].max():
            found.append(labels)
    if found[-1].max() + 1 < num_states:
        found.append(single)
    is_open = members.discount is not None and members.discount <= 1 - RARE
    return found[1:] if is_open and len(found) == 2 else found


def _moves(members: Occupancies) -> Matrix:
    """Returns the largest probability of each transition between two states, over actions, `[S, S]`."""
    flow = members.flow.tocoo()
    state = members.mdp.pair_state[flow.col]
    away = (flow.row != state) & (flow.data < 0)
    source, target, size = state[away], flow.row[away], -flow.data[away]
    order = np.lexsort((size, target, source))
    source, target, size = source[order], target[order], size[order]
    last = np.append((np.diff(source) != 0) | (np.diff(target) != 0), True)[: size.size]
    shape = (flow.shape[0], flow.shape[0])
    return sp.csr_array((size[last], (source[last], target[last])), shape=shape)


def _strong_parts(moves: Matrix, threshold: float) -> IntArray:
    """Returns the strongly connected part of each state, by transitions more likely than `threshold`."""
    often = moves.data > threshold
    source = np.repeat(np.arange(moves.shape[0]), np.diff(moves.indptr))[often]
    graph = sp.csr_array((moves.data[often], (source, moves.indices[often])), shape=moves.shape)
    return connected_components(graph, connection="strong")[1].astype(np.int64)


def _thresholds(sizes: FloatArray) -> list[float]:
    """Returns the probabilities to cut at, rarest first: each decade below RARE that has transitions."""
    rare = sizes[sizes <= RARE]
    decades = np.unique(np.ceil(np.log10(rare)))
    if decades.size > MAX_LEVELS:
        decades = decades[np.linspace(0, decades.size - 1, MAX_LEVELS).astype(int)]
    return [float(10.0**decade) for decade in decades]


def _tree(
    members: Occupancies, labels: list[IntArray]
) -> list[tuple[IntArray, IntArray, IntArray, IntArray]]:
    """Returns, per level, (level, part, head, base) of its rows: all parts but one of each larger part.

    The part without a row is the largest; among equals the one with the last state. Its head is that of the
    larger part, so that the potential of the larger part is that of a state.
    """
    heads = _heads(labels)
    rows = []
    for k, parts in enumerate(labels):
        count = parts.max(initial=0) + 1
        if k == 0:
            part = np.arange(count) if members.criterion != "average" else np.zeros(0, np.int64)
            base = np.full(part.size, -1)
        else:
            above = np.zeros(count, np.int64)
            above[parts] = labels[k - 1]
            base = heads[k - 1][above]
            part = np.flatnonzero(heads[k] != base)
            base = base[part]
        rows.append((np.full(part.size, k), part, heads[k][part], base))
    return rows


def _heads(labels: list[IntArray]) -> list[IntArray]:
    """Returns the head of each part, per level: within a part, the head of its largest part."""
    heads = [labels[-1]] if labels[-1].max(initial=0) + 1 == labels[-1].size else [_last(labels[-1])]
    for k in range(len(labels) - 2, -1, -1):
        size = np.bincount(labels[k + 1])
        above = labels[k][heads[-1]]  # the larger part of each part below, by its head
        order = np.lexsort((_last(labels[k + 1]), size, above))
        last = np.append(np.diff(above[order]) != 0, True)
        heads.append(heads[-1][order[last]])
    return heads[::-1]


def _last(labels: IntArray) -> IntArray:
    """Returns the last state of each part."""
    last = np.zeros(labels.max(initial=0) + 1, np.int64)
    np.maximum.at(last, labels, np.arange(labels.size))
    return last


# The solver's form.

SMALL_ORDER = 0.5
SMALL = 20_000  # entries of K up to which it is a plain array


@dataclass(frozen=True, eq=False)
class Program:
    """Maximise coverage over an occupancy set, in the solver's form."""

    K: Matrix  # [m, N]; a plain array for small models, where a sparse product is all overhead
    KT: Matrix  # its transpose, also by rows
    terms: int  # the most roundings in an entry of K'nu
    k0: FloatArray  # [m]
    has_mass_row: bool  # whether the row 1'd = theta is kept separate (average criterion)
    moving: FloatArray  # [N], 1-norm of each column of K: the flow of one visit
    coverage: Coverage
    mu_bar: FloatArray  # [N]
    floor: FloatArray | float  # one for all pairs, or one per pair [N]
    mass: FloatArray | float = 1.0  # [N]: theta is <mass, d>; 1 where every unknown is a share of the visits
    room: float = 1.0  # the most that the entries of a point of mass 1 can sum to
    scale: float = 1.0  # of the multipliers: k0'nu + alpha - floor sum z
    start: FloatArray | None = None  # [m], multipliers with K'nu + scale mass > 0 to begin with; None: zeros
    groups: tuple[int, int] | None = None  # numbers of flow rows and of rows of groups, if there are others

    @property
    def has_slack(self) -> BoolArray | None:
        """Which entries the solver keeps positive by x; None for all of them.

        At small orders a weight keeps its entry positive by itself, and x would slow the method down.
        """
        return None if self.start is None or self.rho >= SMALL_ORDER else ~self.coverage.support

    def divergence(self, d: FloatArray) -> float:
        """Returns D_rho of the entries with weights; where each has one, that of d."""
        if self.start is not None and self.rho == 0:
            d = np.where(self.coverage.support, d, 0.0)
        return self.coverage.divergence_unchecked(d)

    def mass_of(self, d: FloatArray) -> float:
        """Returns theta, the mass of a point."""
        return float(d.sum()) if self.start is None else float(self.mass @ d)

    @property
    def has_floor(self) -> bool:
        """Whether some pair has a positive floor."""
        return bool(np.any(self.floor > 0))

    def missed(self, d: FloatArray, mass: float | None = None) -> float:
        """Returns the residual of the flow equations at d, of this mass, relative to the whole flow.

        Relative, because in a chain that hardly ever moves every flow is small, and so is every residual.
        """
        mass = self.mass_of(d) if mass is None else mass
        missed = float(np.abs(self.K @ d - self.k0 * mass).sum())
        return missed / max(min(mass, float(self.moving @ d)), 1e-300)

    def row_error(self, d: FloatArray) -> float:
        """Returns the largest residual of a row relative to the flow through it: rounding is near 1e-15."""
        through = abs(self.K) @ d + np.abs(self.k0)
        residual = np.abs(self.K @ d - self.k0)
        return float(np.max(residual / np.maximum(through, 1e-300), initial=0.0))

    @property
    def rho(self) -> float:
        """The order of the divergence."""
        return self.coverage.rho

    @property
    def num_pairs(self) -> int:
        """The number of unknowns N."""
        return int(self.K.shape[1])


def make_program(members: Occupancies, coverage: Coverage, rows: Rows | None = None) -> Program:
    """Returns the program of an occupancy set and an objective over its pairs; `rows` are the set's."""
    rows = flow_rows(members) if rows is None else rows
    K, average = rows.K, members.criterion == "average"
    moving = np.asarray(abs(K).sum(axis=0)).ravel()
    # An entry of K'nu sums a column of K, and an entry of K may be a sum over a pair's transitions.
    terms = 2 * int(np.bincount(members.flow.indices, minlength=1).max(initial=0)) + len(rows.labels)
    K = K.toarray() if K.shape[0] * K.shape[1] <= SMALL else K
    KT = K.T if isinstance(K, np.ndarray) else K.T.tocsr()
    return Program(K, KT, terms, rows.k0, average, moving, coverage, coverage.mu_bar, members.floor)


# Lower bounds.

EPSILON = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Multipliers of a bound: nu for the rows of K, alpha for the mass, z >= 0 for the floor."""

    nu: FloatArray
    alpha: float
    z: FloatArray | float = 0.0


def dual_bound(program: Program, multipliers: Multipliers) -> float:
    """Returns a lower bound on every achievable divergence; -inf if the multipliers prove nothing."""
    nu, alpha, z = multipliers.nu, multipliers.alpha, 0.0
    if program.has_floor:
        z = np.maximum(multipliers.z, 0.0)
    if not (np.isfinite(nu).all() and np.isfinite(alpha)):
        return -np.inf
    total, error = _total(program, multipliers)
    y = program.KT @ nu + (alpha * program.mass - z) - _rounding(program, nu, alpha, z)
    if not np.isfinite(total + y.sum()):
        return -np.inf
    if program.rho == 0:
        total += program.room * _shortage(y, ~program.coverage.support)
        log_sum = log_sum_exp(program.coverage.log_mu_bar - y)
        return -total - log_sum - error - EPSILON * (_digits(program) + abs(log_sum))
    raised = max(0.0, -float(y.min()))
    if program.rho <= 1:  # a y of exactly 0 proves nothing there
        raised *= 2
    if total <= 0:
        return -np.inf
    most = total + program.room * raised + error
    mean, error = _power_mean_log(program, (y + raised) / most)
    return mean - error - 4 * EPSILON


def _shortage(y: FloatArray, where: BoolArray) -> float:
    """Returns by how much the entries of y that must not be negative have to be raised."""
    return max(0.0, -float(np.min(y, where=where, initial=0.0)))


def _power_mean_log(program: Program, y: FloatArray) -> tuple[float, float]:
    """Returns rho/(rho-1) log sum mubar y^((rho-1)/rho), its limits at 1 and inf, and its rounding error.

    In a sum of exponentials each share p_i has the rounding error of its exponent, and the exponents
    of the shares that matter are no larger than sum p log 1/p <= log n and the logarithm of the sum.
    """
    rho, k = program.rho, program.coverage.support
    with np.errstate(divide="ignore"):
        log_y = np.log(y[k])
    log_mu = program.coverage.log_mu_bar[k]
    error = EPSILON * _digits(program)
    if rho == 1:
        terms = np.exp(log_mu) * log_y
        return float(np.sum(terms)), error * float(np.sum(np.abs(terms)))
    power = 1.0 if rho == np.inf else (rho - 1) / rho
    if _is_flat(power * log_y):
        terms = np.exp(log_mu) * np.expm1(power * log_y)
        # the sum is above e^-1/2 - 1, so the logarithm makes its error less than twice as large
        return float(np.log1p(np.sum(terms))) / power, 2 * error * float(np.sum(np.abs(terms))) / abs(power)
    mean = log_sum_exp(log_mu + power * log_y) / power
    return mean, (error + EPSILON * abs(power * mean)) / abs(power)


def _is_flat(exponent: FloatArray) -> bool:
    """Whether expm1 is more accurate: near rho = 1 the sum is close to 1."""
    return bool(np.abs(exponent).max() < 0.5)


def _digits(program: Program) -> float:
    """Returns how many units in the last place a sum over pairs loses.

    The additions of a pairwise sum are at most 12 + log2 n deep; log mubar enters with its own size.
    """
    n, log_mu = program.num_pairs, program.coverage.log_mu_bar[program.coverage.support]
    return 12 + float(np.log2(n) + np.log(n)) + 2 * abs(float(log_mu.min()))


def _total(program: Program, multipliers: Multipliers) -> tuple[float, float]:
    """Returns Y = k0'nu + alpha - floor sum z and its rounding error."""
    inflow, total_z = program.k0 * multipliers.nu, 0.0
    if program.has_floor:
        total_z = float(np.sum(program.floor * np.maximum(multipliers.z, 0.0)))
    total = float(np.sum(inflow)) + multipliers.alpha - total_z
    depth = 12 + float(np.log2(program.num_pairs))
    size = float(np.sum(np.abs(inflow))) + abs(multipliers.alpha) + total_z
    return total, depth * EPSILON * size


def _rounding(program: Program, nu: FloatArray, alpha: float, z: FloatArray | float) -> FloatArray:
    """Returns a bound on the error of each entry of K'nu + alpha - z, `[n]`.

    Each entry is bounded by its own terms: between parts that hardly exchange anything multipliers are large,
    and the entries of K that they multiply are equally small.
    """
    return (program.terms + 3) * EPSILON * (abs(program.KT) @ np.abs(nu) + (abs(alpha) + z))


def slack_of_point(program: Program, multipliers: Multipliers, d: FloatArray) -> float:
    """Returns what to add to D(d) for the errors of d: residuals of the equations, and rounding.

    Off the set <y, d> exceeds Y by nu'(K d - k0) + alpha (sum d - 1) + z'(floor - d), and the bound on
    D(d) is lower by the logarithm of that, relative to Y.
    """
    z = np.maximum(multipliers.z, 0.0) if program.has_floor else 0.0
    total = 1.0 if program.rho == 0 else _total(program, multipliers)[0]
    scale = 1 / total if total > 0 else 1.0  # without Y there is no bound to correct
    off_mass = abs(program.mass_of(d) - 1)
    repair = scale * float(np.abs(multipliers.nu) @ np.abs(program.K @ d - program.k0))
    repair += max(1.0, scale * abs(multipliers.alpha)) * off_mass
    repair += scale * float(np.sum(z * np.maximum(program.floor - d, 0.0)))
    return repair + rounding_of_point(program, d)


def rounding_of_point(program: Program, d: FloatArray) -> float:
    """Returns how much the rounding of d and of the sums may change D(d)."""
    return _digits(program) * EPSILON * (1 + abs(program.divergence(d)))
