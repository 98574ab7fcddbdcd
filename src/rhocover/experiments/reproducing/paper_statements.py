"""The lemmas of the paper as numbers: both sides of each statement, their difference, and what is allowed.

"From Relative Entropy to Minimax: A Unified Framework for Coverage in MDPs" names the special cases of its
family: rho = 1 is relative entropy, rho = 2 average coverage and the error of an estimated model, rho -> inf
the worst case. The statements are checked on three models (`Scene`), in three groups.

`identities` are statements that hold for every occupancy. The left side is computed by the library
(`Coverage`), the right side is the formula written out with plain sums and powers. Numbers E1, E3, ... are
errata; `docs/paper.md` lists them.

`optima` are statements about optima: which divergence they minimise, and their limit as rho grows. Plans have
a certified gap; the minimax value is also computed by a linear program,

    max z  over  d = x + z mubar,  x >= 0,  d an occupancy,      min_d max_i mubar_i/d_i = 1/z.

Two statements are about trajectories, and are measured:

- with mu = sqrt(c), c = sum_s' P(1-P), U_2(d) = -n sum_i E|P_hat_i - P_i|_2^2 after n steps that visit pairs
  in proportion to d;
- Theorem 1: Algorithm 1 with tau_k = tau_1 k^2 is suboptimal by O(t^(-1/3)), up to a logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from rhocover import envs, weights
from rhocover.checks import FloatArray
from rhocover.coverage import Coverage
from rhocover.experiments.comparison import THEOREM, MeanEstimate, estimate, exponent
from rhocover.experiments.reproducing.reproduction import (
    Job,
    ReproducedRow,
    Reproduction,
    exactly,
    run_jobs,
)
from rhocover.exploring.explorers.algorithm1 import Algorithm1
from rhocover.exploring.explorers.feedback import Feedback
from rhocover.exploring.runs.result import grid_of_steps
from rhocover.linear_program import LinearProgram
from rhocover.mdp import MDP
from rhocover.occupancy import Occupancies
from rhocover.oracles import best_response, make_oracle
from rhocover.planning import Plan, plan
from rhocover.progress import Report

if TYPE_CHECKING:
    from rhocover.arguments import Method

# The models, weights and occupancies on which the statements are checked.

ROUNDING = 1e-12  # relative: sums of some hundred terms, each with a few rounding errors of 1e-16
CHANCE = 1 / 16_000  # probability that a statement about runs fails by chance: four standard errors
TOLERANCE = 1e-10  # of plans
PROGRAM = 1e-8  # relative: the accuracy to which linear programs are checked

SCENES: dict[str, tuple[str, Mapping[str, Any]]] = {
    "RiverSwim(6)": ("river_swim", {}),
    "Wheel(5)": ("wheel", {}),
    "Garnet(20, 3, 4)": ("garnet", {"num_states": 20, "num_actions": 3, "num_successors": 4}),
}


@dataclass(frozen=True, eq=False)
class Scene:
    """A model by name, its weights and an occupancy, per pair.

    Weights are 1, 2, 3 in turn over the pairs, so that M = sum mu is not 1 and a missing factor M is noticed.
    The occupancy is that of the uniform policy: positive everywhere, and not the optimum of any objective.
    """

    title: str
    env: str
    parameters: Mapping[str, Any]

    @cached_property
    def mdp(self) -> MDP:
        """The model."""
        return envs.make(self.env, **self.parameters)

    @cached_property
    def mu(self) -> FloatArray:
        """1, 2, 3, 1, 2, 3, ... `[n]`."""
        return 1.0 + (np.arange(self.mdp.num_pairs) % 3).astype(np.float64)

    @property
    def mass(self) -> float:
        """M, the sum of the weights."""
        return float(self.mu.sum())

    @property
    def mu_bar(self) -> FloatArray:
        """The weights divided by their sum."""
        return self.mu / self.mass

    @cached_property
    def members(self) -> Occupancies:
        """All occupancies."""
        return Occupancies.average(self.mdp)

    @cached_property
    def d(self) -> FloatArray:
        """The long-run visits of the uniform policy `[n]`."""
        share = 1 / np.bincount(self.mdp.pair_state)
        return self.members.from_policy(share[self.mdp.pair_state])

    def coverage(self, rho: float) -> Coverage:
        """Returns the objective of this order."""
        return Coverage(rho, self.mu)

    def best(self, rho: float, method: Method = "interior_point") -> Plan:
        """Returns the best plan of this order."""
        tol = TOLERANCE if method == "interior_point" else 1e-6
        return plan(self.mdp, rho, self.mdp.table(self.mu), tol=tol, method=method)

    def per_pair(self, best: Plan) -> FloatArray:
        """Returns a plan's occupancy `[n]`."""
        return self.mdp.per_pair(best.occupancy, "occupancy")

    def identity(self, label: str, left: float, right: float, *, note: str = "") -> ReproducedRow:
        """Returns the row of left = right, up to rounding."""
        return self.near(label, left, right, ROUNDING * max(1.0, abs(right)), relation="=", note=note)

    def near(
        self, label: str, left: float, right: float, allowed: float, *, relation: str = "->", note: str = ""
    ) -> ReproducedRow:
        """Returns the row of a left side that is within `allowed` of its limit, the right side."""
        ours, right = exactly(left), float(right)
        return ReproducedRow(
            self.title, label, ours, right, relation=relation, allowed=float(allowed), note=note
        )

    def at_most(
        self,
        label: str,
        left: float | MeanEstimate,
        right: float,
        *,
        allowed: float | None = 0.0,
        note: str = "",
    ) -> ReproducedRow:
        """Returns the row of left <= right."""
        ours = left if isinstance(left, MeanEstimate) else exactly(left)
        return ReproducedRow(self.title, label, ours, float(right), relation="<=", allowed=allowed, note=note)


def scenes() -> list[Scene]:
    """Returns new scenes."""
    return [Scene(title, *found) for title, found in SCENES.items()]


# Statements that hold for every occupancy.

STEP = 1e-5  # of a central difference: its error is near STEP^2, rounding near 1e-16/STEP
IDENTITY_ORDERS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0, 8.0, 32.0, 128.0, 1000.0, np.inf)
SMALL = 1e-6  # the distance from 0 and from 1 at which limits are evaluated
BELOW = "Below 1 the axis continues to entropy: twice the next term of the expansion in rho is allowed."


def identities(scene: Scene) -> Iterator[ReproducedRow]:
    """Yields the rows of one scene, in the order of the paper."""
    yield from _definition(scene)
    yield from _relative_entropy(scene)
    yield _average_coverage(scene)
    yield from _largest_ratio(scene)
    yield from _axis(scene)
    yield from _smoothness(scene)


def kl(p: FloatArray, q: FloatArray) -> float:
    """Returns sum p log(p/q) for positive p and q."""
    return float(np.sum(p * np.log(p / q)))


def entropy(p: FloatArray) -> float:
    """Returns -sum p log p for positive p."""
    return float(-np.sum(p * np.log(p)))


def next_term(d: FloatArray, mu_bar: FloatArray) -> float:
    """Returns KL(d | mubar) + E_d log^2(mubar/d), twice the slope of D_rho/rho in rho at 0."""
    return kl(d, mu_bar) + float(np.sum(d * np.log(mu_bar / d) ** 2))


def _definition(scene: Scene) -> Iterator[ReproducedRow]:
    """Eq. (1) and (2): the value, and the gradient towards mubar against a difference quotient."""
    mu, d, v = scene.mu, scene.d, scene.mu_bar - scene.d
    for rho in (1.5, 8.0):
        value = float(np.sum(mu**rho * d ** (1 - rho)) / (1 - rho))
        yield scene.identity(f"Eq. 1: U_{rho:g} by its definition", scene.coverage(rho).value(d), value)
    for rho in (1.0, 2.0):
        U, step = scene.coverage(rho).value, STEP * float(d.min())
        slope = (U(d + step * v) - U(d - step * v)) / (2 * step)
        gradient = float(np.sum((mu / d) ** rho * v))
        # Rounding in U over the step, and step^2 times a third derivative, relative to min d.
        allowed = 64 * np.finfo(float).eps * abs(U(d)) / step + 100 * STEP**2 * abs(gradient)
        label = f"Eq. 2: slope of U_{rho:g} is <(mu/d)^{rho:g}, mubar - d>"
        yield scene.near(label, slope, gradient, allowed, relation="=")


def _relative_entropy(scene: Scene) -> Iterator[ReproducedRow]:
    """Lemma 1, and erratum E1: D_rho, not U_rho, tends to it."""
    mu_bar, d = scene.mu_bar, scene.d
    right = -scene.mass * (kl(mu_bar, d) + entropy(mu_bar))
    yield scene.identity("Lemma 1: U_1 = -M (KL(mubar|d) + H(mubar))", scene.coverage(1).value(d), right)
    near = 1 + SMALL
    spread = float(np.sum(mu_bar * np.log(mu_bar / d) ** 2))
    yield scene.near(
        f"E1: D_rho -> KL(mubar|d) as rho -> 1, at 1 + {SMALL:g}",
        scene.coverage(near).divergence(d), kl(mu_bar, d), SMALL * spread,
        note="E1: U_rho itself has no limit as rho decreases to 1; it is about -M/(rho - 1) there. D_rho has "
        "one; twice the next term of its expansion is allowed.",
    )  # fmt: skip


def _average_coverage(scene: Scene) -> ReproducedRow:
    """Lemma 2 with erratum E3."""
    mean = float(np.sum(scene.mu_bar * scene.mu / scene.d))
    return scene.identity(
        "Lemma 2 (E3): U_2 = -M E_mubar[mu/d]", scene.coverage(2).value(scene.d), -scene.mass * mean,
        note="E3: the paper prints U_2 = -E_mubar[mu/d]; the factor M = sum mu is missing there.",
    )  # fmt: skip


def _largest_ratio(scene: Scene) -> Iterator[ReproducedRow]:
    """Lemma 3, between its two bounds, and the growing preference for the worst pair."""
    ratio, d = scene.mu / scene.d, scene.d
    worst = int(np.argmax(ratio))
    for rho in (8.0, 32.0, 128.0, 1000.0):
        lower = float(d[worst] ** (1 / rho) * ratio[worst])
        yield scene.near(
            f"Lemma 3: V_{rho:g} -> max mu/d", float(np.exp(scene.coverage(rho).log_v(d))), ratio[worst],
            (1 + ROUNDING) * ratio[worst] - lower,
            note="Lemma 3: V_rho is between d_i^(1/rho) r_max and r_max, i the worst pair; this is allowed.",
        )  # fmt: skip
    last, rho = int(np.argmin(ratio)), 32.0
    log_gradient = scene.coverage(rho).log_gradient(d)
    yield scene.identity(
        "Worst over best pair's gradient, log, rho = 32",
        float(log_gradient[worst] - log_gradient[last]), rho * float(np.log(ratio[worst] / ratio[last])),
    )  # fmt: skip


def _axis(scene: Scene) -> Iterator[ReproducedRow]:
    """One axis: U_rho as a Rényi divergence, down to entropy at rho = 0, growing in rho."""
    mu_bar, d, n = scene.mu_bar, scene.d, scene.d.size
    for rho in (0.5, 2.0, 8.0):
        left = (1 - rho) * scene.coverage(rho).value(d)
        right = scene.mass**rho * float(np.exp((rho - 1) * scene.coverage(rho).divergence(d)))
        yield scene.identity(f"(1-rho) U = M^rho exp((rho-1) D_rho), rho = {rho:g}", left, right)
    yield scene.near(
        f"D_rho/rho -> KL(d|mubar) as rho -> 0, at {SMALL:g}",
        scene.coverage(SMALL).divergence(d) / SMALL, kl(d, mu_bar),
        SMALL * next_term(d, mu_bar), note=BELOW,
    )  # fmt: skip
    half = float(np.log(np.sum(d**0.5)) / 0.5)  # the Rényi entropy of order 1/2
    for rho, order, found in ((0.5, "H_0.5", half), (0.0, "H", entropy(d))):
        left = Coverage(rho, np.ones(n)).divergence(d)
        yield scene.identity(f"Uniform mu: D_{rho:g} = log n - {order}(d)", left, np.log(n) - found)
    divergences = [scene.coverage(rho).divergence(d) for rho in IDENTITY_ORDERS[1:]]
    yield scene.at_most(
        "D_rho grows with rho: largest step down", float(-np.diff(divergences).min()), 0.0, allowed=ROUNDING
    )


def _smoothness(scene: Scene) -> Iterator[ReproducedRow]:
    """Lemma 5: a bound on the change of the gradient on D_eta, and where it is attained."""
    rho, (t_star, middle) = 2.0, scene.members.max_floor()
    constant = float(np.exp(scene.coverage(rho).log_smoothness(t_star / 4)))
    slope = _steepest(scene, rho, middle)
    yield scene.at_most("Lemma 5: change of grad U_2 on D_eta <= C_eta", slope, constant)
    heaviest = (np.arange(middle.size) == np.argmax(scene.mu)).astype(float)
    corner = best_response(Occupancies.average(scene.mdp, eta=t_star / 4), -heaviest).occupancy
    curvature = float(np.exp(scene.coverage(rho).log_curvature(corner)).max())
    yield scene.near(
        "Lemma 5: C_eta is attained where the heaviest pair has 2 eta", curvature, constant,
        PROGRAM * constant, relation="=",
    )  # fmt: skip


def _steepest(scene: Scene, rho: float, middle: FloatArray) -> float:
    """Returns the largest |grad U(d) - grad U(d')|/|d - d'| over ten pairs of members with d >= t*/2."""
    oracle, rng = make_oracle(scene.members), np.random.default_rng(0)
    corners = [oracle.respond(rng.standard_normal(middle.size)).occupancy for _ in range(20)]
    points = [(middle + corner) / 2 for corner in corners]  # members of D_eta with 2 eta = t*/2
    gradients = [(scene.mu / point) ** rho for point in points]
    return max(
        float(np.linalg.norm(gradients[k] - gradients[k + 1]) / np.linalg.norm(points[k] - points[k + 1]))
        for k in range(0, len(points), 2)
        if not np.array_equal(points[k], points[k + 1])
    )


# Statements about optima.

LARGE = (8.0, 32.0, 128.0, 1000.0)
OPTIMUM_ORDERS = (0.5, 1.0, 2.0, 8.0, 32.0, 1000.0, np.inf)


def optima(scene: Scene) -> Iterator[ReproducedRow]:
    """Yields the rows of one scene."""
    yield from _first_order(scene)
    yield from _worst_case(scene)
    yield from _entropy(scene)


def _first_order(scene: Scene) -> Iterator[ReproducedRow]:
    """Lemma 1 at the optimum: no occupancy has a smaller KL, by the dual bound."""
    best = scene.best(1.0)
    d, mu_bar = scene.per_pair(best), scene.mu_bar
    right = -scene.mass * (best.lower_bound + entropy(mu_bar))
    yield scene.near(
        "Lemma 1: max U_1 is at min KL(mubar|d)", scene.coverage(1).value(d), right,
        scene.mass * (TOLERANCE + ROUNDING), relation="=",
        note="The right side is computed from the dual bound, a lower bound on the KL of every occupancy.",
    )  # fmt: skip
    found = [scene.best(rho).divergence for rho in OPTIMUM_ORDERS]
    yield scene.at_most(
        "min D_rho grows with rho: largest step down", float(-np.diff(found).min()), 0.0, allowed=TOLERANCE
    )


def _worst_case(scene: Scene) -> Iterator[ReproducedRow]:
    """Lemma 4: the worst ratios of optima decrease to the minimax value, by two methods."""
    lowest = minimax_ratio(scene)
    yield scene.near(
        "Lemma 4: plan at rho = inf, and the linear program", scene.best(np.inf).worst_ratio, lowest,
        PROGRAM * lowest, relation="=",
    )  # fmt: skip
    for rho in LARGE:
        excess = (1 / scene.mu_bar.min()) ** (1 / (rho - 1)) - 1
        yield scene.near(
            f"Lemma 4: worst ratio of the plan at {rho:g} -> minimax", scene.best(rho).worst_ratio, lowest,
            lowest * (excess + PROGRAM),
            note="For Lemma 4, a factor (1/min mubar)^(1/(rho-1)) is allowed: D_rho <= D_inf implies it.",
        )  # fmt: skip


def _entropy(scene: Scene) -> Iterator[ReproducedRow]:
    """Uniform weights at rho = 0: the largest entropy, and KL(d | mubar) as its other side."""
    best = plan(scene.mdp, 0.0, tol=TOLERANCE)
    d = scene.mdp.per_pair(best.occupancy, "occupancy")
    n = d.size
    yield scene.near(
        "rho = 0, uniform mu: max H(d) = log n - min D_0", entropy(d), np.log(n) - best.lower_bound,
        TOLERANCE + 4 * ROUNDING, relation="=",
    )  # fmt: skip
    rho, tol, flat = 1e-4, 1e-6, np.full(n, 1 / n)
    close = scene.mdp.per_pair(plan(scene.mdp, rho, tol=tol).occupancy, "occupancy")
    allowed = tol + rho * (next_term(close, flat) + next_term(d, flat))
    yield scene.near(
        "Least KL(d|mubar) of optima as rho -> 0, at 1e-4", kl(close, flat), kl(d, flat), allowed, note=BELOW
    )


def minimax_ratio(scene: Scene) -> float:
    """Returns min over d of max mubar/d by the linear program."""
    matrix, right_side = scene.members.equations()
    shift = matrix @ scene.mu_bar
    program = LinearProgram(sp.hstack([matrix, shift[:, None]], format="csr"), right_side, 0.0)
    costs = np.zeros(scene.mu_bar.size + 1)
    costs[-1] = 1.0
    return 1 / program.solve(costs).value


# Statements about trajectories, and the whole reproduction.

NAME, NUM_STEPS, SEEDS = "paper-special-cases", 20_000, 100
THEOREM_SEEDS, THEOREM_POINTS = 10, 5  # fewer runs are enough: an exponent varies little
CITATION = (
    "Gu, Mitra, Javidi, From relative entropy to minimax: a unified framework for coverage in MDPs, "
    "arXiv 2601.11890, with the errata of docs/paper.md"
)


def special_cases(
    seeds: tuple[int, ...], num_steps: int, workers: int | None, report: Report | None
) -> Reproduction:
    """Returns the statements on three models."""
    found, few = scenes(), seeds[:THEOREM_SEEDS]
    jobs: list[Job] = []
    for scene in found:
        jobs += _errors(scene, num_steps, seeds) + _theorem(scene, num_steps, few)
    numbers, size = run_jobs(jobs, workers, report), len(seeds) + len(few)
    rows: list[ReproducedRow] = []
    for k, scene in enumerate(found):
        own = numbers[k * size : (k + 1) * size]
        rows += [*identities(scene), *optima(scene)]
        rows += [_error_row(scene, own[: len(seeds)]), _theorem_row(scene, num_steps, own[len(seeds) :])]
    return Reproduction(
        name=NAME,
        title="The paper's statements as numbers",
        citation=CITATION,
        text="Unless stated, mu = 1, 2, 3 in turn over the pairs, and d the occupancy of the uniform "
        f"policy. Model errors are from {len(seeds)} runs of {num_steps:,} steps, Theorem 1 from {len(few)}.",
        rows=tuple(rows),
        columns={
            "ours": "left", "relation": "", "published": "right", "difference": "left - right",
            "allowed": "allowed", "holds": "holds",
        },
        digits=8,
    )  # fmt: skip


def _errors(scene: Scene, num_steps: int, seeds: Sequence[int]) -> list[Job]:
    arguments = {"mu": weights.transition_std(scene.mdp)}
    return [
        Job(scene.env, Feedback(), 2.0, num_steps, seed, "squared_error", scene.parameters, arguments)
        for seed in seeds
    ]


def _error_row(scene: Scene, numbers: Sequence[FloatArray]) -> ReproducedRow:
    """Lemma 2 for the model error: -n sum E|P_hat - P|^2 measured, and U_2 of the plan."""
    mu = scene.mdp.per_pair(weights.transition_std(scene.mdp), "mu")
    best = plan(scene.mdp, 2.0, weights.transition_std(scene.mdp))
    measured = estimate(-np.concatenate(numbers))
    return ReproducedRow(
        scene.title, "Lemma 2: -n sum |P_hat - P|_2^2, and U_2", measured,
        Coverage(2.0, mu).value(scene.per_pair(best)), relation="=",
        allowed=allowance(measured, len(numbers)),
        note="mu = sqrt(c), which is zero if the next state is certain (E4): such pairs are left out on both "
        "sides. The left side is a mean over runs of feedback; the allowed difference is exceeded by "
        "chance once in 16,000 times, which is four standard errors with many runs.",
    )  # fmt: skip


def allowance(measured: MeanEstimate, num_runs: int) -> float | None:
    """Returns the difference that chance exceeds once in 16,000 times, by Student's t; None for one run."""
    from scipy.special import stdtrit

    if math.isnan(measured.standard_error) or num_runs < 2:
        return None
    return float(stdtrit(num_runs - 1, 1 - CHANCE / 2)) * measured.standard_error


def _theorem(scene: Scene, num_steps: int, seeds: Sequence[int]) -> list[Job]:
    arguments = {"mu": scene.mdp.table(scene.mu), "trace_points": THEOREM_POINTS}
    return [
        Job(scene.env, Algorithm1(), 2.0, num_steps, seed, "regret_curve", scene.parameters, arguments)
        for seed in seeds
    ]


def _theorem_row(scene: Scene, num_steps: int, numbers: Sequence[FloatArray]) -> ReproducedRow:
    """Theorem 1: the exponent with which the regret of Algorithm 1 falls, and -1/3."""
    steps = np.array(grid_of_steps(num_steps, THEOREM_POINTS, 1))
    found: MeanEstimate = exponent(steps, np.array(numbers))
    return scene.at_most(
        "Theorem 1: exponent of Algorithm 1 at rho = 2", found, THEOREM,
        allowed=allowance(found, len(numbers)),
        note="Theorem 1 is an upper bound, so a faster decrease agrees with it. Measured over the last two "
        "decades of steps on the pathwise regret, because U(d*) - U(d_hat) changes its sign by chance.",
    )  # fmt: skip
