"""A test of whether states are Markov: the next state may depend on state and action only, not on the past.

In a Markov decision process the next state y, given the pair i = (s, a), is a draw from one row P_i, whatever
came before. Bins and other codes of observations need not have this property: if a bin takes several steps to
cross, it is left sooner when it was entered longer ago. Plans, best values and certificates are then about a
chain that is not the environment's.

The past is summarised by x: the state from which s was entered, and how long ago, in powers of two.

**The test** is a bet against the rows (an e-value), so it is valid for any behaviour, however it chose its
actions, and for any number of visits; a chi-square table is not. The first B = `BURN_IN` visits of a pair
define its possible next states; all others are one additional outcome. After that, y is predicted by

    q(y | i, x) = (N_x(y) + c b(y)) / (N_x + c),      b(y) = (n(y) + 1/2) / (B + K/2),

where N_x counts the visits since then with this x, n those of the burn-in, and K is the number of outcomes.
For the true rows the product of q(y)/P_i(y) is a martingale of mean 1 however i and x are chosen, so for each
pair

    E_i = prod q(y | i, x) / max_P prod P(y)        has mean at most 1,

and so has  E = (1/2) prod_i (1 + E_i)/2 + (1/2) sum_k E_(k) / (k (k+1)),  (k) the k-th pair that was met: the
product detects many small effects, the sum one large effect. By Markov's inequality E >= 1/p with probability
at most p. A detected dependence is real; detecting nothing does not prove that there is none.

**The size** is the information that x adds about the next state, in nats per step: the plug-in estimate of
I(y; x | i) minus its bias (half a nat for each degree of freedom, over the steps), with its standard error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from rhocover import checks
from rhocover.checks import BoolArray, FloatArray, IntArray
from rhocover.coverage import log_sum_exp
from rhocover.documents import plain
from rhocover.errors import InvalidArgumentError
from rhocover.printing import count_of

BURN_IN = 8  # visits that define a pair's outcomes; more find rarer ones, but leave fewer to bet on
CAUTION = 4.0  # c: weight of the burn-in, in visits; 1 and 8 detect less in 3,000 steps of MountainCar
FALSE_ALARM = 1e-3  # the largest probability with which Markov states are called not Markov
SMALLEST = 1e-99  # smaller p-values are reported as this


@dataclass(frozen=True)
class MarkovTest:
    """How much the past says about the next state, and how certain it is that it says anything.

    `p_value` bounds the probability of a result this extreme if the states are Markov. `information` is an
    estimate in nats per step with its standard error; nan if no pair was visited often enough.
    """

    p_value: float
    information: float
    standard_error: float
    num_steps: int  # in all
    num_tested: int  # of them after the burn-in of their pair

    @property
    def is_found(self) -> bool:
        """Whether the states are not Markov; wrong with probability at most `FALSE_ALARM`."""
        return self.p_value <= FALSE_ALARM

    def __str__(self) -> str:
        if self.num_tested == 0:
            return f"It was not tested whether states are Markov: no pair has more than {BURN_IN} visits."
        if not self.is_found:
            return (
                f"In {count_of(self.num_steps, 'step', ',')} there is no sign that states are not Markov "
                f"(p = {self.p_value:.2g}). This does not prove that they are."
            )
        p = f"p < {SMALLEST:g}" if self.p_value <= SMALLEST else f"p <= {self.p_value:.1e}"
        return (
            "The states are not Markov: the next state depends on what came before, not only on state and "
            f"action ({p}; {self.information:.2g} ± {self.standard_error:.1g} nats per step)."
        )

    def document(self) -> dict[str, Any]:
        """Returns the result as a JSON document, with None for nan."""
        return plain({
            "is_refuted": self.is_found, "p_value": self.p_value, "false_alarm": FALSE_ALARM,
            "information": self.information, "standard_error": self.standard_error,
            "num_steps": self.num_steps, "num_tested": self.num_tested, "text": str(self),
        })  # fmt: skip


def markov_test(states: Any, actions: Any, nexts: Any, began: Any, copies: Any = None) -> MarkovTest:
    """Returns the test of steps in the order in which they were taken; each array has one entry per step.

    States and actions are whole numbers; where the episode ended, `nexts` has a number that is no state, such
    as -1. `began` is true at the first step of each episode; `copies` says which of several environments that
    take turns made the step.

    >>> import numpy as np
    >>> phase = np.arange(400) // 2 % 2  # two steps here, two steps there
    >>> markov_test(phase[:-1], phase[:-1] * 0, phase[1:], np.arange(399) == 0).is_found
    True
    """
    given = {"states": states, "actions": actions, "nexts": nexts, "began": began}
    given["copies"] = np.zeros(np.shape(began), np.int64) if copies is None else copies
    columns = {name: _column(values, name) for name, values in given.items()}
    lengths = {name: column.size for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidArgumentError(
            f"all columns must have one entry per step, got {lengths}.", argument="states"
        )
    states, actions, nexts, began, copies = columns.values()
    order, history = np.argsort(copies, kind="stable"), np.empty(states.size, np.int64)
    history[order] = _histories(states[order], began[order] > 0, copies[order])
    return _tested(_by_appearance(_joined(states, actions)), history, nexts)


def _tested(pairs: IntArray, history: IntArray, nexts: IntArray) -> MarkovTest:
    log_e = _combined(_log_bets(pairs, history, nexts))
    p_value = min(1.0, max(math.exp(-min(log_e, 700.0)), SMALLEST))  # beyond 700 exp leaves float64
    tested = int(np.count_nonzero(_ranks(pairs) >= BURN_IN))
    size, error = _information(pairs, history, nexts) if tested else (math.nan, math.nan)
    return MarkovTest(p_value, size, error, int(pairs.size), tested)


def _histories(states: IntArray, began: BoolArray, copies: IntArray) -> IntArray:
    """Returns the past of each step as a number: where its state was entered from, and how long ago."""
    began = began | (np.diff(copies, prepend=-1) != 0)
    entry = np.flatnonzero(began | (np.diff(states, prepend=-1) != 0))
    source = np.where(began[entry], -1, _by_appearance(states)[entry - 1])
    length = np.diff(np.append(entry, states.size))
    stay = np.arange(states.size) - np.repeat(entry, length)
    return _joined(np.repeat(source, length), np.floor(np.log2(stay + 1)).astype(np.int64))


def _column(values: Any, name: str) -> IntArray:
    array = checks.any_array(values, name)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iub"):
        raise InvalidArgumentError.of(name, "must hold whole numbers, one per step", f"{array.dtype}")
    return array.astype(np.int64)


def _by_appearance(values: IntArray) -> IntArray:
    """Returns numbers 0, 1, ... in the order in which they are first met."""
    _, first, number = np.unique(values, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[number]


def _ranks(pairs: IntArray) -> IntArray:
    """Returns for each step how many visits its pair had before it."""
    order = np.argsort(pairs, kind="stable")
    first = np.searchsorted(pairs[order], np.arange(int(pairs.max(initial=-1)) + 1))
    ranks = np.empty(pairs.size, np.int64)
    ranks[order] = np.arange(pairs.size) - first[pairs[order]]
    return ranks


def _log_bets(pairs: IntArray, history: IntArray, after: IntArray) -> FloatArray:
    """Returns log E_i of each pair, in the order of `pairs`; 0 for those with no visit after the burn-in."""
    num = int(pairs.max(initial=-1)) + 1
    late = _ranks(pairs) >= BURN_IN
    outcome, base = _outcomes(pairs, after, late, num)
    pairs, history, outcome = pairs[late], history[late], outcome[late]
    predicted = _log_predicted(pairs, history, outcome, base, num)
    return predicted - _log_fitted(pairs, outcome, num)


def _outcomes(pairs: IntArray, after: IntArray, late: BoolArray, num: int) -> tuple[IntArray, FloatArray]:
    """Returns the outcome `[T]` of each step and b of each outcome: those of burn-ins, then the others."""
    joint = _joined(pairs, after)
    known, first, times = np.unique(joint[~late], return_index=True, return_counts=True)
    owner = pairs[~late][first]
    place = np.minimum(np.searchsorted(known, joint), max(known.size - 1, 0))
    outcome = np.where(known[place] == joint, place, known.size + pairs) if known.size else known.size + pairs
    num_outcomes = np.bincount(owner, minlength=num) + 1
    share = np.append(times, np.zeros(num)) + 0.5
    total = np.bincount(owner, times, minlength=num) + num_outcomes / 2
    return outcome, share / total[np.append(owner, np.arange(num))]


def _log_predicted(
    pairs: IntArray, history: IntArray, outcome: IntArray, base: FloatArray, num: int
) -> FloatArray:
    """Returns log prod q(y | i, x) of each pair: a product of ratios of gamma functions for each (i, x)."""
    _, cell_first, cell, visits = _counted(_joined(pairs, history))
    _, first, _, times = _counted(_joined(cell, outcome))
    prior = CAUTION * base[outcome[first]]
    gained = gammaln(times + prior) - gammaln(prior)
    paid = gammaln(visits + CAUTION) - gammaln(CAUTION)
    found = np.bincount(pairs[first], gained, minlength=num)
    return np.asarray(found - np.bincount(pairs[cell_first], paid, minlength=num), float)


def _log_fitted(pairs: IntArray, outcome: IntArray, num: int) -> FloatArray:
    """Returns log max_P prod P(y) of each pair."""
    visits = np.bincount(pairs, minlength=num)
    _, first, _, times = _counted(_joined(pairs, outcome))
    owner = pairs[first]
    return np.asarray(np.bincount(owner, times * np.log(times / visits[owner]), minlength=num), float)


def _combined(bets: FloatArray) -> float:
    """Returns log E of all pairs."""
    if bets.size == 0:
        return 0.0
    product = float(np.logaddexp(0.0, bets).sum() - bets.size * math.log(2))
    k = np.arange(1.0, bets.size + 1)
    rest = -math.log(bets.size + 1)  # for pairs that were not met: their E_i is 1
    one = log_sum_exp(np.append(bets - np.log(k * (k + 1)), rest))
    return float(np.logaddexp(product, one)) - math.log(2)


def _information(pairs: IntArray, history: IntArray, after: IntArray) -> tuple[float, float]:
    """Returns the estimate of I(y; x | i) and its standard error."""
    cells = (pairs, _joined(pairs, history), _joined(pairs, after), _joined(_joined(pairs, history), after))
    counted = [_counted(cell) for cell in cells]
    of_pair, of_history, of_after, joint = (np.log(times)[number] for _, _, number, times in counted)
    gain = joint + of_pair - of_history - of_after
    freedom = _freedom(pairs, counted[1][1], counted[2][1])
    size = float(gain.mean()) - freedom / (2 * pairs.size)
    return size, float(gain.std() / math.sqrt(pairs.size))


def _freedom(pairs: IntArray, first_history: IntArray, first_after: IntArray) -> int:
    """Returns the degrees of freedom: sum over pairs of (histories - 1)(next states - 1)."""
    num = int(pairs.max()) + 1
    rows = np.bincount(pairs[first_history], minlength=num) - 1
    return int(rows @ (np.bincount(pairs[first_after], minlength=num) - 1))


def _joined(a: IntArray, b: IntArray) -> IntArray:
    """Returns one whole number for each combination of two."""
    low = int(b.min(initial=0))
    return a * (int(b.max(initial=0)) - low + 1) + (b - low)


def _counted(codes: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Returns the distinct codes, the first place of each, each entry's number, and their counts."""
    return np.unique(codes, return_index=True, return_inverse=True, return_counts=True)
