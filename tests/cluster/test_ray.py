"""On Ray the bits are those of this process, a cluster of one's own is closed to others, and kills lose nothing.

Each test runs in a network of its own, with loopback alone.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cluster.loopback import run_alone, why_not

FOLDER = Path(__file__).parent
pytestmark = [pytest.mark.thorough, pytest.mark.skipif(bool(why_not()), reason=why_not() or "Ray is here")]


def found_by(check: str, folder: Path) -> dict:
    done = run_alone([str(FOLDER / "ray_checks.py"), check, str(folder)], 600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_runs_comparisons_and_tallies_are_the_same_on_ray(tmp_path):
    assert found_by("same_bits", tmp_path) == {"run": True, "comparison": True, "tally": True}


def test_a_cluster_of_ones_own_is_for_those_with_its_token(tmp_path):
    assert found_by("closed", tmp_path) == {
        "mode": "-rw-------", "folder": "drwx------", "usage": "0", "with": True, "without": False,
        "wrong": False, "dashboard": False, "again": 3, "connected": False,
        "changed": [],
    }  # fmt: skip


def test_errors_in_the_cluster_are_those_of_this_process(tmp_path):
    found = found_by("errors", tmp_path)
    assert "`address` is needed" in found["start"]
    assert "`address` must be None" in found["twice"]
    assert found["data"] in ("FileFormatError", "InvalidDataError")
    assert "TypeError" in found["call"]


def test_a_killed_worker_node_and_driver_change_no_bit():
    """Twenty of them: python tests/cluster/loopback.py tests/cluster/kills.py --repetitions 20."""
    done = run_alone([str(FOLDER / "kills.py"), "--repetitions", "1"], 900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 equal" in done.stdout
