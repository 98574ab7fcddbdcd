"""Calls every verb or every command in this process, and records what each of them does to the disk and beyond.

    python watched_calls.py verbs|commands FOLDER

prints a line of JSON a call: its name, where it may write, and what it did: [event, path] of every file opened to write,
made, renamed, removed or linked, every process begun and every address looked up. The system's own audit
events tell, so nothing that Python does is missed; what libraries do on their own shows in the folders.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {  # event -> which of its arguments are paths
    "os.mkdir": (0,), "os.rename": (0, 1), "os.remove": (0,), "os.rmdir": (0,), "os.symlink": (1,), "os.link": (1,),
    "os.truncate": (0,), "os.chmod": (0,), "os.chown": (0,), "os.utime": (0,), "os.setxattr": (0,),
}  # fmt: skip
BEYOND = (
    "socket.connect",
    "socket.getaddrinfo",
    "socket.bind",
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
)
seen: list[tuple[str, str]] = []
here = os.getpid()


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Records an event if it changes something."""
    if event == "open":
        path, mode, flags = arguments
        if isinstance(path, int):
            return
        if (isinstance(mode, str) and set(mode) & set("wax+")) or (mode is None and flags & WRITING):
            seen.append((event, _absolute(path)))
    elif event in CHANGES:
        paths = (arguments[place] for place in CHANGES[event])
        base = _folder(arguments[-1])
        seen.extend((event, _absolute(path, base)) for path in paths if not isinstance(path, int))
    elif event in BEYOND and os.getpid() == here:
        seen.append((event, str(arguments[:1])))


def _absolute(path: Any, base: str = "") -> str:
    return os.path.abspath(os.path.join(base, os.fsdecode(path)))


def _folder(handle: Any) -> str:
    """Returns the folder that a relative path begins in, where an event names one; removals of trees do."""
    link = f"/proc/self/fd/{handle}"
    is_folder = isinstance(handle, int) and handle > 2 and os.path.isdir(link)
    return os.readlink(link) if is_folder else ""


def verbs(folder: Path) -> dict[str, tuple[Path | None, Callable[[Path], Any]]]:
    """Returns every verb of the library: where it may write, and a call that is told the place."""
    import gymnasium as gym
    import numpy as np

    import rhocover as rc
    from rhocover.datasets import read_tally
    from rhocover.datasets.collection.source import open_collection
    from rhocover.datasets.minari.exporting import export_minari
    from rhocover.datasets.minari.files import open_minari
    from rhocover.report.figures import occupancy_figure, save_figure
    from rhocover.report.pages.audit import page_of_audit
    from rhocover.report.pages.plan import page_of_plans
    from rhocover.report.pages.rendering import page_html, write_page
    from rhocover.report.pages.run import page_of_run

    river, out = rc.envs.river_swim(num_states=4), folder / "out"
    run = {"rho": 2.0, "num_steps": 300, "explorer": "tracking"}
    compared = {"rho": 2.0, "num_steps": 100, "seeds": 2, "explorers": ["tracking"]}
    steps = {"s": [0, 1, 0, 1], "a": [1, 0, 1, 1], "s_next": [1, 0, 1, 1], "done": [False] * 4}

    def lake() -> Any:
        return gym.make("FrozenLake-v1")

    def export_to(path: Path, data: Path) -> None:
        before, os.environ["MINARI_DATASETS_PATH"] = os.environ.get("MINARI_DATASETS_PATH"), str(path)
        try:
            export_minari(data, "lake-v0")
        finally:
            os.environ.pop("MINARI_DATASETS_PATH")
            if before is not None:
                os.environ["MINARI_DATASETS_PATH"] = before

    return {
        "plan": (None, lambda _: rc.plan(river, 2.0)),
        "explore": (None, lambda _: rc.explore(river, **run)),
        "explore an environment": (None, lambda _: rc.explore(lake(), 2.0, 200)),
        "compare": (None, lambda _: rc.compare({"river": river}, **compared, workers=1)),
        "audit": (None, lambda _: rc.audit(steps)),
        "top_up": (None, lambda _: rc.top_up(steps, num_steps=20)),
        "budget": (None, lambda _: rc.budget(river, visits=10)),
        "reproduce": (None, lambda _: rc.reproduce("reference-values")),
        "pages": (None, lambda _: [page_html(page_of_plans([rc.plan(river, 2.0)])), page_html(page_of_run(rc.explore(river, **run))),
                                   page_html(page_of_audit(rc.audit(steps)))]),
        "MDP.save": (out / "model", river.save),
        "MDP.load": (None, lambda _: rc.MDP.load(out / "model")),
        "Plan.save": (out / "plan", rc.plan(river, 2.0).save),
        "save_figure": (out / "picture.png", lambda path: save_figure(occupancy_figure(river, rc.plan(river, 2.0).occupancy, "visits"), path)),
        "write_page": (out / "page.html", lambda path: write_page(page_of_plans([rc.plan(river, 2.0)]), path)),
        "explore, stored": (out / "run", lambda path: rc.explore(river, **run, out=path)),
        "resume, finished": (None, lambda _: rc.resume(out / "run")),
        "compare, stored": (out / "compared", lambda path: rc.compare({"river": river}, **compared, workers=1, out=path)),
        "compare, a shard": (out / "sharded", lambda path: rc.compare({"river": river}, **compared, workers=1, out=path, shard="1/2")),
        "Comparison.load": (None, lambda _: rc.Comparison.load(out / "compared")),
        "collect": (out / "data", lambda path: rc.collect(lake(), 2.0, 100, out=path)),
        "audit a collection": (None, lambda _: rc.audit(out / "data")),
        "read_tally": (None, lambda _: read_tally(out / "data")),
        "open_collection": (None, lambda _: list(open_collection(out / "data").pieces())),
        "to_minari": (out / "minari", lambda path: export_to(path, out / "data")),
        "open_minari": (None, lambda _: list(open_minari(out / "minari" / "lake-v0").columns())),
        "top_up, stored": (out / "more", lambda path: rc.top_up(out / "data", lake(), 50, out=path)),
        "an id that is nowhere": (None, lambda _: _refused(lambda: rc.audit("nobody/nothing-v0"))),
        "a file of arrays": (out / "steps.npz", lambda path: np.savez(path, **steps)),
        "audit a file": (None, lambda _: rc.audit(out / "steps.npz")),
    }  # fmt: skip


def _refused(call: Callable[[], Any]) -> None:
    from rhocover.errors import RhocoverError

    with contextlib.suppress(RhocoverError):
        call()


def commands(folder: Path) -> dict[str, tuple[Path | None, Callable[[Path], Any]]]:
    """Returns every command with and without results to write: lines in which OUT is where it may write."""
    out = folder / "out"
    river = "river_swim --set num_states=4"
    lines = {
        "--version": None, "--help": None, "envs": None, "explorers": None, "doctor --no-self-test": None,
        f"plan {river} --rho 2": None,
        f"plan {river} --rho 2 --json": None,
        f"plan {river} --rho 0 --rho 2 --rho inf --out OUT": "plan",
        f"plan {river} --rho 2 --report OUT": "plan.html",
        f"explore {river} --rho 2 --steps 300": None,
        f"explore {river} --rho 2 --steps 300 --out OUT": "run",
        "resume OUT": "run",
        "explore FrozenLake-v1 --rho 2 --steps 200": None,
        f"explore {river} --rho 2 --steps 300 --report OUT": "run.html",
        f"compare {river} --steps 100 --seeds 2 --explorer tracking --workers 1": None,
        f"compare {river} --steps 100 --seeds 2 --explorer tracking --workers 1 --out OUT": "compared",
        f"compare {river} --steps 100 --seeds 2 --explorer tracking --workers 1 --out OUT --shard 1/2": "sharded",
        "compare --redraw OUT": "compared",
        "collect FrozenLake-v1 --rho 2 --steps 100 --out OUT": "lake",
        "collect FrozenLake-v1 --rho 2 --steps 120 --out OUT --force": "lake",
        "export LAKE --minari kept/lake-v0": "minari",
        "audit LAKE": None,
        "audit LAKE --env FrozenLake-v1 --json": None,
        "audit LAKE --out OUT": "audit",
        "audit LAKE --report OUT": "audit.html",
        "top-up LAKE --steps 50": None,
        "top-up LAKE --steps 50 --policy OUT": "policy.csv",
        "top-up LAKE --steps 50 --env FrozenLake-v1 --out OUT": "more",
        f"budget {river} --visits 10": None,
        "reproduce reference-values": None,
        "reproduce reference-values --out OUT": "values",
        "plan nowhere.safetensors --rho 2": None,
        "audit nobody/nothing-v0": None,
        "demo --out OUT": "demo",
    }  # fmt: skip

    def call(line: str, place: Path) -> None:
        from rhocover.cli import app

        words = [
            str(place) if word == "OUT" else str(out / "lake") if word == "LAKE" else word
            for word in line.split()
        ]
        os.environ["MINARI_DATASETS_PATH"] = str(out / "minari")
        code: Any = None
        try:
            app.main(words)
        except SystemExit as end:
            code = end.code or 0
        assert code in app.EXIT_CODES, (line, code)

    return {
        line: (name and out / name, lambda place, line=line: call(line, place))
        for line, name in lines.items()
    }  # type: ignore[misc]


def main(kind: str, folder: Path) -> None:
    calls = {"verbs": verbs, "commands": commands}[kind](folder)
    sys.addaudithook(watch)
    report = sys.stdout
    for name, (place, call) in calls.items():
        seen.clear()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            call(place if place is not None else folder)
        print(
            json.dumps({"call": name, "place": None if place is None else str(place), "seen": seen}),
            file=report,
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
