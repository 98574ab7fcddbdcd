"""Calls of the public API in which one argument is junk, and what may come of that.

A call with junk either returns, because the value was meaningful after all, or raises an error of ours whose
message names the argument. Nothing else: no other exception, no warning, no call that does not come back.
"""

from __future__ import annotations

import inspect
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import scipy.sparse as sp

import rhocover as rc
from patience import PATIENCE
from rhocover.datasets import read_tally
from rhocover.errors import InvalidArgumentError, NotConvergedError, RhocoverError
from rhocover.learning import (
    certify,
    find_discovery_target,
    find_evidence,
    make_confidence,
    model_error,
    planning_regret,
)
from rhocover.oracles import best_response
from rhocover.theory import measured_exponent, theorem_constants

RIVER = rc.envs.river_swim()
UNIFORM = rc.weights.uniform(RIVER)
MEMBERS = rc.Occupancies.average(RIVER)
RUN = rc.explore(RIVER, 2.0, 300, seed=1)
COUNTS = RUN.transitions
FULL = tempfile.mkdtemp()  # of files: nothing is collected there, whatever is asked for
Path(FULL, "file").touch()
STORED = Path(tempfile.mkdtemp(), "run")
rc.explore(RIVER, 2.0, 20, explorer="tracking", out=STORED)
COMPARED = Path(tempfile.mkdtemp(), "compared")
DATA = (np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1]), np.array([1, 0, 1, 0]), np.zeros(4, bool))


class Odd:
    """An object that is nothing in particular, and says no to everything."""

    def __float__(self) -> float:
        raise ValueError("no number")

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise ValueError("no array")


class Endless:
    """A sequence without an end."""

    def __getitem__(self, place: int) -> float:
        return 1.0

    def __len__(self) -> int:
        return 2**40


def junk_values() -> dict[str, Any]:
    """Returns values that some argument will not expect, by what they are called in a failure."""
    values: list[Any] = [
        None, True, False, 0, -1, -(2**70), 2**70, 10**400, 0.5, -0.5, 2.5, float("nan"), float("inf"),
        -float("inf"), 1e308, 5e-324, 1j, complex("nan"), Decimal("0.1"), Decimal("nan"), Fraction(1, 3), "",
        "2", "nan", "river_swim", "ünïcode ☃", "nul\0byte", "../..", b"bytes", bytearray(b"x"), [], (), {},
        set(), [1], [None], ["a"], [[1.0, 2.0], [3.0]], {"a": 1}, {1, 2}, range(3), slice(3), object, int,
        np.float64("nan"), np.int8(-3), np.True_, np.datetime64("2020-01-01"), np.timedelta64(3, "s"),
        np.array(3), np.array("text"), np.zeros(0), np.zeros((0, 2)), np.zeros((6, 0)), np.ones(5), np.ones((7, 3)),
        np.full((6, 2), np.nan), np.full((6, 2), np.inf), np.full((6, 2), -1.0), np.zeros((6, 2)),
        np.ones((6, 2), complex), np.ones((6, 2), bool), np.full((6, 2), "x"), np.full((6, 2), None), np.ones((1,) * 20),
        np.ma.masked_array([1.0], [True]), sp.csr_array((3, 3)), sp.eye_array(6, format="coo"), Odd(), Endless(), lambda *_: None,
        iter([1.0]), NotImplemented, ..., RIVER,
    ]  # fmt: skip
    return {f"{k}: {type(value).__name__} {_short(value)}": value for k, value in enumerate(values)}


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray | sp.sparray):
        return str(value.shape)
    text = repr(value)
    return "" if " at 0x" in text else text[:30]


@dataclass(frozen=True)
class Call:
    """A call that works; every argument of `base` is to be replaced by junk in turn."""

    name: str  # of the public thing it is about
    function: Callable[..., Any]
    base: dict[str, Any]
    fixed: dict[str, Any]  # arguments that stay
    verb: Callable[..., Any] | None = None  # what is called in the end, if that is another function

    @property
    def arguments(self) -> set[str]:
        """The names that an error may be about."""
        known = inspect.signature(self.verb or self.function).parameters
        return set(known) | (set() if self.verb else {*self.base, *self.fixed})


def calls() -> list[Call]:
    """Returns one call or more for everything public that takes arguments."""
    return [*_models(), *_coverage(), *_planning(), *_exploring(), *_data(), *_adapters(), *_learning()]


def _call(
    name: str, function: Callable[..., Any], fixed: dict[str, Any] | None = None, /, **base: Any
) -> Call:
    return Call(name, function, base, fixed or {})


def _shown(name: str, result: Any, kind: str, rows: str, **which: Any) -> Iterator[Call]:
    """Yields the calls by which a result shows itself."""
    yield _call(name, result.plot, kind=kind, title="A title", **which)
    yield _call(name, result.report, {"overwrite": True}, path="page.html")
    yield _call(name, result.to_pandas, rows=rows)
    yield _call(name, result.to_polars, rows=rows)


def _models() -> Iterator[Call]:
    P, env = RIVER.dense(), gymnasium.make("CliffWalking-v1")
    yield _call("MDP", rc.MDP, P=P, num_actions=2, available=np.ones((6, 2), bool), start=0,
                state_labels=list("abcdef"), action_labels=["l", "r"], layout=RIVER.layout)  # fmt: skip
    yield _call("MDP", rc.MDP, {"num_actions": 2}, P=RIVER.transitions)
    yield _call("MDP", rc.MDP.from_pairs, transitions=RIVER.transitions, states=RIVER.pair_state,
                actions=RIVER.pair_action, num_actions=2, start=None)  # fmt: skip
    yield _call("MDP", rc.MDP.from_gymnasium, env=env, ends="restart")
    yield _call("MDP", RIVER.table, values=np.ones(12))
    yield _call("MDP", RIVER.per_pair, {"name": "values"}, values=np.ones(12))
    yield _call("MDP", RIVER.subset, pairs=np.ones(12, bool))
    yield _call("MDP", rc.MDP.load, path="missing")
    yield _call("MDP", RIVER.save, {"overwrite": True}, path="model.rhocover")
    yield from _shown("MDP", RIVER, "transitions", "transitions")
    yield _call("Layout", rc.Layout, positions=np.ones((6, 2)), directions=np.ones((2, 2)))
    yield _call("Layout", RIVER.layout.subset, states=[0, 2])
    for name, sizes in SMALL.items():
        build = getattr(rc.envs, name)
        yield _call(
            name, build, **{key: sizes.get(key, value) for key, value in rc.envs.parameters(name).items()}
        )
    yield _call("make", rc.envs.make, name="river_swim", num_states=6)
    yield _call("parameters", rc.envs.parameters, name="river_swim")
    yield _call("parse_parameters", rc.envs.parse_parameters, name="river_swim", texts=["num_states=5"])
    yield _call("uniform", rc.weights.uniform, mdp=RIVER)
    yield _call("target", rc.weights.target, mdp=RIVER, distribution=UNIFORM)
    yield _call("per_state", rc.weights.per_state, mdp=RIVER, values=np.ones(6))
    yield _call("mask", rc.weights.mask, mdp=RIVER, pairs=np.ones(6, bool))
    yield _call("transition_std", rc.weights.transition_std, mdp=RIVER, min_weight=0.0)
    yield _call("model_error", rc.weights.model_error, mdp=RIVER, min_weight=0.0)


SMALL: dict[str, dict[str, Any]] = {
    "river_swim": {}, "river_swim_strong_current": {}, "noisy_river_swim": {}, "forked_river_swim": {},
    "double_chain": {"num_states": 7}, "wheel": {}, "six_arms": {}, "grid_world": {"num_rows": 3}, "four_rooms": {},
    "n_room": {"num_rooms": 2}, "deep_sea": {"size": 3}, "garnet": {"num_states": 8},
}  # fmt: skip


def _coverage() -> Iterator[Call]:
    yield _call("Coverage", rc.Coverage, rho=2.0, mu=UNIFORM)
    coverage = rc.Coverage(2.0, UNIFORM)
    for method in ("divergence", "value", "log_abs_value", "log_v", "log_ratio", "ratio", "worst_ratio",
                   "log_gradient", "reward", "log_curvature", "hessian_diagonal"):  # fmt: skip
        yield _call("Coverage", getattr(coverage, method), d=UNIFORM / 12)
    yield _call("Coverage", coverage.log_smoothness, eta=0.01)
    yield _call("Occupancies", rc.Occupancies.of, {"start": 0}, mdp=RIVER, discount=0.9, eta=0.0)
    yield _call("Occupancies", rc.Occupancies.average, mdp=RIVER, eta=0.01)
    yield _call("Occupancies", rc.Occupancies.discounted, mdp=RIVER, discount=0.9, start=0, eta=0.0)
    yield _call("Occupancies", rc.Occupancies.horizon, mdp=RIVER, horizon=3, start=0, eta=0.0)
    for method in ("membership", "contains", "to_policy"):
        yield _call("Occupancies", getattr(MEMBERS, method), d=UNIFORM / 12)
    yield _call("Occupancies", MEMBERS.table, d=np.ones(12))
    yield _call("Occupancies", MEMBERS.from_policy, policy=UNIFORM / 2)
    yield _call("Occupancies", best_response, members=MEMBERS, reward=np.ones(12), method="auto")


def _planning() -> Iterator[Call]:
    yield _call("plan", rc.plan, mdp=RIVER, rho=2.0, mu=UNIFORM, eta=0.0, method="interior_point", tol=1e-8,
                max_steps=100, warm=np.zeros(6))  # fmt: skip
    yield _call("plan", rc.plan, {"mdp": RIVER}, rho=2.0, mu=UNIFORM, discount=0.9, start=0)
    yield _call("plan", rc.plan, {"mdp": RIVER, "restrict": True}, rho=2.0, mu=UNIFORM, horizon=3, start=0)
    yield _call(
        "plan_agents", rc.plan_agents, agents=[RIVER, RIVER], rho=2.0, mu=UNIFORM, shares=[1, 2], tol=1e-8
    )
    yield _call("plan_agents", rc.plan_agents, {"agents": [RIVER], "restrict": True}, horizon=3)
    yield _call("plan_agents", rc.plan_agents, {"agents": [RIVER]}, discount=0.9)
    phi = np.stack([np.ones(12), np.arange(12.0)], axis=1)
    yield _call(
        "plan_features", rc.plan_features, mdp=RIVER, rho=2.0, phi=phi, mu=UNIFORM, tol=1e-6, max_steps=100
    )
    yield _call("plan_features", rc.plan_features, {"mdp": RIVER, "phi": phi}, design="A", restrict=True,
                method="corrective", time_limit=10.0)  # fmt: skip
    yield _call("plan_features", rc.plan_features, {"mdp": RIVER, "phi": phi}, discount=0.9, start=0)
    yield _call("plan_features", rc.plan_features, {"mdp": RIVER, "phi": phi}, horizon=3, start=0)
    conditions = [rc.at_most(UNIFORM, 2.0)]
    yield _call("plan", rc.plan, {"mdp": RIVER}, cover="states", subject_to=conditions, mu=np.ones(6))
    yield _call("Condition", rc.Condition, values=UNIFORM, low=0.0, high=1.0, name="cost")
    yield _call("at_most", rc.at_most, cost=UNIFORM, limit=0.5, name="cost")
    yield _call("at_least", rc.at_least, reward=UNIFORM, limit=0.5, name="reward")
    yield _call("within", rc.within, values=UNIFORM, low=0.2, high=0.5, name="share")
    yield _call("best", rc.best, mdp=RIVER, reward=UNIFORM, discount=0.9, start=0)
    yield _call("best", rc.best, {"mdp": RIVER}, reward=UNIFORM, horizon=3, start=0)
    right = np.array([[0.0, 1.0]] * 6)
    yield _call("tradeoff", rc.tradeoff, {"restrict": True}, mdp=RIVER, rho=2.0, reward=right, mu=np.ones(6),
                cover="states", num_points=2, closest=0.5, tol=1e-6)  # fmt: skip
    yield from _shown("Tradeoff", rc.tradeoff(RIVER, 2.0, right, num_points=2), "frontier", "points")
    best = rc.plan(RIVER, 2.0)
    yield _call("Plan", best.save, {"overwrite": True}, path="plan.rhocover")
    yield from _shown("Plan", best, "ratio", "pairs")
    yield _call("Plan", rc.Plan.load, path="missing")
    yield _call("budget", rc.budget, mdp=RIVER, visits=10, policy=UNIFORM / 2, delta=0.05, start=0)
    yield _call("budget", rc.budget, {"mdp": RIVER}, model_error=0.3, delta=0.05)
    yield _call("theorem_constants", theorem_constants, {"gamma_min": 0.1}, mdp=RIVER, rho=2.0, mu=UNIFORM,
                eta=0.001, delta=0.05, tau_1=10)  # fmt: skip
    yield _call(
        "theorem_constants", theorem_constants, {"mdp": RIVER, "rho": 2.0, "eta": 0.001}, gamma_min=0.1
    )
    yield _call("measured_exponent", measured_exponent, t=np.arange(1, 9), regret=1 / np.arange(1, 9))


def _exploring() -> Iterator[Call]:
    yield _call("explore", rc.explore, world=RIVER, rho=2.0, num_steps=20, mu=UNIFORM, states=None, actions=None,
                explorer="tracking", model="known", schedule=None, seed=0, start=0, num_chains=1, until=None,
                trace_points=1, report=None)  # fmt: skip
    yield _call("explore", rc.explore, {"world": RIVER, "rho": 2.0, "num_steps": 20, "explorer": "tracking"},
                discount=0.9, horizon=None, out=None)  # fmt: skip
    yield _call("explore", rc.explore, {"world": gymnasium.make("FrozenLake-v1"), "rho": 2.0, "num_steps": 20, "model": "learned"},
                states=None, actions=None, repeat=1, held_out=None)  # fmt: skip
    yield _call("resume", rc.resume, {"out": STORED}, world=None, rho=None, seed=None, explorer=None, mu=None)
    yield _call("explore", rc.explore, {"world": RIVER, "rho": 2.0, "num_steps": 20}, workers=2)
    yield _call("explore", rc.explore, {"world": RIVER, "rho": 2.0, "num_steps": 20, "workers": 2},
                executor=ThreadPoolExecutor(1))  # fmt: skip
    yield _call("resume", rc.resume, out=STORED)
    yield _call("process", rc.engines.process, processes=1)
    yield _call("Run", RUN.certificate, delta=0.05)
    yield _call("Run", RUN.evidence, delta=0.05)
    yield _call("Run", RUN.planning_regret, num_rewards=2, seed=0)
    yield _call("Run", RUN.save, {"overwrite": True}, path="run.rhocover")
    yield from _shown("Run", RUN, "visits", "trace")
    yield _call("compare", rc.compare, {"workers": 1}, envs="river_swim", explorers=["tracking"], rho=2.0, num_steps=20,
                mu=None, model="known", seeds=1, schedule=None, start=None, num_chains=1, trace_points=1)  # fmt: skip
    yield _call("compare", rc.compare, {"envs": "river_swim", "explorers": "tracking", "num_steps": 20, "seeds": 1},
                workers=1)  # fmt: skip
    yield _call("compare", rc.compare, {"envs": "river_swim", "explorers": "tracking", "num_steps": 20, "seeds": 1,
                "workers": 1, "out": COMPARED}, shard="1/1")  # fmt: skip
    yield _call("compare", rc.compare, {"envs": "river_swim", "explorers": "tracking", "num_steps": 20, "seeds": 1},
                executor=ThreadPoolExecutor(1))  # fmt: skip
    found_in = {"num_steps": 20, "seeds": 1, "workers": 1, "envs": "FrozenLake-v1"}
    yield _call("compare", rc.compare, found_in | {"held_out": int}, explorers=["feedback"], rho=2.0, mu=None, model=None,
                states=None, actions=None, schedule=None)  # fmt: skip
    yield _call("compare", rc.compare, {"num_steps": 20, "seeds": 1, "workers": 1}, envs="FrozenLake-v1", explorers=["feedback"],
                rho=2.0, mu=None, model=None, states=None, actions=None, held_out=None, schedule=None)  # fmt: skip
    found = rc.compare("river_swim", "tracking", num_steps=20, seeds=1, workers=1)
    yield _call(
        "Comparison", found.values, env="river_swim", rho=2.0, explorer="tracking", column="divergence"
    )
    yield _call(
        "Comparison", found.curve, env="river_swim", rho=2.0, explorer="tracking", column="divergence"
    )
    yield _call("Comparison", found.fact, env="river_swim", rho=2.0, name="sigma")
    yield _call("Comparison", found.save, {"overwrite": True}, path="comparison.rhocover")
    yield _call("Comparison", rc.Comparison.load, path="missing")
    yield from _shown("Comparison", found, "regret", "runs", env="river_swim", rho=2.0)
    yield _call("reproduce", rc.reproduce, {"workers": 1}, name="nothing")
    yield from _explorers()


def _explorers() -> Iterator[Call]:
    yield _call("Algorithm1", rc.Algorithm1, schedule=rc.Doubling(), eta=0.001, count_floor=0.5, oracle="lp")
    yield _call("Constant", rc.Constant, tau=50)
    yield _call("Power", rc.Power, tau_1=10, p=2.0)
    for name in ("Doubling", "Quadratic", "LineSearch"):
        yield _call(name, getattr(rc, name), tau_1=10)
    yield _call("CertifiedGap", rc.CertifiedGap, gap=0.1, delta=0.05)
    yield _call("EveryPair", rc.EveryPair, visits=3)
    yield _call("SmallModelError", rc.SmallModelError, error=0.1, delta=0.05)
    yield _call(
        "Learned", rc.Learned, growth=1.2, smoothing=0.5, know_states=True, sample=False, discovery=True
    )
    yield _call("MaxEnt", rc.baselines.MaxEnt, tau_1=1, over="states", sigma=1e-4)
    yield _call("WeightedMaxEnt", rc.baselines.WeightedMaxEnt, tau_1=1, power=1.0, sigma=1e-4, delta=0.1)
    yield _call("FWModest", rc.baselines.FWModest, tau_1=1, eta=None, delta=0.1)
    yield _call("ActiveExploration", rc.baselines.ActiveExploration, tau_1=1, eta=None, delta=0.1)
    yield _call("MaxRenyi", rc.baselines.MaxRenyi, alpha=0.5, episode_length=100, prior=1.0)
    yield _call("StateMarginalMatching", rc.baselines.StateMarginalMatching, target="mu", episode_length=100,
                randomness=1.0, prior=1.0)  # fmt: skip
    yield _call("GenerativeSampling", rc.baselines.GenerativeSampling, loss="l2", aggregate="max", delta=0.1,
                block_share=0.1)  # fmt: skip
    yield _call("generative_world", rc.baselines.generative_world, mdp=RIVER)
    for name in ("CovGame", "EntGame"):
        yield _call(name, getattr(rc.baselines, name), bonus=0.01, delta=0.1, scope="step")
    for name in ("RFUCRL", "RFExpress"):
        yield _call(name, getattr(rc.baselines, name), scale=1.0, truncate=False, delta=0.1)
    yield _call("RewardFree", rc.baselines.RewardFree, episodes=5, bonus=0.01, delta=0.1)


def _data() -> Iterator[Call]:
    yield _call("audit", rc.audit, data=DATA, rho=2.0, mu=None, model=None, states=None, actions=None, num_states=None,
                num_actions=None, delta=0.05, best=None, held_out=None)  # fmt: skip
    for k, column in enumerate(("s", "a", "s_next", "done")):
        yield Call("audit", _audit_of_columns, {column: DATA[k]}, {"place": k}, rc.audit)
    yield _call("audit", read_tally, {"data": DATA}, num_states=2, num_actions=2)
    yield _call("Audit", rc.audit(DATA).meets, worst_ratio=2.0)
    yield _call("Audit", rc.audit(DATA).save, {"overwrite": True}, path="audit.rhocover")
    yield from _shown("Audit", rc.audit(DATA), "visits", "pairs")
    yield _call("top_up", rc.top_up, data=DATA, env=None, num_steps=5, rho=2.0, mu=None, states=None, actions=None,
                repeat=None, model=None)  # fmt: skip
    lake = gymnasium.make("CliffWalking-v1")
    yield _call("collect", rc.collect, {"out": FULL, "env": lake}, rho=2.0, num_steps=5, mu=None, states=None, actions=None,
                explorer="feedback", model="known", schedule=None, seed=0, until=None, dataset_id=None)  # fmt: skip
    yield _call("collect", rc.collect, {"rho": 2.0, "num_steps": 5, "out": FULL}, env=lake)


def _audit_of_columns(place: int, **column: Any) -> Any:
    columns = list(DATA)
    columns[place] = next(iter(column.values()))
    return rc.audit(tuple(columns))


def _cell_of(cliff: Any) -> int:
    return int(cliff.s)


def _adapters() -> Iterator[Call]:
    box = gymnasium.make("MountainCar-v0").observation_space
    yield _call(
        "Bins", lambda **given: rc.Bins(**given).code(box), counts=3, low=-1.0, high=1.0, of=None, names=None
    )
    observations = np.random.default_rng(0).normal(size=(20, 2))
    yield _call(
        "QuantileBins",
        lambda observations, **given: rc.QuantileBins(**given).fit(observations),
        {"observations": observations},
        counts=3,
        of=None,
        names=None,
    )
    yield _call("QuantileBins", rc.QuantileBins(3).fit, observations=observations)
    yield _call("Net", lambda observations, **given: rc.Net(**given).fit(observations), {"observations": observations},
                radius=0.5, of=None, rollout_steps=100)  # fmt: skip
    yield _call("Net", rc.Net(0.5).fit, observations=observations)
    yield _call("SimHash", lambda observations, **given: rc.SimHash(**given).fit(observations),
                {"observations": observations}, bits=5, of=None, seed=0, rollout_steps=100)  # fmt: skip
    yield _call("SimHash", rc.SimHash(5).fit, observations=observations)
    yield _call("ImageCells", rc.ImageCells, shape=(2, 3), levels=4, of=None, brightest=255.0)
    yield _call("RandomFeatures", rc.RandomFeatures, size=4, seed=0)
    yield _call("LearnedFeatures", rc.LearnedFeatures, size=4, by="inverse_dynamics", seed=0, updates=10)
    cliff = gymnasium.make("CliffWalking-v1")
    yield _call("ReadState", rc.ReadState, env=cliff, what=_cell_of, level=None)
    yield _call("RepeatAction", rc.RepeatAction, env=cliff, repeat=2)
    yield _call("CountVisits", rc.CountVisits, env=cliff, states=None, actions=None)
    yield _call("CoverageReward", rc.CoverageReward, env=cliff, rho=2.0, mu=None, states=None, actions=None, cap=10.0,
                task_share=0.0)  # fmt: skip
    yield _call("CoverageReward", rc.CoverageReward, env=cliff, rho=2.0, mu=None, density=rc.Neighbours(k=64))
    yield _call("Neighbours", rc.Neighbours, k=16, of=None)
    yield _call("Ellipse", rc.Ellipse, features=None, ridge=1.0)
    for density in (rc.Neighbours(k=64), rc.Ellipse()):
        samples = np.tile(observations, (4, 1))
        yield _call("DensityReward", rc.DensityReward, density=density, rho=2.0, cap=10.0)
        yield _call("DensityReward", rc.DensityReward, {"density": density}, mu=samples)
        for method in ("add", "reward_of"):
            yield _call("DensityReward", lambda observations, density=density, method=method:
                        getattr(rc.DensityReward(density), method)(observations), observations=observations)  # fmt: skip
    vector = gymnasium.make_vec("CliffWalking-v1", num_envs=2, vectorization_mode="sync")
    yield _call("CountVisitsVector", rc.CountVisitsVector, env=vector, states=None, actions=None)
    yield _call("CoverageRewardVector", rc.CoverageRewardVector, env=vector, rho=2.0, mu=None, states=None, actions=None,
                cap=10.0, task_share=0.0)  # fmt: skip


def _learning() -> Iterator[Call]:
    known = make_confidence(COUNTS, 0.1)
    yield _call("make_confidence", make_confidence, counts=COUNTS, delta=0.1)
    yield _call("certify", certify, model=RIVER, coverage=rc.Coverage(2.0, np.ones(12)), counts=COUNTS, delta=0.1,
                potential=None, max_rounds=1)  # fmt: skip
    yield _call("find_evidence", find_evidence, confidence=known, pair_state=RIVER.pair_state, state=0)
    yield _call("find_discovery_target", find_discovery_target, counts=COUNTS, pair_state=RIVER.pair_state, wanted=np.ones(12, bool),
                prior=0.1)  # fmt: skip
    yield _call("model_error", model_error, truth=RIVER, transitions=COUNTS, smoothing=0.0)
    yield _call(
        "planning_regret",
        planning_regret,
        truth=RIVER,
        transitions=COUNTS,
        num_rewards=2,
        seed=0,
        smoothing=0.5,
    )


# --- trying it -----------------------------------------------------------------------------------------


class TooLongError(BaseException):
    """Not an Exception, so that no code under test can swallow it."""


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Raises where the work inside does not come back."""

    def ring(*_: Any) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, ring)
    waiting = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *waiting)  # that of the test around it begins anew


def trouble(call: Call, argument: str, value: Any) -> str:
    """Returns what is wrong with the outcome of a call with junk, or nothing."""
    try:
        with patience(PATIENCE), warnings.catch_warnings():
            warnings.simplefilter("error")
            call.function(**call.fixed, **(call.base | {argument: value}))
    except NotConvergedError:
        return ""  # a tolerance or a number of steps that is meant, and not enough
    except InvalidArgumentError as error:
        if error.argument not in call.arguments:
            return f"is about {error.argument!r}, no argument of the call: {error}"
        return "" if names(str(error), argument) else f"does not name the argument: {error}"
    except RhocoverError as error:
        return "" if names(str(error), argument) else f"does not name the argument: {error}"
    except TooLongError:
        return f"no answer within {PATIENCE} seconds"
    except TypeError as error:
        own = isinstance(
            value, type
        )  # int and object can be called; what they say then is the caller's affair
        return "" if own else f"TypeError: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def names(message: str, argument: str) -> bool:
    """Returns whether a message speaks of an argument in the words of the caller."""
    words = {argument, argument.replace("_", " "), *OTHER_WORDS.get(argument, ())}
    return any(word in message for word in words)


OTHER_WORDS: dict[str, tuple[str, ...]] = {
    "envs": ("unknown environment",),
    "of": ("an observation must be", "failed on the observation"),
    "name": ("unknown environment", "unknown reproduction", "unknown fact"),
    "explorers": ("`explorer`", "unknown explorer"),
    "states": ("failed on the observation", "`out` must be a new"),
    # values that are fine, and the folder that never is
    **dict.fromkeys(("actions", "schedule", "until", "dataset_id", "rho", "seed"), ("`out` must be a new",)),
    "texts": ("expected parameter=value",),
    "transitions": ("`states` must have shape",),  # as many as there are rows
    "observations": ("an observation must be",),
    "counts": ("an observation must be",),  # as many numbers as there are counts
    "names": ("an observation must be",),
}
