"""No file, however damaged, brings anything but a refusal that names it, or the right answer.

Every reader of the library and of the command line meets files that are cut, flipped, overwritten, swapped,
changed behind a right checksum, made to hurt, or no files at all: more than six thousand of them. What may
not be: another exception, a message that does not name the file, a crash, a hang, memory without end, an
answer that is not the file's. A longer run with other seeds: `python tests/fuzz --minutes 30`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits on memory are Linux's")

HERE = Path(__file__).parent
ROUNDS = {
    "sealed": 3,
    "runs": 0.7,
    "collections": 0.6,
    "minari": 2,
    "tables": 3,
    "forms": 1.5,
    "commands": 0.6,
}
LEAST = {
    "sealed": 1600,
    "runs": 900,
    "collections": 650,
    "minari": 1000,
    "tables": 1650,
    "forms": 1200,
    "commands": 850,
}


def test_at_least_six_thousand_files_are_tried():
    assert sum(LEAST.values()) >= 6000  # each group tries at least so many, see below


def damaged_files(group: str, rounds: float) -> int:
    """Returns how many damaged files of a group were tried, and fails where one was not refused or read rightly."""
    done = subprocess.run(
        [sys.executable, str(HERE / "fuzzing.py"), group, "0", str(rounds)],
        capture_output=True, text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "100"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = [(target["target"], *case.values()) for target in found for case in target["wrong"]]
    assert not wrong, "\n".join(f"{target}, {case}: {what}" for target, case, what in wrong[:5])
    return sum(target["count"] for target in found)


@pytest.mark.thorough
def test_a_few_damaged_files_of_every_sealed_kind_are_refused_by_name_or_read_rightly():
    assert damaged_files("sealed", 0.02) >= 100


@pytest.mark.thorough
@pytest.mark.parametrize("group", ROUNDS)
def test_damaged_files_are_refused_by_name_or_read_rightly(group, capsys):
    count = damaged_files(group, ROUNDS[group])
    with capsys.disabled():
        print(f" {group}: {count} files", end="")
    assert count >= LEAST[group]
