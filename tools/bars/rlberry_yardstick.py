"""How well does rlberry cover, P unknown? max (1/SA)/d_hat of its reward-free agents in their best form.

`UCBVIAgent(reward_free=True)` plans H steps ahead on the estimated transitions with a bonus of 1/n for a
pair visited n times, plays H steps, and plans again. What is left to choose is the horizon, the discount,
and where an episode begins: at the model's start, or where the last one ended, since the task is a
continuing one. The choice matters far more than chance does, the horizon most, so `run` tries all and
judges the best on fresh seeds. `RSUCBVIAgent` is the same rule on representative
states, here every state; `PSRLAgent` and `RLSVIAgent` draw a model or noise instead of a bonus.

Left as rlberry has it: `UCBVIAgent` keeps the bonus by stage even where transitions are not, so a visit at
stage h refreshes it at that stage alone. It does not know of weights; uniform ones are all it can be
judged by.

rlberry 0.6 is used. In 0.7 the agent moved to rlberry-scool, with the same visits to the last count but
without Numba, and asks for Gymnasium below 0.30.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Sequence
from types import ModuleType
from typing import Any
from unittest import mock

import gymnasium
import numpy as np

import rhocover as rc
from benchmarks import report
from rhocover.checks import IntArray
from rhocover.errors import InvalidArgumentError, MissingExtraError, unknown_name

STEPS, TRIAL_SEEDS, SEEDS = 50_000, 2, 20
HORIZONS = (2, 3, 4, 5, 6, 8, 10, 20, 50, 100, 200, 500, 1000)
INSTALL = "pip install 'rlberry>=0.6,<0.7'"

FORMS: dict[str, dict[str, Any]] = {
    "UCBVI": {"agent": "UCBVIAgent"},
    "UCBVI by stage": {"agent": "UCBVIAgent", "stage_dependent": True},
    "UCBVI real-time": {"agent": "UCBVIAgent", "real_time_dp": True},
    "UCBVI gamma 0.9": {"agent": "UCBVIAgent", "gamma": 0.9},
    "UCBVI continuing": {"agent": "UCBVIAgent", "restart": False},
    "UCBVI continuing gamma 0.9": {"agent": "UCBVIAgent", "restart": False, "gamma": 0.9},
    "RSUCBVI": {"agent": "RSUCBVIAgent"},
    "RSUCBVI continuing": {"agent": "RSUCBVIAgent", "restart": False},
    "PSRL": {"agent": "PSRLAgent"},
    "RLSVI": {"agent": "RLSVIAgent"},
}


def run() -> None:
    cases = {"noisy_river_swim(12)": rc.envs.noisy_river_swim(), "wheel(5)": rc.envs.wheel()}
    rows = []
    for name, mdp in cases.items():
        trials = [row_of(name, mdp, form, H, range(TRIAL_SEEDS)) for form in FORMS for H in HORIZONS]
        best = min(trials, key=lambda row: row["worst ratio"])
        fresh = range(TRIAL_SEEDS, TRIAL_SEEDS + SEEDS)  # the least of many noisy means is too small
        rows += [*trials, row_of(name, mdp, best["form"], best["horizon"], fresh)]
    report.write("rlberry_yardstick", rows, {})


def row_of(name: str, mdp: rc.MDP, form: str, horizon: int, seeds: range) -> dict[str, Any]:
    worst = np.array([worst_ratio(visits(mdp, STEPS, horizon, seed, form)) for seed in seeds])
    with np.errstate(invalid="ignore"):  # a run that missed a pair has no finite ratio, and no error bar
        error = float(worst.std(ddof=1) / len(worst) ** 0.5)
    return {
        "case": name,
        "form": form,
        "horizon": horizon,
        "worst ratio": float(worst.mean()),
        "± SE": error,
        "seeds": len(seeds),
    }


def worst_ratio(counts: IntArray) -> float:
    """Returns max (1/SA)/d_hat, infinite where a pair was never visited."""
    least = int(counts.min())
    return float(counts.mean() / least) if least else float("inf")


def visits(mdp: rc.MDP, num_steps: int, horizon: int, seed: int, form: str = "UCBVI") -> IntArray:
    """Returns the visits of all pairs, `[S, A]`, in num_steps // horizon episodes of `horizon` steps each.

    Counted by the world, not by the agent. `form` is one of `FORMS`.
    """
    return visits_over_time(mdp, num_steps, horizon, seed, form)[-1]


def visits_over_time(
    mdp: rc.MDP, num_steps: int, horizon: int, seed: int, form: str = "UCBVI", marks: Sequence[int] = ()
) -> IntArray:
    """Returns the visits of all pairs after each of `marks` steps, and in the end, `[k + 1, S, A]`."""
    if form not in FORMS:
        raise unknown_name("form", form, list(FORMS))
    if not 1 <= horizon <= num_steps:
        raise InvalidArgumentError(f"`horizon` must be in 1..{num_steps} (num_steps), got {horizon}.")
    if mdp.num_pairs != mdp.num_states * mdp.num_actions:
        raise InvalidArgumentError("`mdp` must allow every action in every state: rlberry's agents try all.")
    agents, options = rlberry_agents(), {"gamma": 1.0, "restart": True} | FORMS[form]
    agent, restart = options.pop("agent"), options.pop("restart")
    world = (OnALine if agent == "RSUCBVIAgent" else World)(mdp, restart=restart, marks=marks)
    given = {"horizon": horizon, "reward_free": True, "seeder": seed, "copy_env": False}
    getattr(agents, agent)(world, **given, **options, **world.asks).fit(num_steps // horizon)
    return np.array([*world.kept, world.counts])


def rlberry_agents() -> ModuleType:
    """Returns the module rlberry.agents, or raises with the line that installs it.

    On import rlberry sets how much Gymnasium logs, by a function that Gymnasium 1.0 no longer has. A
    stand-in that does nothing lets the import pass, and is gone afterwards.
    """
    try:
        with mock.patch.object(gymnasium.logger, "set_level", create=True):
            import rlberry.agents
            import rlberry.spaces
    except ImportError as error:
        raise MissingExtraError(f"`rlberry` does not import ({error}). Install it with: {INSTALL}") from error
    if not hasattr(rlberry.agents, "UCBVIAgent"):
        raise MissingExtraError(f"`rlberry` {rlberry.__version__} has no UCBVIAgent. Take 0.6: {INSTALL}")
    logging.getLogger("rlberry_logger").setLevel("ERROR")  # else it reports every few seconds
    return rlberry.agents


class World(gymnasium.Env):
    """The model as rlberry wants it, with no rewards, and with the visits `[S, A]` that were paid to it.

    An episode begins at the model's start (state 0 if it has none), or with `restart=False` where the last
    one ended. rlberry seeds it by `reset(seed=...)`.
    """

    reward_range = (0.0, 1.0)  # rlberry asks; it scales the value of what was never tried

    def __init__(self, mdp: rc.MDP, *, restart: bool, marks: Sequence[int] = ()) -> None:
        from rlberry.spaces import Discrete

        self.observation_space, self.action_space = Discrete(mdp.num_states), Discrete(mdp.num_actions)
        self.counts = np.zeros((mdp.num_states, mdp.num_actions), np.int64)
        start = np.eye(mdp.num_states)[0] if mdp.start is None else mdp.start
        self._start, self._moves = cdf(start), [[cdf(row) for row in rows] for rows in mdp.dense()]
        self._restart, self._state = restart, -1
        self._generator = np.random.default_rng()
        self.asks: dict[str, Any] = {}  # what the agent must be told to tell states apart
        self._marks, self._steps = set(marks), 0
        self.kept: list[IntArray] = []  # the visits after each number of steps in `marks`

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        """Returns the state in which an episode begins, and nothing else."""
        if seed is not None:
            self._generator = np.random.default_rng(seed)
        if self._restart or seed is not None or self._state < 0:
            self._state = bisect_right(self._start, self._generator.random())
        return self._seen(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        """Returns the next state, as Gymnasium wants it: no reward, no end."""
        self.counts[self._state, action] += 1
        self._state = bisect_right(self._moves[self._state][action], self._generator.random())
        self._steps += 1
        if self._steps in self._marks:
            self.kept.append(self.counts.copy())
        return self._seen(), 0.0, False, False, {}

    def _seen(self) -> Any:
        return self._state


class OnALine(World):
    """The same world for agents that want coordinates: state s is seen as the point s."""

    def __init__(self, mdp: rc.MDP, *, restart: bool, marks: Sequence[int] = ()) -> None:
        from rlberry.spaces import Box

        super().__init__(mdp, restart=restart, marks=marks)
        length = max(mdp.num_states - 1, 1)
        self.observation_space = Box(np.zeros(1), np.array([float(length)]))
        self.asks = {"min_dist": 0.5 / length, "max_repr": mdp.num_states}  # distances are in lengths

    def _seen(self) -> Any:
        return np.array([float(self._state)])


def cdf(probabilities: np.ndarray) -> list[float]:
    """Returns the cumulative sums, 1 from the last possible outcome on, so that no draw falls beyond it."""
    sums = np.cumsum(probabilities)
    sums[np.flatnonzero(probabilities)[-1] :] = 1.0
    return sums.tolist()
