"""Expected visits of a policy over time, and the steps after which every pair has its visits almost surely.

**Sure steps** (`sure_steps`): after these steps every pair has its visits with probability 1 - delta. Let
T(n) be the visits of pair i = (s, a) in n steps, Q the policy's chain without the transitions of the pair,
and P_i the pair's row. Take any y > 0 and any g > 0 on the states that are reached, with

    e^y ( Q g + pi(a|s) 1_s )  <=  g      in every entry,                                             (*)

and G = <P_i, g> >= 1. Then e^(y t) G^(-T(t)) g(s_t) does not grow on average in any step, and where T(n) < m
it is at least e^(y n) G^(1-m) min g. By Markov's inequality

    P(T(n) < m)  <=  e^(-y n) G^(m-1) <start, g> / min g,

and a union over the pairs gives n. It is the Chernoff bound e^(x(m-1)) E[e^(-x T(n))] with x = log G: in (*)
with equality g is the eigenvector, and e^-y the eigenvalue, of the chain in which each visit is weighted by
e^-x.

**Where g comes from.** Equality in (*) is a linear system that differs from I - e^y P by a rank of one, so
one factorisation for each y serves all pairs. It may be ill-conditioned; that does not matter, because its
solution is checked: if the left side of (*) is at most (1 + eps) g, rounding included, then g satisfies (*)
for y' = y - log(1 + eps), and that is what is used. A g that fails is discarded. So every number here is an
upper bound whatever the solver did.

**Which y.** From large to small by halves, while the answer improves, then between the best ones.

**Expected visits.** With x_0 the start and P the policy's chain, x_t = x_0 P^t is the distribution at time t,
and the expected visits are C_n = x_0 + ... + x_{n-1}. They grow like n times the long-run frequency plus an
offset that depends on the start. The first n with C_n >= need (`first_time`) is found in two ways. Up to a
few hundred states by doubling: with S_k = sum_{t < 2^k} P^t, C_{n + 2^k} = C_n + x_n S_k and
x_{n + 2^k} = x_n P^(2^k), so n is found bit by bit, whatever its size. Larger chains are swept step by step;
once x_n is within 1e-12 of the long-run frequency d, every further step adds d, and the rest is a division.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover import chains
from rhocover.chains.classes import depths
from rhocover.checks import BoolArray, FloatArray, IntArray, Matrix
from rhocover.mdp import MDP

# Expected visits.

DENSE_STATES = 300  # up to this many states doubling takes well under a second
MAX_LEVELS = 60  # powers of two: no budget is of more than 1e18 steps
SWEEP_WORK = 4_000_000_000  # multiplications: some seconds
SETTLED = 1e-12  # L1 distance from the long-run frequencies at which the start no longer matters
ROUNDING = 1e-9  # of a need: 100 visits are 99.9999999


def reached_states(chain: Matrix, start: FloatArray) -> BoolArray:
    """Returns which states the chain can be in, from a start distribution, shape `[S]`."""
    return depths(chain, np.flatnonzero(start)) >= 0


def long_run_frequencies(chain: Matrix, start: FloatArray) -> FloatArray:
    """Returns the expected long-run share of time in each state, from `start`, shape `[S]`.

    With several recurrent classes the start decides which one the chain ends in, and with what probability.
    """
    result = np.zeros(start.size)
    for states, chance in _ends(chain, start):
        if chance > 0:
            result[states] = chance * chains.stationary_distribution(chain[states][:, states])
    return result


def _ends(chain: Matrix, start: FloatArray) -> list[tuple[Any, float]]:
    """Returns the recurrent classes and the probability of ending in each."""
    classes = chains.recurrent_classes(chain)
    if len(classes) == 1:
        return [(classes[0], 1.0)]
    passing = np.ones(start.size, bool)
    passing[np.concatenate(classes)] = False
    arrived = start + chain.T @ _visits_on_the_way(chain, start, np.flatnonzero(passing))
    return [(states, float(arrived[states].sum())) for states in classes]


def _visits_on_the_way(chain: Matrix, start: FloatArray, passing: Any) -> FloatArray:
    """Returns the expected visits to transient states, x (I - P)^-1 among them, shape `[S]`; 0 elsewhere."""
    from scipy.sparse.linalg import spsolve

    visits = np.zeros(start.size)
    if passing.size:
        among = chain[passing][:, passing]
        system = sp.csc_array(sp.eye_array(passing.size) - among.T)
        visits[passing] = np.asarray(spsolve(system, start[passing]))
    return visits


def first_time(chain: Matrix, start: FloatArray, need: FloatArray, frequency: FloatArray) -> float | None:
    """Returns the smallest n with expected visits C_n >= need in every state; inf if there is none.

    `need` is `[S]`, `frequency` the long-run frequencies. None if it was not found: a chain above
    `DENSE_STATES` states that has not settled after `SWEEP_WORK` multiplications, or more than 2^60 steps.
    """
    reached = reached_states(chain, start)
    if not np.isfinite(need).all() or need[~reached].any():
        return math.inf
    kept = np.flatnonzero(reached)
    find = by_doubling if kept.size <= DENSE_STATES else by_sweeps
    return find(sp.csr_array(chain[kept][:, kept]), start[kept], need[kept], frequency[kept])


def by_doubling(chain: Matrix, start: FloatArray, need: FloatArray, frequency: FloatArray) -> float | None:
    """Returns the first time, bit by bit from dense powers of the chain; see `first_time`."""
    levels = [(chain.toarray(), np.eye(start.size))]
    while not _met(start @ levels[-1][1], need):
        if len(levels) > MAX_LEVELS:
            late = start @ levels[-1][1] < need
            return None if frequency[late].all() else math.inf
        levels.append(_doubled(*levels[-1]))
    n, x, visits = 0, start, np.zeros(start.size)
    for k in reversed(range(len(levels) - 1)):
        power, total = levels[k]
        if not _met(visits + x @ total, need):
            n, visits, x = n + 2**k, visits + x @ total, x @ power
    return n + 1  # n steps are the most that are not enough


def _doubled(power: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns P^(2k) and the sum of the powers below 2k; normalises rows, or rounding would double, too."""
    square = power @ power
    return square / square.sum(axis=1, keepdims=True), total + power @ total


def by_sweeps(chain: Matrix, start: FloatArray, need: FloatArray, frequency: FloatArray) -> float | None:
    """Returns the first time, step by step until the start no longer matters; see `first_time`."""
    forward = sp.csr_array(chain.T)
    x, visits = start, np.zeros(start.size)
    for n in range(1, SWEEP_WORK // max(chain.nnz, 1)):
        visits = visits + x
        if _met(visits, need):
            return n
        x = forward @ x
        if n % 16 == 0 and np.abs(x - frequency).sum() <= SETTLED:
            return n + _steps_to_go(need * (1 - ROUNDING) - visits, frequency)
    return None


def _steps_to_go(missing: FloatArray, frequency: FloatArray) -> float:
    late = missing > 0
    if not frequency[late].all():
        return math.inf
    return math.ceil(float((missing[late] / frequency[late]).max()))


def _met(visits: FloatArray, need: FloatArray) -> bool:
    return bool((visits >= need * (1 - ROUNDING)).all())


# Sure steps.

MAX_STATES, MAX_PAIRS = 1000, 2000  # beyond this, each of about twenty factorisations takes a second
MAX_HALVINGS = 60
REFINEMENTS = 4
NO_PROGRESS = 3  # halvings without a better answer before the search ends
UNIT = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class Returns:
    """The chain of a policy among the states it reaches, and the pairs whose visits are counted.

    `rows` `[N, R]` are P(. | pair), `state` `[N]` the pair's state among the R reached, `choice` its pi(a|s),
    `times` how often it should be visited.
    """

    chain: Matrix
    start: FloatArray
    rows: Matrix
    state: IntArray
    choice: FloatArray
    times: FloatArray


def sure_steps(
    mdp: MDP, chain: Matrix, choice: FloatArray, start: FloatArray, visits: FloatArray, delta: float
) -> tuple[float | None, str]:
    """Returns steps that give all pairs their `visits` with probability 1 - delta, and a note.

    inf if no n does, None if none was found; the note says why. Every needed pair must be reached.
    """
    reached = np.flatnonzero(reached_states(chain, start))
    needed = np.flatnonzero(visits)
    if reached.size > MAX_STATES or needed.size > MAX_PAIRS:
        return None, (
            f"sure steps are not computed above {MAX_STATES} states or {MAX_PAIRS} pairs: "
            "ask for fewer pairs, or simulate the policy."
        )
    returns = _read(mdp, chain, choice, start, visits, reached, needed)
    by_chance = _pairs_by_chance(returns)
    if by_chance.size:
        return _left_to_chance(mdp, returns, by_chance, needed, delta)
    return _search(returns, delta)


def _read(
    mdp: MDP, chain: Matrix, choice: FloatArray, start: FloatArray, visits: FloatArray,
    reached: IntArray, needed: IntArray,
) -> Returns:  # fmt: skip
    return Returns(
        chain=sp.csr_array(chain[reached][:, reached]),
        start=start[reached],
        rows=sp.csr_array(mdp.transitions[needed][:, reached]),
        state=np.searchsorted(reached, mdp.pair_state[needed]),
        choice=choice[needed],
        times=visits[needed],
    )


def _pairs_by_chance(returns: Returns) -> IntArray:
    """Returns which of the counted pairs are not visited infinitely often with probability 1."""
    classes = chains.recurrent_classes(returns.chain)
    if len(classes) > 1:
        return np.arange(returns.state.size)
    return np.flatnonzero(~np.isin(returns.state, classes[0]))


def _left_to_chance(
    mdp: MDP, returns: Returns, pairs: IntArray, needed: IntArray, delta: float
) -> tuple[float | None, str]:
    """Returns inf if some pair is too likely never to get its visits, else None, and a note with its name."""
    for i in pairs:
        chance = _chance_of_enough(returns, int(i))
        if chance < 1 - delta - 1e-9:
            name = mdp.pair_name(int(needed[i]))
            return (
                math.inf,
                f"{name} gets its visits only with probability {chance:.3g}, after any number of steps.",
            )
    name = mdp.pair_name(int(needed[pairs[0]]))
    return None, f"sure steps are not computed: not every trajectory visits {name} again and again."


def _chance_of_enough(returns: Returns, i: int) -> float:
    """Returns the probability that pair i is ever visited as often as needed: one hit and m - 1 returns."""
    first, again = _hitting(returns, i)
    return first * again ** float(returns.times[i] - 1)


def _hitting(returns: Returns, i: int) -> tuple[float, float]:
    """Returns the probability of ever taking pair i, from the start and from just after it."""
    from scipy.sparse.linalg import spsolve

    s, row = int(returns.state[i]), returns.rows[[i]].toarray().ravel()
    able = np.flatnonzero(reached_backwards(returns.chain, s))  # elsewhere the probability is 0
    through = np.zeros(able.size)
    through[np.searchsorted(able, s)] = returns.choice[i]
    without = returns.chain[able][:, able] - sp.csr_array(np.outer(through, row[able]))
    hit = np.atleast_1d(np.asarray(spsolve(sp.csc_array(sp.eye_array(able.size) - without), through)))
    return float(returns.start[able] @ hit), float(row[able] @ hit)


def reached_backwards(chain: Matrix, state: int) -> Any:
    """Returns from which states `state` can be reached, shape `[S]`."""
    target = np.zeros(chain.shape[0])
    target[state] = 1.0
    return reached_states(sp.csr_array(chain.T), target)


def _search(returns: Returns, delta: float) -> tuple[float | None, str]:
    """Returns the smallest n found over a ladder of y."""
    found: dict[float, tuple[FloatArray, FloatArray]] = {}
    best, idle, y = math.inf, 0, _largest_rate(returns)
    for _ in range(MAX_HALVINGS):
        found[y] = bounds_at(returns, y)
        n = _steps(found, delta)
        best, idle = (n, 0) if n < best else (best, idle + (best < math.inf))
        if idle == NO_PROGRESS:
            break
        y /= 2
    if best == math.inf:
        return None, "sure steps were not found: some pair is too rare for float64. Ask for fewer pairs."
    for _ in range(REFINEMENTS):
        for y in _between(found, best):
            found[y] = bounds_at(returns, y)
        best = _steps(found, delta)
    return int(best), ""


def _largest_rate(returns: Returns) -> float:
    """Returns a y above those that matter: many times the frequency of the pair that takes longest.

    The best y is near the frequency or below; only almost deterministic chains need more.
    """
    frequency = chains.stationary_distribution(returns.chain)[returns.state] * returns.choice
    worst = int(np.argmax(returns.times / frequency))
    return min(64 * float(frequency[worst]), 16.0)


def bounds_at(returns: Returns, y: float) -> tuple[FloatArray, FloatArray]:
    """Returns (A, y'), each `[N]`, with P(pair has too few visits after n steps) <= exp(A - y' n).

    A is inf where y is too large for the pair or no g could be verified.
    """
    g = _exponential_moments(returns, y)
    if g is None:
        return np.full(returns.state.size, np.inf), np.ones(returns.state.size)
    again = _after_pair(returns, g)
    rounding = UNIT * (returns.chain.shape[0] + 8)
    excess = _excess(returns, y, g, again)
    rate = y - np.log(excess) - 8 * UNIT
    with np.errstate(all="ignore"):
        level = np.log(returns.start @ g / g.min(axis=0)) + (returns.times - 1) * np.log(again)
        level += (returns.times + 1) * rounding
    valid = (g > 0).all(axis=0) & (again >= 1) & np.isfinite(excess) & (rate > 0) & np.isfinite(level)
    return np.where(valid, level, np.inf), np.where(valid, rate, 1.0)


def _exponential_moments(returns: Returns, y: float) -> FloatArray | None:
    """Returns candidates for g, `[R, N]`, by Sherman and Morrison's formula; None if the solver fails."""
    growth = math.exp(y)
    states, place = np.unique(returns.state, return_inverse=True)
    one = np.eye(returns.start.size)
    try:
        columns = np.linalg.solve(one - growth * returns.chain.toarray(), one[:, states])[:, place]
    except np.linalg.LinAlgError:
        return None
    with np.errstate(all="ignore"):  # the check discards what is not finite
        looped = growth * returns.choice * _after_pair(returns, columns)
        return growth * returns.choice * columns / (1 + looped)


def _after_pair(returns: Returns, g: FloatArray) -> FloatArray:
    """Returns <P_i, g_i> for each pair, `[N]`, from the columns `[R, N]`."""
    with np.errstate(all="ignore"):
        return np.asarray(returns.rows.multiply(g.T).sum(axis=1)).ravel()


def _excess(returns: Returns, y: float, g: FloatArray, again: FloatArray) -> FloatArray:
    """Returns the largest ratio of the left side of (*) to g, `[N]`, rounding errors added."""
    pair = np.arange(returns.state.size)
    with np.errstate(all="ignore"):
        image = returns.chain @ g
        error = UNIT * (np.diff(returns.chain.indptr).max() + 8) * (image + 1)
        image[returns.state, pair] += returns.choice * (1 - again)
        ratio = math.exp(y) * (image + error) / g
    ratio = np.where(np.isnan(ratio), np.inf, ratio)
    return np.maximum(ratio.max(axis=0), UNIT)


def _steps(found: dict[float, tuple[FloatArray, FloatArray]], delta: float) -> float:
    """Returns the smallest n whose failure probabilities sum to at most delta; inf if a pair has no bound."""
    level, rate = (np.array(part) for part in zip(*found.values(), strict=True))
    if not np.isfinite(level).any(axis=0).all():
        return math.inf
    low, high = 0, 1
    while _failure(level, rate, high) > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _failure(level, rate, middle) > delta else (low, middle)
    return high


def _failure(level: FloatArray, rate: FloatArray, n: int) -> float:
    """Returns the union bound on the probability that some pair has too few visits after n steps."""
    exponent = (level - rate * float(n)).min(axis=0)
    return float(np.exp(np.minimum(exponent, 0.0)).sum())


def _between(found: dict[float, tuple[FloatArray, FloatArray]], n: float) -> list[float]:
    """Returns values of y on both sides of the best ones for the pairs that determine n."""
    y = np.array(sorted(found))
    exponent = np.array([found[v][0] - found[v][1] * n for v in y])
    deciding = exponent.min(axis=0) >= exponent.min(axis=0).max() - 3  # within a factor of 20 of the worst
    places = np.unique(np.argmin(exponent[:, deciding], axis=0))[:3]
    neighbours = {(a, b) for k in places for a, b in ((k - 1, k), (k, k + 1)) if a >= 0 and b < y.size}
    return [float(np.sqrt(y[a] * y[b])) for a, b in sorted(neighbours)]
