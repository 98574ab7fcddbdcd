"""How good is the worst pair when the transitions are unknown? max (1/SA)/d_hat after 50,000 steps.

Uniform weights, rho = inf, 20 seeds, one continuing trajectory for ours. The yardsticks: rlberry's
reward-free UCBVI with H = 20 and in the best form that a search over its settings found for each model
(`rlberry_yardstick`), and the cited systems, episodic ones with resets and H = 20 (visits of all steps are
added up; at best 1.220 and 1.221 can be reached with these resets). The best possible without resets is in
the last column.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import rhocover as rc
from benchmarks import report, seeds
from tools.bars import rlberry_yardstick

STEPS, SEEDS, HORIZON, INF = 50_000, 20, 20, float("inf")
MODELS = {"noisy_river_swim(12)": rc.envs.noisy_river_swim, "wheel(5)": rc.envs.wheel}
BARS = {"noisy_river_swim(12)": 1.20, "wheel(5)": 1.21}
OURS: dict[str, dict[str, Any]] = {
    "feedback, learned": {"model": "learned"},
    "feedback, from scratch": {"model": "from_scratch"},
    "feedback, posterior": {"model": "posterior"},
    "tracking, learned": {"model": "learned", "explorer": "tracking"},
    "feedback, known": {},
}
CITED: dict[str, dict[str, Any]] = {
    "uniform_random": {"explorer": "uniform_random"},
    "EntGame": {"explorer": "ent_game", "horizon": HORIZON},
    "EntGame without bonus": {"explorer": rc.baselines.EntGame(bonus=0.0), "horizon": HORIZON},
    "RF-UCRL": {"explorer": "rf_ucrl", "horizon": HORIZON},
    "RF-Express": {"explorer": "rf_express", "horizon": HORIZON},
    "CovGame": {"explorer": "cov_game", "horizon": HORIZON},
    "CovGame over pairs": {"explorer": rc.baselines.CovGame(scope="pair"), "horizon": HORIZON},
    "reward-free (Jin)": {"explorer": "reward_free", "horizon": HORIZON},
}
PEERS = {
    "noisy_river_swim(12)": [("UCBVI", HORIZON), ("UCBVI continuing gamma 0.9", 500)],
    "wheel(5)": [("UCBVI", HORIZON), ("RSUCBVI continuing", 5)],
}


def run() -> None:
    rows = []
    for name in MODELS:
        rows += [own_row(name, label, OURS[label]) for label in OURS]
        rows += [own_row(name, label, {"model": "learned"} | CITED[label]) for label in CITED]
        rows += [peer_row(name, form, horizon) for form, horizon in PEERS[name]]
    report.write("unknown", rows, verdicts(rows))


def verdicts(rows: list[dict[str, Any]]) -> dict[str, bool]:
    found = {}
    for name, bar in BARS.items():
        here = {row["explorer"]: row["worst ratio"] for row in rows if row["case"] == name}
        ours = here["feedback, learned"]
        others = {label: value for label, value in here.items() if label not in OURS}
        best = min(others, key=lambda label: others[label])
        found[f"{name}: {ours:.4f} (<= {bar})"] = ours <= bar
        found[f"{name}: the best other has {others[best]:.4f} ({best})"] = ours < others[best]
    return found


def own_row(name: str, label: str, arguments: dict[str, Any]) -> dict[str, Any]:
    found = seeds.over(own_ratio, [(name, arguments, seed) for seed in range(SEEDS)])
    return row_of(name, label, found)


def own_ratio(name: str, arguments: dict[str, Any], seed: int) -> float:
    mdp = MODELS[name]()
    start = 0 if "horizon" in arguments else None
    run = rc.explore(mdp, INF, STEPS, seed=seed, trace_points=1, start=start, **arguments)
    counts = run.counts if run.counts.ndim == 2 else run.counts.sum(axis=0)
    return rlberry_yardstick.worst_ratio(counts)


def peer_row(name: str, form: str, horizon: int) -> dict[str, Any]:
    found = seeds.over(peer_ratio, [(name, form, horizon, seed) for seed in range(SEEDS)])
    return row_of(name, f"rlberry {form}, H = {horizon}", found)


def peer_ratio(name: str, form: str, horizon: int, seed: int) -> float:
    return rlberry_yardstick.worst_ratio(
        rlberry_yardstick.visits(MODELS[name](), STEPS, horizon, 100 + seed, form)
    )


def row_of(name: str, label: str, ratios: list[float]) -> dict[str, Any]:
    mean, error = seeds.mean_and_error(ratios)
    possible = rc.plan(MODELS[name](), INF).worst_ratio
    return {
        "case": name,
        "explorer": label,
        "worst ratio": mean,
        "± SE": error,
        "largest": float(np.max(ratios)),
        "best possible": possible,
    }
