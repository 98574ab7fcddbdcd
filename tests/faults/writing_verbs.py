"""Every verb and command that writes, each small and made cheap: what it writes is real, what it draws is not."""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import matplotlib.figure
import numpy as np

import rhocover as rc
from rhocover.cli import app
from rhocover.collecting import log, stepping
from rhocover.datasets.minari.files import MinariWriter
from rhocover.experiments import finished_runs
from rhocover.exploring.runs import checkpoint
from rhocover.exploring.worlds import simulator
from rhocover.files import write_atomically

RIVER = rc.envs.river_swim(num_states=4)
RUN = {"rho": 2.0, "num_steps": 400, "explorer": "tracking", "trace_points": 1}
COMPARED = {"rho": 2.0, "num_steps": 100, "seeds": 2, "explorers": ["tracking"], "workers": 1}
LEARNED = {"model": "learned", "dataset_id": "faults/set-v0"}
OLD = b"what was here before"
SOME: Mapping[str, int] = {"full": 5, "death": 4}  # of a command that computes before it writes


@dataclass(frozen=True)
class Verb:
    """`call(folder)` writes below `folder / "out"`, and goes on there if it was interrupted.

    `prepare` makes what is there before.
    """

    call: Callable[[Path], Any]
    prepare: Callable[[Path], Any] = lambda folder: None
    differs: tuple[str, ...] = ()  # files that say how they came about: another call, other words
    cleans: bool = False  # what a killed process left behind is removed
    replaces: bool = False  # files that were there are replaced, each as a whole
    every: Mapping[str, int] = field(
        default_factory=dict
    )  # one in so many operations, where all take too long


def hurry() -> None:
    """Makes checkpoints and parts often, and clocks stand still."""
    checkpoint.SECONDS, simulator.Simulator.batch_steps = 0.0, 200
    log.ROUND, log.SECONDS, finished_runs.SECONDS, stepping.BETWEEN = 16, 1e9, 0.0, 9
    time.perf_counter = lambda: 0.0


def settle() -> None:
    """Does the same, and makes pictures and pages one word long."""
    hurry()
    matplotlib.figure.Figure.savefig = lambda self, file, **_: file.write(b"a picture")  # type: ignore[method-assign]
    page: Any = importlib.import_module("rhocover.report.pages.rendering")
    page.page_html = lambda found: f"a page, {found}"
    collecting: Any = importlib.import_module("rhocover.collecting.collect")
    collecting.page_of_collection = lambda found: "of data"
    for name, made in (
        ("run", "page_of_run"),
        ("plan", "page_of_plans"),
        ("comparison", "page_of_comparison"),
        ("audit", "page_of_audit"),
    ):
        setattr(importlib.import_module(f"rhocover.report.pages.{name}"), made, lambda *_, **__: "of results")
    topped: Any = importlib.import_module("rhocover.collecting.top_up_result")
    topped.page_of_top_up = lambda *_: "of a top-up"
    request: Any = importlib.import_module("rhocover.cli.plan")
    request.make_plan = functools.lru_cache(lambda mdp, rho, mu, **_: rc.plan(RIVER, rho))
    request.parse_model = lambda *_: (RIVER, {})
    for module in (request, importlib.import_module("rhocover.cli.demo")):
        for name in ("occupancy_picture", "ratio_picture", "frontier_picture"):
            setattr(module, name, lambda plans, title, path, **_: write_atomically(path, b"a picture"))
    for name in ("explore", "compare"):
        importlib.import_module(f"rhocover.cli.{name}")._draw = lambda make, path: write_atomically(
            path, b"a picture"
        )
    _cache_demo()


def _cache_demo() -> None:
    scenes: Any = importlib.import_module("rhocover.cli.demo")
    journey: Any = importlib.import_module("rhocover.cli.demo")
    scenes.solve = _once(scenes.solve, lambda scene: scene.title)
    journey.regret_picture = lambda found, path: write_atomically(path, b"a picture")
    found = journey.run_explorers
    journey.run_explorers = _once(lambda mdp: found(RIVER), lambda mdp: "")


def _once(make: Callable[[Any], Any], key: Callable[[Any], str]) -> Callable[[Any], Any]:
    made: dict[str, Any] = {}

    def once(value: Any) -> Any:
        if key(value) not in made:
            made[key(value)] = make(value)
        return made[key(value)]

    return once


def outcome(*words: str | Path) -> tuple[Any, str]:
    """Returns the exit code of a command, and what it said beside its results."""
    err, code = io.StringIO(), None
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        try:
            app.main([str(word) for word in words])
        except SystemExit as end:
            code = end.code or 0
    return code, err.getvalue()


def command(*words: str | Path) -> None:
    """Runs a command; a refusal is raised as the line it says."""
    code, said = outcome(*words)
    if code:
        assert code in app.EXIT_CODES, code
        assert "Traceback" not in said, said
        raise CommandError(said)


class CommandError(Exception):
    """What a command said when it failed."""


@functools.cache
def steps() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    env, rows = gym.make("FrozenLake-v1", max_episode_steps=15), []
    state, _ = env.reset(seed=0)
    for _ in range(200):
        action = int(rng.integers(4))
        after, _, ended, cut, _ = env.step(action)
        rows.append((state, action, after, ended, cut))
        state = env.reset()[0] if ended or cut else after
    names = ("s", "a", "s_next", "terminated", "truncated")
    return dict(zip(names, np.array(rows).astype(int).T, strict=True))


def lake() -> Any:
    return gym.make("FrozenLake-v1", max_episode_steps=15)


def explore(folder: Path) -> None:
    out = folder / "out"
    if (out / "run.safetensors").exists():
        rc.resume(out)
    else:
        rc.explore(RIVER, **RUN, out=out)


def collect(folder: Path) -> None:
    out = folder / "out"
    with _finished(out):
        rc.collect(lake(), 2.0, 40, out=out, resume=(out / "manifest.json").exists(), **LEARNED)


def top_up(folder: Path) -> None:
    out = folder / "out"
    begun = (out / "manifest.json").exists()
    with _finished(out):
        rc.top_up(steps(), lake(), 40, out=out, resume=begun, dataset_id="faults/more-v0")


@contextlib.contextmanager
def _finished(out: Path) -> Iterator[None]:
    """Takes it for an end that a collection is finished, which its last file says."""
    was_there = (out / "datasheet.json").exists()
    try:
        yield
    except rc.errors.InvalidArgumentError as error:
        if not was_there or "is finished" not in str(error):
            raise


def write_table(folder: Path) -> None:
    np.savez(folder / "steps.npz", **steps())


def old_plan(folder: Path) -> None:
    (folder / "out").mkdir()
    for name in ("plan.json", "plan-rho-2.safetensors", "page.html", "notes.txt"):
        (folder / "out" / name).write_bytes(OLD)


def minari(folder: Path, number: int) -> None:
    spaces = {"observation_space": gym.spaces.Discrete(4), "action_space": gym.spaces.Discrete(2)}
    flat = {"observations": np.arange(4) % 4, "actions": np.full(3, number), "rewards": np.zeros(3),
            "terminations": np.array([False, False, True]), "truncations": np.zeros(3, bool), "lengths": [3]}  # fmt: skip
    with MinariWriter(folder / "out", "faults/old-v0", **spaces, overwrite=True) as writer:
        writer.add_many(**flat)
        writer.finish({"description": str(number)})


def demo(folder: Path) -> None:
    command("demo", "--out", folder / "out", "--force")


def plan_words(folder: Path) -> list[Any]:
    return [
        "plan",
        "river_swim",
        "--set",
        "num_states=4",
        "--rho",
        "2",
        "--out",
        folder / "out",
        "--report",
        folder / "out" / "page.html",
    ]


def run_words(folder: Path, *more: Any) -> list[Any]:
    words = [
        "explore",
        "river_swim",
        "--set",
        "num_states=4",
        "--rho",
        "2",
        "--steps",
        "300",
        "--explorer",
        "tracking",
    ]
    return [*words, "--out", folder / "out", "--report", folder / "page.html", *more]


def run_again(folder: Path) -> None:
    """Goes on with a run of the command line as its help says: resume once there is something to go on with."""
    if (folder / "out" / "run.safetensors").exists():
        command("resume", folder / "out", "--report", folder / "page.html", "--force")
    else:
        command(*run_words(folder, "--force"))


VERBS: dict[str, Verb] = {
    "explore and resume": Verb(explore, cleans=True, every={"full": 3}),
    "compare": Verb(lambda folder: rc.compare({"river": RIVER}, **COMPARED, out=folder / "out"), cleans=True),
    "compare, in shards": Verb(lambda folder: [
        rc.compare({"river": RIVER}, **COMPARED, out=folder / "out", shard=shard) for shard in ("1/2", "2/2", None)],
        cleans=True, every={"once": 2, "full": 4, "death": 4}),
    "collect": Verb(collect, cleans=True, every={"once": 2, "full": 3, "death": 3}),
    "top_up": Verb(top_up, cleans=True, every={"once": 2, "full": 4, "death": 4}),
    "MDP.save": Verb(lambda folder: RIVER.save(folder / "out" / "model", overwrite=True),
                     lambda folder: ((folder / "out").mkdir(), (folder / "out" / "model").write_bytes(OLD)), replaces=True, cleans=True),
    "MinariWriter, over another": Verb(lambda folder: minari(folder, 1), lambda folder: minari(folder, 0), replaces=True, cleans=True),
    "plan --out --report": Verb(lambda folder: command(*plan_words(folder), "--force"), cleans=True, every=SOME),
    "plan --force": Verb(lambda folder: command(*plan_words(folder), "--force"), old_plan, replaces=True, every=SOME),
    "explore --out --report": Verb(run_again, differs=("out/explore.json",), every={"once": 8, "full": 20, "death": 20}),
    "compare --out --report": Verb(lambda folder: command(
        "compare", "river_swim", "--set", "num_states=4", "--steps", "100", "--seeds", "2", "--explorer", "tracking", "--workers", "1",
        "--out", folder / "out", "--report", folder / "page.html", *(["--force"] if (folder / "page.html").exists() else [])), every={"once": 2, "full": 5, "death": 5}),
    "audit --out --report": Verb(lambda folder: command(
        "audit", folder / "steps.npz", "--out", folder / "out", "--report", folder / "out" / "page.html", "--force"), write_table, every=SOME),
    "top-up --policy --report": Verb(lambda folder: command(
        "top-up", folder / "steps.npz", "--steps", "50", "--policy", folder / "out" / "policy.csv", "--report", folder / "out" / "page.html", "--force"), write_table, every={"full": 3, "death": 3}),
    "demo": Verb(demo, every={"once": 3, "full": 10, "death": 9}),
}  # fmt: skip
