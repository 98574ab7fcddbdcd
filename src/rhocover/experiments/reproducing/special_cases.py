"""The lemmas of the paper as numbers: each statement's two sides, their difference, and what is allowed.

"From Relative Entropy to Minimax: A Unified Framework for Coverage in MDPs" names the special cases of its
family: rho = 1 is relative entropy, rho = 2 average coverage and the error of an estimated model, rho -> inf
the worst case. What holds for every occupancy is in `identities`, what is said of optima in `optima`.
Two statements are about trajectories, and are measured here:

- with mu = sqrt(c), c = sum_s' P(1-P), U_2(d) = -n sum_i E|P_hat_i - P_i|_2^2 after n steps that visit pairs
  in proportion to d;
- Theorem 1: Algorithm 1 with tau_k = tau_1 k^2 falls short by O(t^(-1/3)), up to a logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rhocover import weights
from rhocover.checks import FloatArray
from rhocover.coverage import Coverage
from rhocover.experiments.reproducing.identities import identities
from rhocover.experiments.reproducing.jobs import Job, Report, run_jobs
from rhocover.experiments.reproducing.optima import optima
from rhocover.experiments.reproducing.reproduction import Reproduction, Row
from rhocover.experiments.reproducing.scenes import CHANCE, Scene, scenes
from rhocover.experiments.rows import THEOREM, Estimate, estimate, exponent
from rhocover.exploring.algorithm1 import Algorithm1
from rhocover.exploring.feedback import Feedback
from rhocover.exploring.trace import grid_of_steps
from rhocover.planning import plan

NAME, NUM_STEPS, SEEDS = "paper-special-cases", 20_000, 100
THEOREM_SEEDS, THEOREM_POINTS = 10, 5  # fewer runs do: an exponent varies little
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
    rows: list[Row] = []
    for k, scene in enumerate(found):
        own = numbers[k * size : (k + 1) * size]
        rows += [*identities(scene), *optima(scene)]
        rows += [_error_row(scene, own[: len(seeds)]), _theorem_row(scene, num_steps, own[len(seeds) :])]
    return Reproduction(
        name=NAME,
        title="The paper's statements as numbers",
        citation=CITATION,
        text="mu = 1, 2, 3 in turn over the pairs, d the visits of the uniform policy, unless said. The "
        f"model error is that of {len(seeds)} runs of {num_steps:,} steps, Theorem 1 of {len(few)}.",
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


def _error_row(scene: Scene, numbers: Sequence[FloatArray]) -> Row:
    """Lemma 2 for the model's error: -n sum E|P_hat - P|^2 measured, beside U_2 of the plan."""
    mu = scene.mdp.per_pair(weights.transition_std(scene.mdp), "mu")
    best = plan(scene.mdp, 2.0, weights.transition_std(scene.mdp))
    measured = estimate(-np.concatenate(numbers))
    return Row(
        scene.title, "Lemma 2: -n sum |P_hat - P|_2^2, and U_2", measured,
        Coverage(2.0, mu).value(scene.per_pair(best)), relation="=",
        allowed=allowance(measured, len(numbers)),
        note="mu = sqrt(c), zero where the next state is certain (E4): such pairs are left out on both "
        "sides. The left side is a mean over runs of feedback; what chance exceeds once in 16,000 times is "
        "allowed, four standard errors of many runs.",
    )  # fmt: skip


def allowance(measured: Estimate, num_runs: int) -> float | None:
    """Returns what chance exceeds once in 16,000 times, by Student's t; one run decides nothing."""
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


def _theorem_row(scene: Scene, num_steps: int, numbers: Sequence[FloatArray]) -> Row:
    """Theorem 1: the exponent with which Algorithm 1's regret falls, beside -1/3."""
    steps = np.array(grid_of_steps(num_steps, THEOREM_POINTS, 1))
    found: Estimate = exponent(steps, np.array(numbers))
    return scene.at_most(
        "Theorem 1: exponent of Algorithm 1 at rho = 2", found, THEOREM,
        allowed=allowance(found, len(numbers)),
        note="Theorem 1 bounds from above, so a faster fall is within it. Measured over the last two decades "
        "of steps on the pathwise regret, because U(d*) - U(d_hat) changes its sign by chance.",
    )  # fmt: skip
