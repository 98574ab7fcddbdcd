"""plan_features(): visits that cover the directions of features, with a certificate.

Where a model is linear in features phi(s, a), what has to be covered are directions, not pairs: the error
of a linear estimate along v is v'M^-1 v, M = E_d[phi phi'] the information matrix of the visits. The
objective (`feature_objective`) compares M with a target N: N = E_mu[phi phi'], the visits of weights mu, or
the identity, where orders 1, 2 and inf are the D-, A- and E-optimal designs of statistics, over the
occupancies that the model allows.

1. **Read.** Pairs that can be visited again and again are kept. Their features span a subspace, found from
   their Gram matrix to seven digits; everything is computed in coordinates of it. A part of N outside of it
   has infinite divergence and is refused, or left out and reported with `restrict=True`.
2. **Solve**: the interior point (`feature_newton`). Where it stops early, mixtures of best responses continue
   from its visits (`feature_frank_wolfe`); they are also the method for problems too large for it.
3. **Evaluate** the policy: what is reported are its own visits, each entry to 14 digits.
4. **Certify** by one best response to the scores phi'G phi, G the negative gradient at the solver's point or
   at the reported one (at rho = inf the solver's multiplier). The bound holds for every such G, however it
   was found; the oracle's value bounds every policy; rounding errors of scores and eigenvalues are added.

The allowance for the rounding of eigenvalues is of first order: they are exact for a matrix within k units
in the last place of the largest eigenvalue.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import eigh

from rhocover import checks
from rhocover.checks import FloatArray, frozen
from rhocover.errors import (
    InvalidArgumentError,
    NotCommunicatingError,
    NotConvergedError,
    SolverError,
    Text,
    parse_text,
)
from rhocover.linalg.normal_equations import one_blas_thread
from rhocover.mdp import MDP, check_mdp
from rhocover.occupancy import DISCOUNT, Occupancies
from rhocover.oracles import best_response
from rhocover.planning.feature_frank_wolfe import Stop, frank_wolfe_design
from rhocover.planning.feature_newton import DesignProblem, solve_design
from rhocover.planning.feature_objective import EPSILON, SMALLEST_ORDER, FeatureCoverage
from rhocover.planning.information import Rays, information, quadratic_forms
from rhocover.planning.problem import (
    LONG_RUN,
    Criterion,
    Objective,
    PlanningProblem,
    counted_visits,
    num_weighted_components,
    weights_of,
)
from rhocover.planning.program import Rows
from rhocover.printing import count_of, printed
from rhocover.progress import progress

if TYPE_CHECKING:
    from rhocover.arguments import FeatureMethod, Features, Start, Weights

# The result.

DESIGNS = {"D": 1.0, "A": 2.0, "E": np.inf}


@dataclass(frozen=True, eq=False)
class FeaturePlan:
    """A policy whose visits cover the directions of features, and a proof of how close to the best.

    `divergence - gap` is a lower bound for every policy of the model. Matrices are `[k, k]` in the caller's
    features; occupancy and policy are tables `[S, A]`, or `[H, S, A]` with a horizon.
    """

    mdp: MDP
    rho: float
    design: str  # "D", "A" or "E" if the target is the identity and rho its order, or ""
    features: FloatArray  # of each pair of the model, [n, k]
    target: FloatArray  # N
    occupancy: FloatArray
    policy: FloatArray
    information: FloatArray  # M, the mean of phi phi' over the visits
    eigenvalues: FloatArray  # of M relative to N, ascending; one for each direction that N has
    worst_direction: FloatArray  # [k], of length 1: there M is smallest relative to N
    divergence: float  # of N and M; negative where visits have more information than the target
    gap: float  # certified: divergence - gap <= the smallest divergence possible
    method: str
    steps: int
    seconds: float
    restriction: str  # which directions were left out; "" if none
    discount: float | None = None

    @property
    def lower_bound(self) -> float:
        """A lower bound on the divergence that any policy can reach."""
        return self.divergence - self.gap

    @property
    def worst_ratio(self) -> float:
        """N over M along the worst direction: by this factor it has too little information."""
        return float(1 / self.eigenvalues[0])

    @property
    def efficiency(self) -> float:
        """A lower bound on the efficiency of the design: the best needs at least this share of its steps."""
        return float(np.exp(-self.gap))

    def scores(self) -> FloatArray:
        """Returns phi'M^-1 phi of each pair, `[n]`: the squared elliptical bonus of LSVI-UCB and E3B.

        It is computed within the directions that the visits excite; other parts of a feature do not count.
        """
        size, V = np.linalg.eigh(self.information)
        seen = size > NULL * size[-1]
        psi = self.features @ (V[:, seen] / np.sqrt(size[seen]))
        return np.asarray(np.sum(psi * psi, axis=1), np.float64)

    def summary(self) -> dict[str, Any]:
        """Returns the numbers of the plan as a JSON document (infinities as text)."""
        numbers = {
            "rho": self.rho,
            "divergence": self.divergence,
            "gap": self.gap,
            "efficiency": self.efficiency,
            "worst_ratio": self.worst_ratio,
        }
        return {
            "model": self.mdp.name or repr(self.mdp),
            "fingerprint": self.mdp.fingerprint,
            **{key: value if np.isfinite(value) else str(value) for key, value in numbers.items()},
            "design": self.design,
            "num_features": self.features.shape[1],
            "eigenvalues": self.eigenvalues.tolist(),
            "worst_direction": self.worst_direction.tolist(),
            "method": self.method,
            "steps": self.steps,
            "seconds": self.seconds,
            "restriction": self.restriction,
        }

    @printed
    def __str__(self) -> str:
        horizon = len(self.occupancy) if self.occupancy.ndim == 3 else None
        visits = counted_visits(self.discount, horizon)
        what = f"{self.design}-optimal design" if self.design else "Plan"
        text = (
            f"{what} for {count_of(self.features.shape[1], 'feature')} of {self.mdp.name or 'the model'} at "
            f"rho = {self.rho:g}{'' if visits == LONG_RUN else f', {visits}'}.\n"
            f"  divergence  {self.divergence:.9g}  (at most {self.gap:.1e} above the best possible)\n"
            f"  efficiency  at least {self.efficiency:.9g}  (the best design needs that share of the steps)\n"
            f"  worst ratio {self.worst_ratio:.6g}  (the worst direction has too little information by this "
            f"factor)\n"
            f"  {count_of(self.steps, 'step')} of {self.method} in {self.seconds:.3g} s"
        )
        return f"{text}\n  {self.restriction}" if self.restriction else text

    __repr__ = __str__


# Planning.

FEATURE_METHODS = ("interior_point", "corrective", "frank_wolfe")
NEWTON_STEPS = 200
RESPONSES = 20_000
AIM = 0.05  # of tol: evaluation of the policy and rounding come on top
SHARE_OF_UNIFORM = 0.25  # of tol: it connects what the visits may leave apart
LARGEST = 2e8  # entries of the matrix of directions, [n, k(k+1)/2], up to which the interior point is used
NULL = 1e-13  # of the largest eigenvalue of the features' Gram matrix: seven digits of the features
OUTSIDE = 1e-12  # of tr N: a part of this size outside of what can be visited is rounding
LARGEST_FEATURE = 1e100
LARGEST_ORDER = 1e4
MEMBERSHIP = 1e-9


def plan_features(
    mdp: MDP,
    rho: float = 1.0,
    *,
    phi: Features,
    mu: Weights | None = None,
    design: str | None = None,
    discount: float | None = None,
    horizon: int | None = None,
    start: Start | None = None,
    restrict: bool = False,
    method: FeatureMethod | None = None,
    tol: float = 1e-6,
    max_steps: int | None = None,
    time_limit: float | None = None,
    throw: bool = True,
) -> FeaturePlan:
    """Returns the policy whose visits cover the directions of features best, with a certified gap.

    `phi` are the features of the pairs, `[S, A, k]` or one row per pair `[n, k]`, or a function of the model
    that returns them. Visits d have the information matrix M = E_d[phi phi'], and the target is
    N = E_mu[phi phi'] for weights `mu` `[S, A]` (None is uniform), or the identity with `mu="identity"`. What
    is minimised is the sandwiched Rényi divergence of N and M of order `rho` in [1/2, inf]; features that
    mark the pairs make it the divergence of `plan`. `design` is "D", "A" or "E": the identity as target, and
    rho = 1, 2 or inf.

    `discount`, `horizon` and `start` say which visits count, as in `plan`; with a horizon those of all steps
    together. Directions with weight that no policy can excite are refused, or left out and reported with
    `restrict=True`, which also keeps only the heaviest end component if there are several.

    `method` is "interior_point", "corrective" (Frank-Wolfe with the best mixture of all responses), or
    "frank_wolfe" (pairwise steps; finite orders). None is the first, or the second for very many pairs and
    features; where the first stops early, and `max_steps` is None, the second continues. If the certified
    gap is above `tol`, `NotConvergedError` is raised; `throw=False` returns the plan in any case. Causes:
    features whose scales differ by 10^3 or more with the identity as target (divide by their spread), and
    orders above 100 (use rho = inf).

    >>> import numpy as np
    >>> import rhocover as rc
    >>> x = np.linspace(-1, 1, 5)  # one state, five arms: quadratic regression
    >>> bandit = rc.MDP(np.ones((1, 5, 1)))
    >>> best = rc.plan_features(bandit, phi=np.stack([x**0, x, x**2], axis=-1)[None], design="D")
    >>> best.occupancy.round(3)
    array([[0.333, 0.   , 0.333, 0.   , 0.333]])
    """
    began = time.perf_counter()
    check_mdp(mdp)
    rho, mu = _read_order(rho, mu, design)
    chosen = None if method is None else checks.choice(method, "method", FEATURE_METHODS)
    stop = _read_stop(tol, max_steps, time_limit, began)
    restrict = checks.flag(restrict, "restrict")
    task = _Task.read(mdp, rho, phi, mu, Criterion(discount, horizon, start, restrict))
    with one_blas_thread(), progress(f"planning for {count_of(task.phi.shape[1], 'feature')}") as told:
        report = lambda state: told.note(f"step {state.steps}, gap {abs(state.gap):.1e}")  # noqa: E731
        found = solve_features(task.core, replace(stop, report=report), chosen)
    result = task.plan(found, time.perf_counter() - began)
    if throw and not result.gap <= stop.tol:
        raise NotConvergedError(_explain(result, stop.tol))
    return result


def _explain(found: FeaturePlan, tol: float) -> str:
    end = f"pass tol={found.gap * 1.1:.2g} to accept it" if np.isfinite(found.gap) else "it proves nothing"
    return (
        f"tol={tol:g} was not reached at rho={found.rho:g}: the gap is {found.gap:.2g} after "
        f"{count_of(found.steps, 'step')} of {found.method}; {end}, or allow more steps or time. throw=False "
        f"returns this plan."
    )


def _read_stop(tol: Any, max_steps: Any, time_limit: Any, began: float) -> Stop:
    """Returns when to stop; 0 steps are the default of the method."""
    tol = checks.positive(tol, "tol")
    max_steps = 0 if max_steps is None else checks.integer(max_steps, "max_steps", least=1)
    deadline = np.inf if time_limit is None else began + checks.positive(time_limit, "time_limit")
    return Stop(tol, max_steps, deadline)


def _read_order(rho: Any, mu: Any, design: Any) -> tuple[float, Any]:
    """Returns the order and the weights that the arguments ask for."""
    rho = checks.number(rho, "rho")
    if design is not None:
        design = checks.choice(design, "design", tuple(DESIGNS))
        _check_design(rho, mu, design)
        rho, mu = DESIGNS[design], "identity"
    if not rho >= SMALLEST_ORDER:
        raise InvalidArgumentError.of(
            "rho", "must be in [1/2, inf]: below, the divergence of matrices is not convex", f"{rho:g}"
        )
    if LARGEST_ORDER < rho < np.inf:
        raise InvalidArgumentError.of(
            "rho", f"must be at most {LARGEST_ORDER:g} or inf", f"{rho:g}",
            remedy="So close to inf float64 cannot tell the orders apart.",
        )  # fmt: skip
    return rho, mu


def _check_design(rho: float, mu: Any, design: str) -> None:
    if rho not in (1.0, DESIGNS[design]):
        raise InvalidArgumentError.of(
            "rho", f"must be {DESIGNS[design]:g} for a design of the kind {design}", f"{rho:g}",
            remedy="Leave it out, or leave out the design.",
        )  # fmt: skip
    if mu is not None and not (isinstance(mu, str) and mu == "identity"):
        raise InvalidArgumentError.of(
            "mu", parse_text("must be left out with `design`, whose target is the identity"),
            remedy=parse_text("Leave out `design`, and pass `rho`."),
        )  # fmt: skip


# The core: values in, values out.


@dataclass(frozen=True, eq=False)
class FeatureProblem:
    """Visits of `members` with features `phi` of full rank, in the coordinates of the objective."""

    members: Occupancies
    rows: Rows  # of the members
    phi: FloatArray  # per entry of the set, [N, k]
    coverage: FeatureCoverage


@dataclass(frozen=True, eq=False)
class FeatureSolution:
    """The visits of a policy, `[N]`, and what is proved about them."""

    d: FloatArray
    M: FloatArray
    divergence: float
    gap: float
    method: str
    steps: int


def solve_features(problem: FeatureProblem, stop: Stop, method: str | None = None) -> FeatureSolution:
    """Returns the visits of a policy with a certified gap; 0 steps are the default of the method."""
    size = problem.phi.shape[0] * problem.phi.shape[1] ** 2 / 2
    method = method or ("interior_point" if size <= LARGEST else "corrective")
    if method == "frank_wolfe" and problem.coverage.rho == np.inf:
        raise InvalidArgumentError(
            "Frank-Wolfe needs rho < inf: the smallest eigenvalue has no gradient.",
            argument="rho",
            remedy=parse_text("Use `method='corrective'`."),
        )
    uniform = _uniform_visits(problem.members)
    if method != "interior_point":
        return _by_responses(problem, uniform, stop, method)
    first = _by_newton(problem, uniform, stop)
    if first.gap <= stop.tol or stop.max_steps or time.perf_counter() >= stop.deadline:
        return first
    start = first.d if np.isfinite(problem.coverage.divergence(first.M)) else uniform
    more = _by_responses(problem, start, stop, "corrective")
    more = replace(more, steps=more.steps + first.steps, method="interior_point and corrective")
    return min(more, first, key=lambda one: one.gap)


def _by_newton(problem: FeatureProblem, uniform: FloatArray, stop: Stop) -> FeatureSolution:
    design = DesignProblem(problem.coverage, Rays(problem.phi), problem.rows.K, problem.rows.k0)
    end = solve_design(
        design, uniform, tol=AIM * stop.tol, max_steps=stop.max_steps or NEWTON_STEPS, report=stop.report,
        deadline=stop.deadline,
    )  # fmt: skip
    found = _checked(problem, end.d / end.d.sum(), end.W, stop.tol)
    return replace(found, method="interior_point", steps=end.steps)


def _by_responses(problem: FeatureProblem, d: FloatArray, stop: Stop, method: str) -> FeatureSolution:
    within = replace(stop, tol=(1 - 2 * SHARE_OF_UNIFORM) * stop.tol, max_steps=stop.max_steps or RESPONSES)
    end = frank_wolfe_design(
        problem.members, Rays(problem.phi), problem.coverage, d, variant=method, stop=within
    )
    return replace(_checked(problem, end.d, end.W, stop.tol), method=method, steps=end.steps)


def _uniform_visits(members: Occupancies) -> FloatArray:
    return members.from_policy(1 / np.bincount(members.node)[members.node])


# The check of the result.


def _checked(problem: FeatureProblem, d: FloatArray, W: FloatArray, tol: float) -> FeatureSolution:
    """Returns the solution, with every number computed again from the visits of d's policy.

    The bound comes from the solver's own point, which need not be an occupancy, and where that is not enough
    from the reported one, too.
    """
    coverage, phi = problem.coverage, problem.phi
    visits = _visits(problem.members, d, SHARE_OF_UNIFORM * tol)
    M = information(phi, visits)
    divergence, rounding = coverage.divergence(M), coverage.rounding(M)
    gap = np.inf
    for reference in (information(phi, d), M):
        bound = lower_bound(problem, reference, W)
        gap = min(gap, max(divergence - bound, 0.0) + rounding) if np.isfinite(divergence) else np.inf
        if gap <= tol or coverage.rho == np.inf:
            break
    if not problem.members.contains(visits, MEMBERSHIP):
        gap = np.inf
    return FeatureSolution(visits, M, divergence, gap, "", 0)


def _visits(members: Occupancies, d: FloatArray, share: float) -> FloatArray:
    """Returns the visits of d's policy, with a share of uniform ones: d may lie in parts it never leaves.

    The share costs at most log 1/(1 - share) in divergence, because M is at least 1 - share of what it was.
    """
    d = np.maximum(d, 0.0)
    if members.criterion == "average":
        d = (1 - share) * d + share * _uniform_visits(members)
    return members.from_policy(members.to_policy(d))


def lower_bound(problem: FeatureProblem, M: FloatArray, W: FloatArray) -> float:
    """Returns a lower bound on the divergence of every member, rounding included; -inf if nothing is proved.

    For a finite order from G at any positive definite M, D* >= D(M) - log max_d' tr(G M(d')) + log tr(G M);
    at rho = inf from any W >= 0, D* >= log tr(W N) - log max_d' tr(W M(d')).
    """
    coverage, phi, k = problem.coverage, problem.phi, M.shape[0]
    base, relative = 0.0, 4 * k * EPSILON
    if coverage.rho < np.inf:
        base, rounding = coverage.divergence(M), coverage.rounding(M)
        if not np.isfinite(base + rounding):
            return -np.inf
        W = coverage.gradient(M)
        relative = relative * (1 + 8 * (1 + coverage.rho)) + rounding  # entries of G are powers
    size, V = np.linalg.eigh(W)
    factor = V * np.sqrt(np.maximum(size, 0.0))  # so that the scores are those of a W >= 0 exactly
    error = 4 * k * EPSILON * quadratic_forms(np.abs(phi), np.abs(factor) @ np.abs(factor).T)
    try:
        best = best_response(problem.members, np.sum((phi @ factor) ** 2, axis=1) + error).upper_bound
    except SolverError:  # no bound on the scores, so none on the divergence
        return -np.inf
    root = coverage.root if coverage.rho == np.inf else np.linalg.cholesky(M)
    unit = float(np.sum((factor.T @ root) ** 2))
    if not (unit > 0 and 0 < best < np.inf):
        return -np.inf
    return base + float(np.log(unit) - np.log(best)) - relative


# Reading.


@dataclass(frozen=True, eq=False)
class _Task:
    """The problem with what turns its solution into tables and the caller's coordinates."""

    problem: PlanningProblem
    core: FeatureProblem
    phi: FloatArray  # of every pair of the model, in the caller's units, [n, k]
    target: FloatArray  # N in the caller's units
    basis: FloatArray  # [k, r]: coordinates x = basis'phi / scale
    scale: float
    is_identity: bool
    restriction: str

    @classmethod
    def read(cls, mdp: MDP, rho: float, phi: Any, mu: Any, criterion: Criterion) -> _Task:
        """Returns the checked problem; errors use the caller's names of arguments."""
        phi = _read_features(mdp, phi)
        is_identity = isinstance(mu, str) and mu == "identity"
        weights = _read_weights(mdp, None if is_identity else mu)
        problem = _read_problem(mdp, weights, criterion)
        scale = float(np.abs(phi).max())
        N = np.eye(phi.shape[1]) if is_identity else information(phi / scale, weights)
        members = problem.members
        kept = np.arange(mdp.num_pairs)
        kept = kept[members.pair] if members.mdp is mdp else np.flatnonzero(problem.kept)[members.pair]
        x = phi[kept] / scale
        basis, lost = _span(x, N)
        restriction = _restriction(phi.shape[1], basis.shape[1], lost, is_identity, criterion.restrict)
        coverage = FeatureCoverage.of(rho, basis.T @ N @ basis)
        core = FeatureProblem(members, problem.rows, np.ascontiguousarray(x @ basis), coverage)
        target = N if is_identity else N * scale**2
        return cls(problem, core, phi, target, basis, scale, is_identity, restriction)

    def plan(self, found: FeatureSolution, seconds: float) -> FeaturePlan:
        """Returns the result in the caller's coordinates."""
        problem, coverage, unit = self.problem, self.core.coverage, self.scale**2
        raised = 2 * float(np.log(self.scale)) if self.is_identity else 0.0
        size, direction = _relative_eigenvalues(coverage, found.M)
        worst = self.basis @ direction
        letter = next((name for name, rho in DESIGNS.items() if rho == coverage.rho), "")
        return FeaturePlan(
            mdp=problem.mdp, rho=coverage.rho, design=letter if self.is_identity else "",
            features=frozen(self.phi), target=frozen(self.target),
            occupancy=frozen(problem.table(found.d)), policy=frozen(problem.policy_table(found.d)),
            information=frozen(unit * (self.basis @ found.M @ self.basis.T)),
            eigenvalues=frozen(size * unit if self.is_identity else size),
            worst_direction=frozen(worst / np.linalg.norm(worst)),
            divergence=found.divergence - raised,
            gap=found.gap + EPSILON * abs(raised), method=found.method, steps=found.steps, seconds=seconds,
            restriction=self.restriction, discount=problem.members.discount,
        )  # fmt: skip


def _relative_eigenvalues(coverage: FeatureCoverage, M: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns the eigenvalues of M relative to N, ascending, and the direction of the first."""
    a, V = eigh(coverage.target, M)
    rank = coverage.root.shape[1]
    return np.asarray(1 / a[::-1][:rank], np.float64), np.asarray(V[:, -1], np.float64)


def _read_features(mdp: MDP, phi: Any) -> FloatArray:
    """Returns the features of each pair, `[n, k]`."""
    if callable(phi):
        phi = checks.one_argument(phi, "phi", "the model")(mdp)
    phi = checks.float_array(phi, "phi")
    if phi.ndim == 3:
        checks.check_shape(phi.shape, "phi", (mdp.num_states, mdp.num_actions, None))
        phi = phi[mdp.pair_state, mdp.pair_action]
    elif phi.ndim != 2 or phi.shape[0] != mdp.num_pairs:
        expected = f"must have shape ({mdp.num_states}, {mdp.num_actions}, k) or ({mdp.num_pairs}, k)"
        raise InvalidArgumentError.of("phi", expected, f"{phi.shape}")
    largest = float(np.abs(phi).max(initial=0.0))
    if not 1 / LARGEST_FEATURE <= largest <= LARGEST_FEATURE:
        raise InvalidArgumentError.of(
            "phi", f"must have a largest entry between {1 / LARGEST_FEATURE:g} and {LARGEST_FEATURE:g}",
            f"{largest:g}",
            remedy="Rescale the features." if largest else "Give the pairs features that are not all zero.",
        )  # fmt: skip
    return phi.copy()


def _read_weights(mdp: MDP, mu: Any) -> FloatArray:
    """Returns the weights of the pairs, `[n]`, which sum to 1."""
    if mu is None:
        return np.full(mdp.num_pairs, 1 / mdp.num_pairs)
    mu = checks.float_array(weights_of(mdp, mu), "mu")
    checks.check_nonnegative(mu, "mu")
    mu = mdp.per_pair(mu, "mu")
    if not (mu > 0).any():
        raise InvalidArgumentError.of("mu", "must be positive for at least one pair", "zeros only")
    return mu / mu.max() / (mu / mu.max()).sum()


def _read_problem(mdp: MDP, weights: FloatArray, criterion: Criterion) -> PlanningProblem:
    """Returns the set of visits: of all pairs that can be visited again and again, or from the start."""
    if not criterion.restrict and not criterion.has_restarts:
        count = num_weighted_components(mdp, np.ones(mdp.num_pairs))
        if count > 1:
            raise NotCommunicatingError(
                f"The model has {count} end components, and one trajectory stays in one of them.",
                argument="mdp",
                remedy=("Pass restrict=True to keep the heaviest, or ", DISCOUNT, " to connect them."),
            )
    return PlanningProblem.read(mdp, Objective(1.0, weights), replace(criterion, restrict=True))


def _span(x: FloatArray, N: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns a basis of what the features of these pairs span, `[k, r]`, and the directions of N outside."""
    size, V = np.linalg.eigh(information(x, np.full(len(x), 1 / len(x))))
    seen = size > NULL * size[-1]
    if not size[-1] > 0:
        raise InvalidArgumentError.of(
            "phi", "must not be zero wherever the model can be", remedy="Give those pairs other features."
        )
    outside = V[:, ~seen]
    lost, U = np.linalg.eigh(outside.T @ N @ outside) if outside.size else (np.zeros(0), np.zeros((0, 0)))
    return V[:, seen], (outside @ U)[:, lost > OUTSIDE * np.trace(N)]


def _restriction(k: int, rank: int, lost: FloatArray, is_identity: bool, restrict: bool) -> str:
    """Returns what was left out; refuses directions of the target that no policy can excite."""
    count = lost.shape[1]
    if count == 0:
        return f"The {k} features span {count_of(rank, 'direction')}." if rank < k else ""
    first = np.array2string(lost[:, -1], precision=3, threshold=6, separator=", ", suppress_small=True)
    what = f"{count} of {count_of(k, 'direction')}" if is_identity else count_of(count, "direction")
    if not restrict:
        raise InvalidArgumentError.of(
            "phi",
            f"must have only directions that some policy can excite: {what} of the target cannot be, for "
            f"example {first}",
            remedy=_leave_out(rank),
        )
    return f"Left out {what} that no policy can excite, for example {first}; {rank} remain."


def _leave_out(rank: int) -> Text:
    return parse_text(f"Pass `restrict=True` to cover the {count_of(rank, 'direction')} that remain.")
