"""What the constants of the theorem are made from: the order, the floor and the gap, given or chosen."""

from __future__ import annotations

import math
from typing import Any

from rhocover import chains, checks
from rhocover.checks import FloatArray
from rhocover.errors import InvalidArgumentError
from rhocover.mdp import MDP
from rhocover.occupancy import Occupancies
from rhocover.planning import Plan

SHARE_OF_OPTIMUM = 0.9  # the floor 2 eta as a share of min d*, so that d* lies inside D_eta


def checked_order(rho: Any) -> float:
    """Returns an order for which U_rho is smooth."""
    rho = checks.number(rho, "rho")
    if not 0 < rho < math.inf:
        raise InvalidArgumentError(
            f"`rho` must be in (0, inf), got {rho:g}: the theorem needs a smooth U_rho. "
            "A large rho such as 100 stands in for the worst case."
        )
    return rho


def read_floor(mdp: MDP, eta: Any, d_star: FloatArray) -> float:
    """Returns eta, given or chosen, such that d* lies in D_eta."""
    least = float(d_star.min())  # at most t*, the largest floor of any occupancy
    if eta is None:
        return SHARE_OF_OPTIMUM * least / 2
    eta = checks.number(eta, "eta")
    if not 0 < eta < 0.5:
        raise InvalidArgumentError(f"`eta` must be in (0, 1/2), got {eta:g}. None chooses one.")
    if 2 * eta > least:
        Occupancies.average(mdp, eta=eta).check_floor()
        raise InvalidArgumentError(
            f"eta={eta:g} asks every pair for {2 * eta:g} of the visits; the optimum gives one only "
            f"{least:.4g}, so it is not in D_eta and Algorithm 1 does not tend to it. "
            f"Pass eta <= {least / 2:.4g}."
        )
    return eta


def read_gap(mdp: MDP, gamma_min: Any, policies: Any, best: Plan) -> tuple[float, str]:
    """Returns gamma_min, given or computed, and where it is from."""
    if gamma_min is not None:
        if policies is not None:
            raise InvalidArgumentError("pass `gamma_min` or `policies`, not both.")
        gamma_min = checks.number(gamma_min, "gamma_min")
        if not 0 < gamma_min <= 1:
            raise InvalidArgumentError(f"`gamma_min` must be in (0, 1], got {gamma_min:g}.")
        return gamma_min, "as given"
    if policies is None:
        gap, kind = _gap(mdp, best.policy, "the optimal policy")
        return gap, f"{kind} gap of the optimal policy alone, not the minimum over all policies"
    policies = tuple(policies)
    if not policies:
        raise InvalidArgumentError("`policies` must hold at least one policy `[S, A]`, got none.")
    gaps = [_gap(mdp, policy, f"policies[{i}]") for i, policy in enumerate(policies)]
    gap, kind = min(gaps)
    return gap, f"{kind} gap, the smallest of {len(gaps)} given policies, not of all"


def _gap(mdp: MDP, policy: Any, name: str) -> tuple[float, str]:
    """Returns the gap of a policy's chain and its kind; the pseudo-spectral one unless it is reversible."""
    chain = chains.policy_chain(mdp, policy)
    if len(chains.recurrent_classes(chain)) > 1:
        raise InvalidArgumentError(
            f"{name} has several recurrent classes: where it starts decides what it visits, and it has "
            "no gap. Pass policies that visit every state."
        )
    reversible = chains.is_reversible(chain)
    gap = chains.spectral_gap(chain) if reversible else chains.pseudo_spectral_gap(chain)
    if not gap > 0:
        raise InvalidArgumentError(
            f"{name} makes a chain without a spectral gap (periodic, or too slow for float64): the theorem "
            "says nothing about it. Pass `gamma_min`, or `policies` that are not periodic."
        )
    return gap, "spectral" if reversible else "pseudo-spectral"
