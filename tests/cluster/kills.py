"""Kills a worker, a node and the driver of a run on a Ray cluster of two nodes, and compares the bits.

    python tests/cluster/loopback.py tests/cluster/kills.py --repetitions 20

Each repetition starts a run in a process of its own. At random times one of Ray's workers is killed, then one
of the two nodes (another takes its place), then the driver. Then the run is resumed. Its digest must be that
of a run in this process that nothing happened to. Exits with 0 if all are.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import rhocover as rc

STEPS, WORKERS = 3 << 24, 8  # some seconds, so that every kill finds it running
OFTEN = 0.2  # seconds between two checkpoints, so that the driver leaves one


def digest(run: rc.Run) -> str:
    """Returns the SHA-256 of all that a run counted, where its actors are, and its trace."""
    arrays = [run.moves, run.last_states, *(run.trace[name] for name in run.trace.columns)]
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()


def drive(address: str, out: str) -> None:
    """The driver: explores or resumes in the folder, on the cluster, and prints the digest."""
    from rhocover.exploring.runs import checkpoint

    checkpoint.SECONDS = OFTEN
    with rc.engines.ray(address) as engine:
        if (Path(out) / checkpoint.SETTINGS).exists():
            run = rc.resume(out, executor=engine)
        else:
            run = rc.explore(rc.envs.river_swim(), executor=engine, out=out, **asked())
    print(digest(run), flush=True)


def asked() -> dict:
    return {"num_steps": STEPS, "workers": WORKERS, "seed": 7, "trace_points": 3}


def start_driver(address: str, out: Path) -> subprocess.Popen[str]:
    """Returns the driver's process, when its run is under way."""
    command = [sys.executable, __file__, "--drive", address, str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    while not (out / "checkpoint-1.safetensors").exists():
        if process.poll() is not None:
            raise RuntimeError(f"the driver ended with {process.returncode} before it began")
        time.sleep(0.02)
    return process


def workers_of_ray() -> list[int]:
    """Returns the processes that run Ray's tasks."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cmdline").read_bytes().startswith((b"ray::_apply", b"ray::IDLE")):
                found.append(int(folder.name))
        except OSError:  # it has just ended
            continue
    own = os.readlink("/proc/self/ns/net")
    return [number for number in found if same_network(number, own)]


def same_network(number: int, own: str) -> bool:
    try:
        return os.readlink(f"/proc/{number}/ns/net") == own
    except OSError:
        return False


def repetition(cluster, node, rng: np.random.Generator, out: Path):
    """Returns the digest of a run that three kills interrupted, the node that is there now, and what was hit."""
    driver = start_driver(cluster.address, out)
    time.sleep(rng.uniform(0, 0.5))
    os.kill(int(rng.choice(workers_of_ray())), signal.SIGKILL)
    hit = [driver.poll() is None]
    time.sleep(rng.uniform(0, 0.5))
    cluster.remove_node(node, allow_graceful=False)
    hit.append(driver.poll() is None)
    node = cluster.add_node(num_cpus=1)
    time.sleep(rng.uniform(0, 0.5))
    hit.append(driver.poll() is None)
    driver.kill()
    driver.communicate()
    done = subprocess.run(
        [sys.executable, __file__, "--drive", cluster.address, str(out)], capture_output=True, text=True
    )
    if done.returncode:
        print(done.stderr, file=sys.stderr)
    return (done.stdout.split() or ["none"])[-1], node, hit


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--drive", nargs=2)
    given = parser.parse_args()
    if given.drive:
        drive(*given.drive)
        return 0
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    expected = digest(rc.explore(rc.envs.river_swim(), **asked()))
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    node, equal = cluster.add_node(num_cpus=1), 0
    for k in range(given.repetitions):
        rng, began = np.random.default_rng([given.seed, k]), time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            found, node, hit = repetition(cluster, node, rng, Path(folder) / "run")
        equal += found == expected and all(hit)
        names = [name for name, was in zip(("worker", "node", "driver"), hit, strict=True) if was]
        print(
            f"{k + 1}: {found[:16]}, killed: {', '.join(names)}; {time.monotonic() - began:.0f} s", flush=True
        )
    cluster.shutdown()
    print(f"{equal} of {given.repetitions} equal {expected[:16]}")
    return int(equal != given.repetitions)


if __name__ == "__main__":
    sys.exit(main())
