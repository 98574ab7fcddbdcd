"""Algorithm 1 of the paper: Frank-Wolfe steps taken in the world.

For k = 1, 2, ...: psi_{k+1} = argmax over D_eta of <(mu/(T+/t))^rho, d>, T+ = max(T, eps); play its policy
psi(s,a)/sum_b psi(s,b) for tau_k steps; count. What differs from the paper, and why (docs/paper.md):

- E8: d_hat = T/(t-1), because t-1 steps were taken before time t.
- E9: eps in (0, 1), default 1/2: from 1 on an unvisited pair would rank no higher than one visited once.
  The reward is computed in logs and divided by its maximum. The first episode does not depend on eps.
- E10, E11: 2 eta = 0.9 min(min d*, t*) unless given. A larger floor than min d* keeps the optimum out of
  D_eta, a permanent bias; one above t* leaves D_eta empty and is refused.
- E17: so the default knows d*, the answer. `eta="without_plan"` takes a lower bound on it in its place that
  one linear program gives (see `least_shares`): a smaller floor, and no plan is solved.
- E13: the last episode is cut where the budget ends.

The direction comes from a linear program over D_eta (`oracle="lp"`), or from policy iteration over the
inner approximation (1-alpha) D + alpha d0 (`oracle="fixed_point"`), d0 the occupancy of the largest
smallest entry t*: a floor couples the states, so D_eta itself is no MDP. alpha t* is 2 eta, or less where
that would shut out d*; with `eta="without_plan"`, the lower bound on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray
from rhocover.coverage import Coverage
from rhocover.errors import InvalidArgumentError, unknown_name
from rhocover.exploring.behaviours import Sampled
from rhocover.exploring.beliefs import Belief
from rhocover.exploring.explorer import Block, State, initial_state
from rhocover.exploring.least_shares import least_shares
from rhocover.exploring.problem import Problem
from rhocover.exploring.schedules import LineSearch, Quadratic, StoredSchedule, check_schedule
from rhocover.exploring.simulator import Visits
from rhocover.occupancy import Occupancies
from rhocover.oracles import make_oracle
from rhocover.planning.frank_wolfe import line_search

ORACLES = ("lp", "fixed_point")
WITHOUT_PLAN = "without_plan"
SHARE = 0.9  # of the largest floor that keeps the optimum inside
NO_FLOOR = 1e-12  # a floor below this is none: weights of zero leave d* at zero


@dataclass(frozen=True)
class Algorithm1:
    """The paper's explorer; `count_floor` is its epsilon, `schedule` its episode lengths.

    `eta` is half of the floor of D_eta. None takes the largest that the best occupancy allows, so it needs
    the plan; "without_plan" takes one that is known to be smaller, from one linear program.
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
        """Returns the state before the first step; refuses a floor that no occupancy has."""
        self._direction_of(belief.problem)
        return initial_state(belief)

    def policy(self, state: State) -> Block:
        """Returns one episode: the direction's policy for tau_k steps."""
        problem, t, n = state.problem, state.num_steps, state.counts.size
        # Before the first step all counts are eps; 1/n in its place gives the same bits for every eps.
        d_plus = np.maximum(state.counts, self.count_floor) / t if t else np.full(n, 1 / n)
        psi = self._direction_of(problem)(_finite_reward(problem.coverage, d_plus))
        policy = problem.mdp.per_pair(problem.members.to_policy(psi), "policy")
        gap = frank_wolfe_gap(problem.coverage, d_plus, psi)
        return Block(Sampled(policy), self._length(state, d_plus, psi), psi, gap)

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
        """Returns the oracle, a function from rewards to directions, made once for a problem."""
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
        """Returns the best occupancy, or without the plan what it is not below."""
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
            remedy=f'None chooses one from the plan, "{WITHOUT_PLAN}" without it.',
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
    if not np.isfinite(reward).all():  # rho = 0 has no reward for a pair of no weight; plan refuses it
        raise InvalidArgumentError("rho=0 needs a positive weight on every pair.", argument="mu")
    return reward
