"""What `test_ray` runs in a network of its own: one check by name, which prints what it finds as JSON."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import numpy as np

import rhocover as rc


def same_bits() -> dict:
    """The same run, comparison and tally here and on a cluster of this machine."""
    Path("parts").mkdir()
    rng = np.random.default_rng(0)
    for k in range(4):
        s, a, after = rng.integers(0, 9, 500), rng.integers(0, 3, 500), rng.integers(0, 9, 500)
        np.savez(f"parts/part-{k}.npz", s=s, a=a, s_next=after, done=np.zeros(500, bool))
    asked = {"num_steps": 8000, "workers": 4, "seed": 2, "model": "learned"}
    compared = {"envs": "river_swim", "explorers": ["feedback", "tracking"], "num_steps": 300, "seeds": 2}
    here = rc.explore(rc.envs.river_swim(), **asked), rc.compare(**compared, workers=1), rc.audit("parts")
    with rc.engines.ray("local") as engine:
        there = rc.explore(rc.envs.river_swim(), **asked, executor=engine)
        found = rc.compare(**compared, executor=engine)
        counted = rc.audit("parts", executor=engine)
    return {
        "run": bool((there.moves == here[0].moves).all()),
        "comparison": [str(row) for row in found.table()] == [str(row) for row in here[1].table()],
        "tally": counted.tally.digest() == here[2].tally.digest(),
    }


def closed_to_others() -> dict:
    """What a cluster of this machine's is: its token, who is let in without it, and what it leaves."""
    before = dict(os.environ)
    with rc.engines.ray("local"):
        import ray

        token = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
        address = ray.get_runtime_context().gcs_address
        found = {
            "mode": stat.filemode(token.stat().st_mode),
            "folder": stat.filemode(token.parent.stat().st_mode),
            "usage": os.environ["RAY_USAGE_STATS_ENABLED"],
            "with": joins(address, dict(os.environ)),
            "without": joins(address, {k: v for k, v in os.environ.items() if not k.startswith("RAY_AUTH")}),
            "wrong": joins(address, os.environ | {"RAY_AUTH_TOKEN": "0" * 64}),
            "dashboard": bool(ray._private.worker.global_worker.node.webui_url),
        }
    with rc.engines.ray("local") as engine:  # a second one in the same process
        found["again"] = engine.submit(abs, -3).result()
    changed = sorted(n for n, v in os.environ.items() if n.startswith("RAY_") and before.get(n) != v)
    return found | {"connected": ray.is_initialized(), "changed": changed}


def joins(address: str, environment: dict) -> bool:
    """Whether another process is let into the cluster."""
    import subprocess

    code = f"import ray; ray.init(address={address!r}, log_to_driver=False); print('in')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    return "in" in done.stdout.split()


def errors() -> dict:
    """How what fails in a cluster reaches the caller."""
    Path("broken").mkdir()
    Path("broken/part-0.npz").write_bytes(b"not a file of arrays")
    Path("broken/part-1.npz").write_bytes(b"not a file of arrays")
    found = {"start": "".join(_raised(lambda: rc.engines.ray()))}
    with rc.engines.ray("local") as engine:
        found["twice"] = "".join(_raised(lambda: rc.engines.ray("local")))
        found["data"] = _raised(lambda: rc.audit("broken", executor=engine))[0]
        engine.submit(os.getpid).result()
        future = engine.submit(rc.envs.river_swim, 1, 2, 3)
        found["call"] = type(future.exception()).__name__
    return found


def _raised(call) -> tuple[str, str]:
    try:
        call()
    except Exception as error:
        return type(error).__name__, f": {error}"
    return "", "nothing was raised"


if __name__ == "__main__":
    os.chdir(sys.argv[2])
    print(json.dumps({"same_bits": same_bits, "closed": closed_to_others, "errors": errors}[sys.argv[1]]()))
