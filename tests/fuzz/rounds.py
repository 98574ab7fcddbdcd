"""One round of damages to the files of a group, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

GROUPS = ("sealed", "runs", "collections", "minari", "tables", "forms", "commands")


def one_round(group: str, seed: int, rounds: float = 1.0, share: float = 1.0) -> list[dict[str, Any]]:
    """Returns what was found at each target: how many files were tried, and which of them went wrong."""
    command = [
        sys.executable,
        str(Path(__file__).with_name("fuzzing.py")),
        group,
        str(seed),
        str(rounds),
        str(share),
    ]
    surroundings = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "100"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=surroundings)
    return [json.loads(line) for line in done.stdout.splitlines()]
