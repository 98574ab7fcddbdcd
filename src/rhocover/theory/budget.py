"""budget(): how many steps a goal takes, with the best policy and with a given one.

**A number of visits** m_i of each pair. With long-run frequencies d a policy needs n with n d_i >= m_i, so
the best one maximises min_i d_i/m_i: the worst-case coverage problem, `plan(mdp, inf, mu=m)`. With M = sum m
its divergence is log max_i m_i/(M d_i), and

    steps = ceil( M max_i mubar_i/d_i ),        lower_bound_steps = ceil( M exp(divergence - gap) ),

which no policy can beat in the long run (as all m grow in proportion). For a run from a given start there are
two more numbers:

- `expected_steps` is the first n at which the expected visits E T_i(n) reach m_i for every i (`certainty`);
- `sure_steps` is an n at which all are reached with probability 1 - delta, certified (`certainty`).

For the expected visits there is a bound that holds at every n and for every behaviour. With y = 1 + A'h >= 0,
h the plan's potential, sum_i y_i T_i(n) = n + h(s_1) - h(s_{n+1}) in expectation under any behaviour; so
n >= sum_i m_i y_i - <start, h> + min h (and n >= M). This is `lower_bound_expected_steps`.

**Pairs that are not needed.** If some m_i are zero, the best long-run policy may hardly ever move between the
needed pairs, and stay very long in one place. So a share of the visits goes to a policy that covers all pairs
evenly: of a few shares, the one with the fewest `sure_steps` (`expected_steps` if those are not computed).
The result is then a good policy, not the best one; `note` says the share.

**A model error** eps: the root mean square over the N pairs of |P_hat_i - P_i|_2. After T_i visits the square
is c_i/T_i in expectation, c_i = sum_s' P(1-P), so to leading order in 1/n it takes (1/N) sum_i c_i/(n d_i) <=
eps^2, which rho = 2 with mu = sqrt(c) minimises: steps = sum_i c_i/d_i / (N eps^2). The next order, which
comes from the variation of T_i, is left out; it is small once every random pair has about ten visits.
Deterministic pairs need one visit, and what was said about moving between needed pairs holds here, too: this
is a long-run number.

All policies here are stationary. An explorer that uses its counts needs fewer steps to be certain than the
best of them; the lower bounds hold for it, too.

**A given policy** with long-run frequencies d needs max_i m_i/d_i steps in the long run for m_i visits, and
sum_i cost_i/d_i for sum_i cost_i/(n d_i) <= 1 (a model error). A pair that the policy never visits makes
these numbers infinite, and is named.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover import chains, checks, weights
from rhocover.checks import BoolArray, FloatArray, frozen
from rhocover.errors import InvalidArgumentError, Setting, parse_text
from rhocover.mdp import MDP, check_mdp
from rhocover.planning import Plan, plan
from rhocover.planning.problem import average_structure
from rhocover.printing import count_of, printed
from rhocover.showing import Shown
from rhocover.theory.certainty import first_time, long_run_frequencies, reached_states, sure_steps

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from rhocover.arguments import Start

# One policy.

STEP_ROUNDING = 1e-9  # of a number of steps, before it is rounded up
TIED = 1e-4  # relative: pairs this close decide together


@dataclass(frozen=True, eq=False)
class Effort:
    """The steps that one policy needs for a goal; inf if it never reaches it, None if not computed."""

    policy: FloatArray  # [S, A]
    steps: float  # in the long run
    expected_steps: float | None  # from the start until the expected visits are reached
    sure_steps: float | None  # until all visits are reached with probability 1 - delta, certified
    bottleneck: str  # the pairs that take longest, or that are never visited
    note: str  # why a number is inf or None, and the share for moving between pairs; "" if none applies

    def summary(self) -> dict[str, Any]:
        """Returns the numbers, ready for JSON (infinities as text)."""
        numbers = {
            "steps": self.steps,
            "expected_steps": self.expected_steps,
            "sure_steps": self.sure_steps,
        }
        plain = {key: str(x) if x == math.inf else x for key, x in numbers.items()}
        return {**plain, "bottleneck": self.bottleneck, "note": self.note}


def effort_for_visits(
    mdp: MDP, policy: FloatArray, visits: FloatArray, start: FloatArray, delta: float, note: str = ""
) -> Effort:
    """Returns what a policy needs for the visits, `[n]`."""
    chain, choice, d = _long_run(mdp, policy, start)
    bottleneck, steps = _longest(mdp, visits, d)
    expected = first_time(chain, start, _need(mdp, choice, visits), d[0])
    reached = reached_states(chain, start)[mdp.pair_state] & (choice > 0)
    lost = np.flatnonzero((visits > 0) & ~reached)
    notes = [note]
    if lost.size:
        bottleneck, sure = _names(mdp, lost), math.inf
        notes.append(f"Never reached from the start: {bottleneck}.")
    else:
        sure, reason = sure_steps(mdp, chain, choice, start, visits, delta)
        notes += [_expected_note(expected, steps, bottleneck), reason]
    text = " ".join(filter(None, notes))
    return Effort(frozen(mdp.table(choice)), steps, expected, sure, bottleneck, text)


def effort_for_error(mdp: MDP, policy: FloatArray, cost: FloatArray, start: FloatArray) -> Effort:
    """Returns what a policy needs so that sum_i cost_i/(n d_i) <= 1."""
    _, choice, d = _long_run(mdp, policy, start)
    bottleneck, longest = _longest(mdp, cost, d)
    note = f"Not visited again and again: {bottleneck}." if longest == math.inf else ""
    needed = cost > 0
    steps = math.inf if note else whole(float((cost[needed] / d[1][needed]).sum()))
    return Effort(frozen(mdp.table(choice)), steps, None, None, bottleneck, note)


def _long_run(mdp: MDP, policy: FloatArray, start: FloatArray) -> tuple[Any, FloatArray, Any]:
    """Returns the chain, pi(a|s) per pair, and the long-run frequencies of states and of pairs."""
    chain = chains.policy_chain(mdp, policy)
    choice = mdp.per_pair(policy, "policy")
    choice = choice / np.bincount(mdp.pair_state, choice, mdp.num_states)[mdp.pair_state]
    states = long_run_frequencies(chain, start)
    return chain, choice, (states, states[mdp.pair_state] * choice)


def _longest(mdp: MDP, need: FloatArray, d: tuple[FloatArray, FloatArray]) -> tuple[str, float]:
    """Returns the pairs with the largest need/d, by name, and that ratio, rounded up; inf where d is zero."""
    seen = np.where(d[1] > 0, d[1], 1.0)
    ratio = np.where(need > 0, np.where(d[1] > 0, need / seen, np.inf), 0.0)
    worst = float(ratio.max())
    names = _names(mdp, np.flatnonzero(ratio >= (1 - TIED) * worst))
    return names, whole(worst) if worst < math.inf else math.inf


def _need(mdp: MDP, choice: FloatArray, visits: FloatArray) -> FloatArray:
    """Returns how often each state must be visited so that all its pairs get their visits in expectation."""
    need = np.zeros(mdp.num_states)
    asked = visits > 0
    with np.errstate(divide="ignore"):
        np.maximum.at(need, mdp.pair_state[asked], visits[asked] / choice[asked])
    return need


def whole(steps: float) -> int:
    """Returns the number of steps rounded up; 400.0000001 counts as 400."""
    return math.ceil(steps * (1 - STEP_ROUNDING))


def _expected_note(expected: float | None, steps: float, bottleneck: str) -> str:
    if expected is None:
        return "expected steps were not found: the chain forgets its start too slowly. Simulate the policy."
    return f"Not visited again and again: {bottleneck}." if steps == math.inf else ""


def _names(mdp: MDP, pairs: Any) -> str:
    """Returns the names of up to four pairs; of more, the first and the number of the others."""
    return checks.name_some([mdp.pair_name(int(pair)) for pair in pairs], limit=4 if len(pairs) <= 4 else 1)


# The budget.

TOLERANCE = 1e-6  # of the plan's gap: a budget needs no more digits, and equal weights can stall near 1e-7
SHARES = (0.0, 0.01, 0.1, 0.3, 0.6, 1.0)  # of the visits, for moving between needed pairs
MOST_VISITS = 2**53  # whole numbers that float64 holds


@dataclass(frozen=True, eq=False)
class Budget(Shown):
    """How many steps a goal takes with the best policy, `best`, and with the caller's policy, `given`.

    `visits` `[S, A]` are the visits to reach (without those that `restrict` dropped), None for `model_error`.
    """

    mdp: MDP
    visits: FloatArray | None
    model_error: float | None
    delta: float
    start: FloatArray
    plan: Plan  # the long-run optimum behind `best`, with its certificate
    best: Effort
    given: Effort | None
    lower_bound_steps: int  # no policy needs fewer in the long run
    lower_bound_expected_steps: (
        int | None
    )  # no behaviour needs fewer for the expected visits; None if unknown

    @property
    def steps(self) -> float:
        """Steps in the long run, with the best policy."""
        return self.best.steps

    @property
    def expected_steps(self) -> float | None:
        """Steps from the start until the expected visits are reached, with the best policy."""
        return self.best.expected_steps

    @property
    def sure_steps(self) -> float | None:
        """Steps until all visits are reached with probability 1 - delta, with the best policy."""
        return self.best.sure_steps

    @property
    def policy(self) -> FloatArray:
        """The best policy, `[S, A]`."""
        return self.best.policy

    @property
    def wish(self) -> str:
        """The goal in words."""
        if self.visits is None:
            return f"a model error of {self.model_error:g} (root mean square over the pairs)"
        times = np.unique(self.visits[self.visits > 0]).astype(np.int64)
        count = int((self.visits > 0).sum())
        often = f"{times[0]:,}" if times.size == 1 else f"{times[0]:,} to {times[-1]:,}"
        return f"{count} of {count_of(self.mdp.num_pairs, 'pair')} visited {often} times"

    def summary(self) -> dict[str, Any]:
        """Returns the numbers, ready for JSON (infinities as text)."""
        return {
            "model": self.mdp.name or repr(self.mdp),
            "fingerprint": self.mdp.fingerprint,
            "wish": self.wish,
            "delta": self.delta,
            **self.best.summary(),
            "lower_bound_steps": self.lower_bound_steps,
            "lower_bound_expected_steps": self.lower_bound_expected_steps,
            "given": self.given and self.given.summary(),
            "restriction": self.plan.restriction,
        }

    @printed
    def __str__(self) -> str:
        lines = [f"Budget for {self.mdp.name or 'the model'}: {self.wish}."]
        lines += ["  at the best policy", *self._lines(self.best)]
        lines.append(
            f"    {self.lower_bound_steps:>14,}  steps at least in the long run, whatever the policy"
        )
        if self.given is not None:
            lines += ["  at the given policy", *self._lines(self.given)]
        return "\n".join(lines + [f"  {self.plan.restriction}"] * bool(self.plan.restriction))

    __repr__ = __str__

    def _lines(self, effort: Effort) -> list[str]:
        meaning = {
            "steps": f"steps in the long run, decided by {effort.bottleneck}",
            "expected_steps": "steps from the start until all are expected",
            "sure_steps": f"steps until all are there with probability {1 - self.delta:g}",
        }
        rows = [(getattr(effort, key), text) for key, text in meaning.items()]
        lines = [f"    {number:>14,}  {text}" for number, text in rows if number is not None]
        return lines + [f"    {effort.note}"] * bool(effort.note)


def budget(
    mdp: MDP,
    *,
    visits: ArrayLike | None = None,
    model_error: float | None = None,
    policy: ArrayLike | None = None,
    delta: float = 0.05,
    start: Start | None = None,
    restrict: bool = False,
) -> Budget:
    """Returns how many steps it takes until every pair has its visits, or the model error is small.

    `visits` is how often every pair should be visited, or a table `[S, A]` with a number for each pair (0:
    not needed). `model_error` is the root mean square over the pairs of |P_hat - P|_2, to first order in
    1/steps. Pass one of them. `policy` `[S, A]` is evaluated in addition to the best one. `start` is a state
    or a distribution; None is the model's start, or state 0. Pairs that cannot be visited again and again are
    refused, or dropped with `restrict`.

    >>> import rhocover as rc
    >>> print(budget(rc.envs.river_swim(), visits=100))
    Budget for river_swim: 12 of 12 pairs visited 100 times.
      at the best policy
                 2,306  steps in the long run, decided by (0, left) and 6 more
                 2,323  steps from the start until all are expected
                 3,653  steps until all are there with probability 0.95
                 2,306  steps at least in the long run, whatever the policy
    """
    check_mdp(mdp)
    if visits is None and model_error is None:
        raise InvalidArgumentError(
            parse_text("a goal is missing: `visits` or `model_error`."),
            argument="visits",
            remedy=("Pass ", Setting("visits", "100"), " or ", Setting("model_error", "0.05"), "."),
        )
    if visits is not None and model_error is not None:
        raise InvalidArgumentError.of(
            "model_error", parse_text("cannot be combined with `visits`"), remedy="Leave it out."
        )
    delta = checks.probability(delta, "delta", open_ends=True)
    start = _read_start(mdp, start)
    policy = None if policy is None else _read_policy(mdp, policy)
    if visits is None:
        return _for_model_error(mdp, _read_error(model_error), policy, delta, start, restrict)
    return _for_visits(mdp, _read_visits(mdp, visits), policy, delta, start, restrict)


def _for_visits(
    mdp: MDP, visits: FloatArray, policy: FloatArray | None, delta: float, start: FloatArray, restrict: bool
) -> Budget:
    best = plan(mdp, math.inf, visits, restrict=restrict, tol=TOLERANCE)
    kept = average_structure(mdp, visits, restrict=True).kept
    visits = np.where(kept, visits, 0.0)
    return Budget(
        mdp=mdp, visits=frozen(mdp.table(visits)), model_error=None, delta=delta, start=start, plan=best,
        best=_connected(mdp, best, kept, visits, start, delta),
        given=None if policy is None else effort_for_visits(mdp, policy, visits, start, delta),
        lower_bound_steps=whole(float(visits.sum()) * math.exp(best.lower_bound)),
        lower_bound_expected_steps=_least_expected(mdp, best, visits, start) if kept.all() else None,
    )  # fmt: skip


def _for_model_error(
    mdp: MDP, eps: float, policy: FloatArray | None, delta: float, start: FloatArray, restrict: bool
) -> Budget:
    variance = mdp.per_pair(_spread(mdp), "mu") ** 2
    best = plan(mdp, 2.0, np.sqrt(variance), restrict=restrict, tol=TOLERANCE)
    kept = average_structure(mdp, variance, restrict=True).kept
    variance = np.where(kept, variance, 0.0)
    scale = 1 / (int(kept.sum()) * eps**2)
    least = scale * np.sqrt(variance).sum() ** 2 * math.exp(best.lower_bound)  # sum c/d = M^2 exp(D_2)
    return Budget(
        mdp=mdp, visits=None, model_error=eps, delta=delta, start=start, plan=best,
        best=effort_for_error(mdp, best.policy, scale * variance, start),
        given=None if policy is None else effort_for_error(mdp, policy, scale * variance, start),
        lower_bound_steps=whole(float(least)), lower_bound_expected_steps=None,
    )  # fmt: skip


def _connected(
    mdp: MDP, best: Plan, kept: BoolArray, visits: FloatArray, start: FloatArray, delta: float
) -> Effort:
    """Returns what the best policy needs; if some pairs are not needed, with the best share for them."""
    if (visits[kept] > 0).all():
        return effort_for_visits(mdp, best.policy, visits, start, delta)
    evenly = plan(mdp, math.inf, kept.astype(float), restrict=True, tol=TOLERANCE).occupancy
    efforts = [
        effort_for_visits(mdp, _mixed(best, evenly, share), visits, start, delta, _share_note(share))
        for share in SHARES
    ]
    return min(efforts, key=_how_long)


def _how_long(effort: Effort) -> tuple[float, float]:
    """Returns the sure steps, or the expected ones if those are unknown, for comparisons."""
    sure, expected = (math.inf if x is None else x for x in (effort.sure_steps, effort.expected_steps))
    return sure, expected


def _mixed(best: Plan, evenly: FloatArray, share: float) -> FloatArray:
    """Returns the policy of a mixture of two occupancies; the plan's in states that neither visits."""
    occupancy = (1 - share) * best.occupancy + share * evenly
    mass = occupancy.sum(axis=1, keepdims=True)
    return np.where(mass > 0, occupancy / np.where(mass > 0, mass, 1.0), best.policy)


def _least_expected(mdp: MDP, best: Plan, visits: FloatArray, start: FloatArray) -> int:
    """Returns ceil of max(M, sum m y - <start, h> + min h), a lower bound at every n for every behaviour."""
    h = best.potential - best.potential.min()
    y = 1 + h[mdp.pair_state] - mdp.transitions @ h
    scale = 1 + max(0.0, -float(y.min())) + 1e-12 * float(h.max())  # so that y >= 0, rounding included
    y, h = (y - 1 + scale) / scale, h / scale
    return whole(max(float(visits.sum()), float(visits @ y - start @ h)))


def _share_note(share: float) -> str:
    return f"{share:.1%} of the visits are for moving between the needed pairs." if share else ""


def _read_start(mdp: MDP, start: Any) -> FloatArray:
    """Returns the start distribution: the argument, that of the model, or state 0."""
    if start is None:
        start = 0 if mdp.start is None else mdp.start
    return frozen(checks.distribution(start, "start", mdp.num_states))


def _read_policy(mdp: MDP, policy: Any) -> FloatArray:
    chains.policy_chain(mdp, policy)  # refuses what is not a policy
    return mdp.table(mdp.per_pair(policy, "policy"))


def _read_visits(mdp: MDP, visits: Any) -> FloatArray:
    """Returns how often each pair should be visited, `[n]`."""
    if checks.any_array(visits, "visits").ndim == 0:
        whole = checks.integer(visits, "visits", least=1, most=MOST_VISITS)
        visits = np.full(mdp.num_pairs, whole, dtype=float)
    array = checks.float_array(visits, "visits")
    checks.check_nonnegative(array, "visits")
    wrong = np.argwhere((array != np.rint(array)) | (array > MOST_VISITS))
    if wrong.size:
        place = tuple(int(i) for i in wrong[0])
        raise InvalidArgumentError.of(
            "visits", "must be whole numbers up to 2^53", f"{checks.at('visits', place)} = {array[place]:g}"
        )
    per_pair = mdp.per_pair(array, "visits")
    if not per_pair.any():
        raise InvalidArgumentError.of("visits", "must ask for at least one pair: all are zero")
    return per_pair


def _read_error(model_error: Any) -> float:
    eps = checks.number(model_error, "model_error")
    if not 0 < eps < math.inf:
        raise InvalidArgumentError.of("model_error", "must be in (0, inf)", f"{eps:g}")
    if not 1e-100 < eps < 1e100:  # whose square is a number
        raise InvalidArgumentError.of("model_error", "must be between 1e-100 and 1e100", f"{eps:g}")
    return eps


def _spread(mdp: MDP) -> FloatArray:
    """Returns sqrt(c), `[S, A]`; refuses a deterministic model, with a remedy."""
    try:
        return weights.transition_std(mdp)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            parse_text(
                "every pair is deterministic, so one visit of each is enough: pass `visits=1` instead of "
                "`model_error`."
            ),
            argument="model_error",
        ) from error
