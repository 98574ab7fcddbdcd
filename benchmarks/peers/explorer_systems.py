"""Who explores, on which terms, and what each aims at: the systems of the comparison of explorers.

Each plays on the terms it was written for. *known* systems are given the transitions, *unknown* ones are not;
*episodes* of H steps begin at the start and visits of all steps are added up; *desk* draws from any pair at
any time, without walking, a draw counting as one step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import rhocover as rc

HORIZON = 20
KNOWN, UNKNOWN = "known", "unknown"


@dataclass(frozen=True)
class System:
    """One explorer: what it knows, how it plays, what it aims at, and its settings."""

    group: str  # "known" or "unknown" transitions
    play: str  # "trajectory", "episodes", "desk" or "rlberry"
    aim: str
    explorer: Any  # of this library; for rlberry the form and the horizon, by environment or for all


ENVIRONMENTS = {
    "NoisyRiverSwim(12)": rc.envs.noisy_river_swim,
    "Wheel(5)": rc.envs.wheel,
    "RiverSwim(6)": rc.envs.river_swim,
    "GridWorld(5x5)": lambda: rc.envs.grid_world(num_rows=5),
}
OURS = {KNOWN: "feedback, P known", UNKNOWN: "feedback, P learned"}
# The best of 64 forms and horizons that a search with the same budget found, for each environment.
RLBERRY_BEST = {
    "NoisyRiverSwim(12)": ("UCBVI continuing gamma 0.9", 200),
    "Wheel(5)": ("RSUCBVI continuing", 3),
    "RiverSwim(6)": ("UCBVI continuing", 200),
    "GridWorld(5x5)": ("RSUCBVI continuing", 3),
}
PAIRS, STATES, ERROR = "even pairs", "even states", "small model error"
BOUNDS = "small error bounds"
SYSTEMS: dict[str, System] = {
    OURS[KNOWN]: System(KNOWN, "trajectory", PAIRS, "feedback"),
    "Algorithm 1 of the paper": System(KNOWN, "trajectory", PAIRS, "algorithm1"),
    "MaxEnt": System(KNOWN, "trajectory", STATES, rc.baselines.MaxEnt()),
    "MaxEnt over pairs": System(KNOWN, "trajectory", PAIRS, rc.baselines.MaxEnt(over="pairs")),
    "FW-AME": System(KNOWN, "trajectory", ERROR, rc.baselines.ActiveExploration()),
    OURS[UNKNOWN]: System(UNKNOWN, "trajectory", PAIRS, "feedback"),
    "rlberry, best form": System(UNKNOWN, "rlberry", PAIRS, RLBERRY_BEST),
    "rlberry UCBVI, H = 20": System(UNKNOWN, "rlberry", PAIRS, ("UCBVI", HORIZON)),
    "CovGame": System(UNKNOWN, "episodes", PAIRS, rc.baselines.CovGame(scope="pair")),
    "EntGame": System(UNKNOWN, "episodes", PAIRS, rc.baselines.EntGame()),
    "RF-UCRL": System(UNKNOWN, "episodes", BOUNDS, rc.baselines.RFUCRL()),
    "RF-Express": System(UNKNOWN, "episodes", BOUNDS, rc.baselines.RFExpress()),
    "reward-free (Jin)": System(UNKNOWN, "episodes", "every state", rc.baselines.RewardFree()),
    "MaxRényi": System(UNKNOWN, "trajectory", PAIRS, rc.baselines.MaxRenyi()),
    "state matching": System(UNKNOWN, "trajectory", STATES, rc.baselines.StateMarginalMatching()),
    "FW-MODEST": System(UNKNOWN, "trajectory", ERROR, rc.baselines.FWModest()),
    "Weighted-MaxEnt": System(UNKNOWN, "trajectory", ERROR, rc.baselines.WeightedMaxEnt()),
    "adaptive sampling": System(UNKNOWN, "desk", ERROR, rc.baselines.GenerativeSampling()),
    "uniformly random": System(UNKNOWN, "trajectory", "nothing", rc.baselines.UniformRandom()),
}
