"""What is warmed is compiled: later processes load it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

LATER = """
import numpy as np, gymnasium as gym, rhocover as rc
from rhocover.compiling import compiled_here
mdp = rc.envs.river_swim(num_states=8)
rc.plan(mdp, rho=1.0), rc.plan(rc.envs.grid_world(num_rows=30), rho=np.inf)
rc.explore(mdp, rho=2.0, num_steps=3_000, seed=1)
rc.explore(mdp, rho=2.0, num_steps=3_000, explorer="algorithm1", schedule=rc.Quadratic(tau_1=10), seed=1)
run = rc.explore(mdp, rho=2.0, num_steps=3_000, model="learned", seed=1)
run.certificate(delta=0.05), run.evidence()
rc.audit({"s": [0, 1, 0], "a": [0, 1, 1], "s_next": [1, 0, 1], "done": [False, False, True]}, rho=2.0)
rc.explore(gym.make("FrozenLake-v1"), rho=2.0, num_steps=2_000, seed=1)
rc.explore(gym.make("MountainCar-v0"), rho=2.0, num_steps=2_000, states=rc.Net(), model="from_scratch", seed=1)
print(compiled_here())
"""


@pytest.mark.thorough
def test_after_warming_the_calls_of_the_readme_compile_nothing(tmp_path):
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "rhocover", "doctor", "--warm", "--no-self-test", "--json"]
    found = [
        json.loads(subprocess.run(command, env=env, capture_output=True, check=True).stdout)["warmed"]
        for _ in range(2)
    ]
    assert found[0]["num_loops"] > 40
    assert found[1]["num_loops"] == 0
    later = subprocess.run([sys.executable, "-c", LATER], env=env, capture_output=True, text=True, check=True)
    assert later.stdout.strip() == "()"
