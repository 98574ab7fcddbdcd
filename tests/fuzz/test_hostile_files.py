"""Every kind of file made to hurt is refused in words of ours, or read for what it is, in little memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits on memory are Linux's")

HERE = Path(__file__).parent
LEAST_KINDS = 107
MOST_MEMORY = 500  # MB beyond what the process had; making the files takes some of them


@pytest.mark.thorough
def test_every_kind_of_hostile_file_is_refused_or_read_and_takes_little_memory():
    done = subprocess.run(
        [sys.executable, str(HERE / "hostile_kinds.py"), "0"],
        capture_output=True, text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) >= LEAST_KINDS
    wrong = [case for case in found if case["said"].startswith("wrong") or case["MB"] > MOST_MEMORY]
    assert not wrong, "\n".join(f"{case['kind']}, {case['MB']} MB: {case['said']}" for case in wrong[:5])
    assert sum(case["said"].startswith("refused") for case in found) >= LEAST_KINDS // 2
