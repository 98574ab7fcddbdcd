"""Algorithm 1 of the paper: Frank-Wolfe steps made by acting.

For k = 1, 2, ...: compute psi_{k+1} = argmax over D_eta of <(mu/(T+/t))^rho, d>, T+ = max(T, eps), and play
its policy psi(s,a)/sum_b psi(s,b) for tau_k steps. What differs from the paper, and why (docs/paper.md):

- E8: d_hat = T/(t-1), because t-1 steps were taken before time t.
- E9: eps in (0, 1), default 1/2: from 1 on an unvisited pair would rank no higher than one visited once.
  The reward is computed in logs and divided by its maximum. The first episode does not depend on eps.
- E10, E11: 2 eta = 0.9 min(min d*, t*) unless given. A floor above min d* excludes the optimum from
  D_eta, which is a permanent bias; one above t* leaves D_eta empty and is refused.
- E17: so the default uses d*, which is the answer. `eta="without_plan"` uses a lower bound on d* from one
  linear program instead (see `least_shares`): the floor is smaller, and no plan is computed.
- E13: the last episode is cut at the end of the budget.

The direction comes from a linear program over D_eta (`oracle="lp"`), or from policy iteration over the inner
approximation (1-alpha) D + alpha d0 (`oracle="fixed_point"`), where d0 is the occupancy with the largest
smallest entry t*: a floor couples the states, so D_eta itself is not the occupancy set of an MDP. alpha t* is
2 eta, or less where that would exclude d* (with `eta="without_plan"`, the lower bound on d*).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, Any, Protocol

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray
from rhocover.coverage import Coverage
from rhocover.documents import RowFamily
from rhocover.errors import InvalidArgumentError, Setting, unknown_name
from rhocover.exploring.belief import Belief
from rhocover.exploring.explorers import Block, State, initial_state
from rhocover.exploring.problem import Problem
from rhocover.exploring.worlds import SamplePolicy, Visits
from rhocover.occupancy import Occupancies
from rhocover.oracles import make_oracle
from rhocover.planning.frank_wolfe import line_search

MAX_DENOMINATOR = 64  # of an exponent: enough for 3/2 or 1.25, and integer roots stay fast


class Schedule(Protocol):
    """How many steps episode k = 1, 2, ... takes, given the steps before it, in exact integers.

    The theorem requires tau_k = tau_1 k^2, so that t_k - 1 = tau_1 (k-1)k(2k-1)/6 and the step size
    beta_k = tau_k/(t_{k+1} - 1) = 6k/((k+1)(2k+1)) lies in [1/k, 3/k) with beta_1 = 1. Python's integers have
    no largest value, and a power with a fractional exponent is computed by an integer root and rounded up, so
    that 10^12 steps and more are counted exactly.
    """

    def length(self, k: int, num_steps: int) -> int: ...  # noqa: D102


@dataclass(frozen=True)
class Quadratic:
    """tau_k = tau_1 k^2, the schedule of the paper's theorem.

    >>> [Quadratic(10).length(k, 0) for k in (1, 2, 3)]
    [10, 40, 90]
    """

    tau_1: int = 10

    def __post_init__(self) -> None:
        _check_first(self)

    def length(self, k: int, num_steps: int) -> int:
        """Returns tau_1 k^2."""
        return self.tau_1 * k * k

    def begins(self, k: int) -> int:
        """Returns t_k - 1, the steps before episode k: tau_1 (k-1)k(2k-1)/6."""
        return self.tau_1 * (k - 1) * k * (2 * k - 1) // 6


@dataclass(frozen=True)
class Power:
    """tau_k = ceil(tau_1 k^p) for an exponent p >= 0, computed without rounding.

    >>> [Power(10, 0.5).length(k, 0) for k in (1, 4, 5)]
    [10, 20, 23]
    """

    tau_1: int = 10
    p: float = 2.0

    def __post_init__(self) -> None:
        _check_first(self)
        p = checks.number(self.p, "p")
        if not 0 <= p <= 16:
            raise InvalidArgumentError.of("p", "must be in [0, 16]", f"{p:g}")
        object.__setattr__(self, "p", p)

    def length(self, k: int, num_steps: int) -> int:
        """Returns the smallest integer that is at least tau_1 k^p, p taken as a fraction."""
        p = Fraction(self.p).limit_denominator(MAX_DENOMINATOR)
        return _ceil_root(self.tau_1**p.denominator * k**p.numerator, p.denominator)


@dataclass(frozen=True)
class Constant:
    """tau_k = tau: short episodes, with a new direction every tau steps."""

    tau: int = 50

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", checks.integer(self.tau, "tau", least=1))

    def length(self, k: int, num_steps: int) -> int:
        """Returns tau."""
        return self.tau


@dataclass(frozen=True)
class Doubling:
    """tau_1 steps, then each episode is as long as all before it: the number of steps doubles.

    >>> Doubling(10).length(1, 0), Doubling(10).length(2, 10), Doubling(10).length(3, 20)
    (10, 10, 20)
    """

    tau_1: int = 10

    def __post_init__(self) -> None:
        _check_first(self)

    def length(self, k: int, num_steps: int) -> int:
        """Returns the number of steps so far, at least tau_1."""
        return max(self.tau_1, num_steps)


@dataclass(frozen=True)
class LineSearch:
    """Adaptive episodes: their length is the step size of an exact line search.

    Moving d_hat a fraction s of the way to psi takes tau = s/(1-s) t more steps; at least tau_1, at most t.
    """

    tau_1: int = 10

    def __post_init__(self) -> None:
        _check_first(self)

    def length(self, k: int, num_steps: int) -> int:
        """Returns tau_1: before the first visit there is nothing to search from."""
        return self.tau_1

    def stretch(self, num_steps: int, share: float) -> int:
        """Returns the steps that move d_hat this fraction of the way."""
        if share >= 0.5:
            return max(self.tau_1, num_steps)
        return max(self.tau_1, math.ceil(num_steps * share / (1 - share)))


SCHEDULES: dict[str, type] = {
    "quadratic": Quadratic, "power": Power, "constant": Constant, "doubling": Doubling,
    "line_search": LineSearch,
}  # fmt: skip
StoredSchedule = Annotated[Schedule, RowFamily("a schedule", SCHEDULES)]


def read_schedule(text: str) -> Schedule:
    """Returns the schedule that a text such as `quadratic:10`, `power:10,1.5` or `constant:50` names."""
    name, _, rest = text.partition(":")
    if name not in SCHEDULES:
        raise unknown_name("schedule", name, tuple(SCHEDULES))
    try:
        numbers = [float(part) if "." in part else int(part) for part in rest.split(",") if part]
        return SCHEDULES[name](*numbers)
    except (TypeError, ValueError) as error:
        example = ("Pass ", Setting("schedule", "'power:10,2'" if name == "power" else f"'{name}:10'"), ".")
        if isinstance(error, InvalidArgumentError):
            error.add_remedy(example)
            raise
        raise InvalidArgumentError.of(
            "schedule", f"{text!r} cannot be read: expected {name}:TAU, or power:TAU,P", remedy=example
        ) from None


def check_schedule(schedule: Any) -> Schedule:
    """Returns the schedule, parsed if it is a text; refuses anything else."""
    if isinstance(schedule, str):
        return read_schedule(schedule)
    if isinstance(schedule, type) or not callable(getattr(schedule, "length", None)):
        raise InvalidArgumentError.of(
            "schedule",
            "must be a text such as 'quadratic:10', or Quadratic(), Power(), Constant(), Doubling() or "
            "LineSearch()",
            repr(schedule),
        )
    return schedule


def _check_first(schedule: Any) -> None:
    object.__setattr__(schedule, "tau_1", checks.integer(schedule.tau_1, "tau_1", least=1))


def _ceil_root(value: int, degree: int) -> int:
    """Returns the smallest integer r with r^degree >= value."""
    low, high = 0, 1 << -(-value.bit_length() // degree) if degree > 1 else value
    if degree == 1:
        return value
    if degree == 2:
        root = math.isqrt(value)
        return root if root * root == value else root + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if middle**degree >= value else (middle + 1, high)
    return low


ROUNDING = 1e-12  # relative: V - Q is at least this fraction of V


def least_shares(coverage: Coverage, d0: FloatArray) -> FloatArray:
    """Returns lower bounds on the best occupancy, `[n]`, from an occupancy `d0` without zeros.

    d* maximises U_rho over a convex set that holds d0, so <grad U(d*), d0 - d*> <= 0. For 0 < rho < inf, with
    weights mu that sum to 1 and V(d) = sum_j mu_j^rho d_j^(1-rho), this is

        sum_j d0_j (mu_j/d*_j)^rho <= V(d*) <= V,      V = V(d0) for rho > 1, V = 1 for rho <= 1

    (U prefers d* to d0; Hoelder). The smallest value of the terms of the other pairs, whose shares sum
    to at most 1, is Q_i = (sum_{j != i} (d0_j mu_j^rho)^(1/(1+rho)))^(1+rho). Hence

        d*_i >= mu_i (d0_i/(V - Q_i))^(1/rho).

    At rho = inf, d*_i >= mu_i/max_j(mu_j/d0_j). At rho = 0, d* is the projection of mu in relative entropy:
    KL(d0||d*) <= KL(d0||mu), and merging all pairs but i into one gives d0_i log(d0_i/d*_i) <=
    KL(d0||mu) - (1-d0_i) log(1-d0_i). The bound of a pair without weight is 0.
    """
    if coverage.rho == 0:
        return _least_at_zero(coverage, d0)
    log_mu = np.where(coverage.support, coverage.log_mu_bar, -np.inf)
    if coverage.rho == np.inf:
        return np.exp(log_mu - coverage.divergence_unchecked(d0))
    log_rest = _log_rest(coverage.rho, log_mu, np.log(d0), coverage.divergence_unchecked(d0))
    return np.exp(log_mu + (np.log(d0) - log_rest) / coverage.rho)


def _log_rest(rho: float, log_mu: FloatArray, log_d0: FloatArray, divergence: float) -> FloatArray:
    """Returns log(V - Q), `[n]`; V(d0) is exp((rho-1) D_rho)."""
    log_v = max(rho - 1, 0.0) * divergence
    terms = (log_d0 + rho * log_mu) / (1 + rho)
    shares = np.exp(terms - terms.max())
    with np.errstate(divide="ignore"):  # a single pair has no others
        log_others = terms.max() + np.log(np.maximum(shares.sum() - shares, 0.0))
    missing = -np.expm1(np.minimum((1 + rho) * log_others - log_v, 0.0))
    return log_v + np.log(np.maximum(missing, ROUNDING))


def _least_at_zero(coverage: Coverage, d0: FloatArray) -> FloatArray:
    excess = coverage.divergence_unchecked(d0)  # KL(d0||mu) at rho = 0
    with np.errstate(divide="ignore", invalid="ignore"):  # a single pair has d0 = 1
        others = np.where(d0 < 1, -(1 - d0) * np.log1p(-np.minimum(d0, 1.0)), 0.0)
    return d0 * np.exp(-(excess + others) / d0)


ORACLES = ("lp", "fixed_point")
WITHOUT_PLAN = "without_plan"
SHARE = 0.9  # of the largest floor that keeps the optimum inside
NO_FLOOR = 1e-12  # a smaller floor counts as 0: with weights of zero, d* has zeros


@dataclass(frozen=True)
class Algorithm1:
    """The paper's explorer; `count_floor` is its epsilon, `schedule` its episode lengths.

    `eta` is half of the floor of D_eta. None uses the largest that the best occupancy allows, so it needs the
    plan; "without_plan" uses a smaller one, from one linear program.
    """

    schedule: StoredSchedule = field(default_factory=Quadratic)
    eta: float | str | None = None
    count_floor: float = 0.5
    oracle: str = "lp"

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedule", check_schedule(self.schedule))
        count_floor = checks.probability(self.count_floor, "count_floor", open_ends=True)
        object.__setattr__(self, "count_floor", count_floor)
        object.__setattr__(self, "eta", _checked_eta(self.eta))
        if not isinstance(self.oracle, str) or self.oracle not in ORACLES:
            raise unknown_name("oracle", self.oracle, ORACLES)

    def init(self, belief: Belief) -> State:
        """Returns the state before the first step; refuses a floor that no occupancy satisfies."""
        self._direction_of(belief.problem)
        return initial_state(belief)

    def policy(self, state: State) -> Block:
        """Returns one episode: the direction's policy for tau_k steps."""
        problem, t, n = state.problem, state.num_steps, state.counts.size
        # Before the first step all counts are eps; using 1/n instead gives the same bits for every eps.
        d_plus = np.maximum(state.counts, self.count_floor) / t if t else np.full(n, 1 / n)
        psi = self._direction_of(problem)(_finite_reward(problem.coverage, d_plus))
        policy = problem.mdp.per_pair(problem.members.to_policy(psi), "policy")
        gap = frank_wolfe_gap(problem.coverage, d_plus, psi)
        return Block(SamplePolicy(policy), self._length(state, d_plus, psi), psi, gap)

    def update(self, state: State, visits: Visits) -> State:
        """Returns the state with the episode's visits added."""
        return state.after(visits)

    def _length(self, state: State, d_plus: FloatArray, psi: FloatArray) -> int:
        k, t = state.num_blocks + 1, state.num_steps
        if not isinstance(self.schedule, LineSearch) or t == 0:
            return self.schedule.length(k, t)
        d = d_plus / d_plus.sum()
        return self.schedule.stretch(t, line_search(state.problem.coverage, d, psi - d, 1.0))

    def _direction_of(self, problem: Problem) -> Any:
        """Returns the oracle, a function from rewards to directions, made once per problem."""
        return problem.once(f"algorithm1 {self.eta} {self.oracle}", lambda: self._make_direction(problem))

    def _make_direction(self, problem: Problem) -> Any:
        t_star, d0 = problem.members.max_floor()
        eta = self.eta if isinstance(self.eta, float) else _half_floor(self._least(problem, d0), t_star)
        members = Occupancies.average(problem.mdp, eta=eta)
        members.check_floor()
        if self.oracle == "lp":
            oracle = make_oracle(members, "lp")
            return lambda reward: oracle.respond(reward).occupancy
        with np.errstate(divide="ignore"):
            alpha = min(2 * eta / t_star, SHARE * float((self._least(problem, d0) / d0).min()))
        free = make_oracle(problem.members)
        return lambda reward: (1 - alpha) * free.respond(reward).occupancy + alpha * d0

    def _least(self, problem: Problem, d0: FloatArray) -> FloatArray:
        """Returns the best occupancy, or without the plan a lower bound on it."""
        return least_shares(problem.coverage, d0) if self.eta == WITHOUT_PLAN else problem.d_star


def default_eta(problem: Problem, t_star: float) -> float:
    """Returns the floor of erratum E11, 2 eta = 0.9 min(min d*, t*); 0 where d* has zeros."""
    return _half_floor(problem.d_star, t_star)


def _half_floor(least: FloatArray, t_star: float) -> float:
    floor = SHARE * min(float(least.min()), t_star)
    return floor / 2 if floor > NO_FLOOR else 0.0


def _checked_eta(eta: Any) -> float | str | None:
    if eta is None or (isinstance(eta, str) and eta == WITHOUT_PLAN):
        return eta
    if isinstance(eta, str):
        raise InvalidArgumentError.of(
            "eta",
            "must be a number",
            repr(eta),
            remedy=f'None derives it from the plan, "{WITHOUT_PLAN}" from a linear program.',
        )
    return float(checks.number(eta, "eta"))


def frank_wolfe_gap(coverage: Coverage, d: FloatArray, psi: FloatArray) -> float:
    """Returns <grad U(d), psi - d>, an upper bound on U* - U(d) for an occupancy d; inf beyond float64."""
    if coverage.rho == 0:
        return float(coverage.reward(d) @ (psi - d))
    if coverage.rho == np.inf:
        worst = int(np.argmax(coverage.log_ratio(d)))
        return float(coverage.mu[worst] / d[worst] ** 2 * (psi[worst] - d[worst]))
    with np.errstate(over="ignore"):
        return float(np.exp(coverage.log_gradient(d).max()) * (coverage.reward(d) @ (psi - d)))


def _finite_reward(coverage: Coverage, d: FloatArray) -> FloatArray:
    reward = coverage.reward(d)
    if not np.isfinite(reward).all():  # at rho = 0 a pair without weight has no reward; plan refuses it
        raise InvalidArgumentError("rho=0 needs a positive weight on every pair.", argument="mu")
    return reward
