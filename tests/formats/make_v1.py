"""Wrote tests/formats/v1: a small file of every format as rhocover 0.1.0 writes it, and what it holds.

    python tests/formats/make_v1.py FOLDER

The files in v1 stay as they are for good: later versions must read them. Run this again only into another
folder, to see what a version writes; a new format gets a folder of its own.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import rhocover as rc
from rhocover.collecting import storage as collection_folder
from rhocover.exploring.runs import checkpoint
from rhocover.files import FORMAT_VERSION

RUNS = {
    "stationary": {"rho": 2.0, "num_steps": 3000, "explorer": "stationary", "num_chains": 2},
    "feedback": {"rho": 2.0, "num_steps": 3000, "explorer": "feedback"},
    "algorithm1": {"rho": 2.0, "num_steps": 3000, "explorer": "algorithm1", "schedule": "constant:300"},
    "learned": {"rho": 1.0, "num_steps": 2000, "explorer": "feedback", "model": "learned"},
}
STOP = 1000  # steps after which the runs are left


class LeftError(Exception):
    """What leaves a run or a collection in the middle."""


def leave(steps: int, num_steps: int) -> None:
    if steps >= STOP:
        raise LeftError


def model() -> rc.MDP:
    return rc.envs.river_swim()


def make_runs(out: Path) -> dict[str, Any]:
    """Writes folders of runs that were left in the middle; returns where they end if they go on."""
    expected = {}
    for name, case in RUNS.items():
        before, checkpoint.SECONDS = checkpoint.SECONDS, 0.0
        try:
            rc.explore(model(), **case, seed=5, trace_points=4, out=out / name, report=leave)
            raise SystemExit(f"the run {name} was not left in the middle")
        except LeftError:
            pass
        finally:
            checkpoint.SECONDS = before
        whole = rc.explore(model(), **case, seed=5, trace_points=4)
        expected[name] = {"counts": whole.counts.tolist(), "divergence": float(whole.divergence)}
    return expected


def make_results(out: Path) -> dict[str, Any]:
    """Writes a model, a plan, a run, a comparison; returns numbers of each."""
    mdp = model()
    mdp.save(out / "model.safetensors")
    plan = rc.plan(mdp, 2.0)
    plan.save(out / "plan.safetensors")
    run = rc.explore(mdp, 2.0, 1000, explorer="stationary", seed=5, trace_points=4)
    run.save(out / "result.safetensors")
    asked = {"explorers": ["stationary", "uniform_random"], "rho": [2.0], "seeds": 2, "num_steps": 500}
    found = rc.compare({"river": mdp}, workers=1, **asked)
    found.save(out / "comparison.safetensors")
    both = ["feedback", "uniform_random"]
    seen = rc.compare("FrozenLake-v1", both, states=int, num_steps=300, seeds=2, workers=1)
    seen.save(out / "environment-comparison.safetensors")
    return {
        "model": {"fingerprint": mdp.fingerprint, "num_pairs": mdp.num_pairs, "name": mdp.name},
        "plan": {"divergence": plan.divergence, "occupancy": plan.occupancy.tolist()},
        "result": {"counts": run.counts.tolist(), "divergence": run.divergence},
        "comparison": {
            "explorers": list(found.explorers),
            "worst_ratio": found.values("river", 2.0, "stationary", "worst_ratio")[:, -1].tolist(),
        },
        "environment-comparison": {
            "explorers": both,
            "codes": [s.tolist() for s in seen.found("FrozenLake-v1", "uniform_random", "codes")],
        },
    }


def lake() -> gym.Env:
    return gym.make("FrozenLake-v1", max_episode_steps=20)


def make_collections(out: Path) -> dict[str, Any]:
    """Writes a finished collection and one that was left, an audit and a policy; returns their numbers."""
    found = rc.collect(lake(), 2.0, 300, out=out / "collection", seed=5)
    found.page.unlink()  # nothing reads a page but people
    try:
        rc.collect(lake(), 2.0, 3000, out=out / "left", seed=5, report=leave)
        raise SystemExit("the collection was not left in the middle")
    except LeftError:
        pass
    audit = rc.audit(found.path, 2.0)
    audit.save(out / "audit.safetensors")
    asked = [
        "top-up",
        str(found.path),
        "--rho",
        "2",
        "--steps",
        "100",
        "--policy",
        str(out / "policy.safetensors"),
    ]
    subprocess.run([sys.executable, "-m", "rhocover", *asked], check=True, stdout=subprocess.DEVNULL)
    settings = json.loads((out / "left" / collection_folder.SETTINGS).read_text("utf-8"))
    return {
        "collection": {"num_steps": found.audit.num_steps, "counts": audit.counts.tolist()},
        "left": {"num_steps": 1000, "seed": settings["seed"]},
        "audit": {"divergence": audit.visited_divergence},
    }


def digests(out: Path) -> dict[str, str]:
    """Returns the SHA-256 of each file, by its place."""
    files = sorted(path for path in out.rglob("*") if path.is_file() and path.name != "expected.json")
    return {str(p.relative_to(out)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def main(out: Path) -> None:
    if any(out.iterdir()) if out.is_dir() else False:
        raise SystemExit(f"{out} is not empty: the files of a version are written once")
    out.mkdir(parents=True, exist_ok=True)
    expected = make_results(out) | {"runs": make_runs(out)} | make_collections(out)
    expected |= {"format": FORMAT_VERSION, "rhocover": rc.__version__, "numpy": np.__version__}
    text = json.dumps(expected | {"files": digests(out)}, indent=1)
    (out / "expected.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
