"""A disk that breaks at any operation loses nothing: what was there is whole, and the same call again ends as ever.

Every verb and every command that writes meets a disk that fails once at its n-th operation, one that is full
from there on, and a process that dies there, for all n (or one in a few, where a command draws pictures).
Afterwards: the error names a file, what was there before is unchanged or replaced as a whole, nothing half
written has a name that anybody reads, and the next call leaves the bytes of one that was never disturbed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from writing_verbs import VERBS

from tiers import tiered

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(os.name != "posix", reason="copies of a process are POSIX's"),
]

HERE = Path(__file__).parent


@pytest.mark.parametrize("verb", tiered(VERBS, short=["MDP.save"]))
def test_a_disk_that_breaks_anywhere_loses_nothing(verb):
    done = subprocess.run(
        [sys.executable, str(HERE / "fault_runs.py"), verb], capture_output=True, text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "100"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [way["mode"] for way in found] == ["once", "full", "death"]
    for way in found:
        assert way["tried"] >= min(way["operations"], 5)
        assert not way["wrong"], "\n".join(way["wrong"][:5])
