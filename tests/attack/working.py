"""One of the processes that attack: everything is imported and compiled once, then a copy is made for each case.

    python working.py '{"seed": 1, "groups": ["deaths"], "seconds": 60, "worker": 0, "workers": 2}'

prints a line of JSON for each case. Of the groups, the next case is of the one that is most behind its share of
the time. `cases` instead of `seconds` runs so many of each group; `case` runs that one alone.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FOLDERS = (HERE.parent, HERE.parent / "faults", HERE.parent / "fuzz", HERE)
GROUPS = {  # where the attack is, and its share of the time
    "deaths": ("deaths", 0.46),
    "faults": ("deaths", 0.08),
    "files": ("damaged_files", 0.10),
    "environments": ("environment_cases", 0.18),
    "processes": ("odd_processes", 0.12),
    "races": ("races", 0.06),
}


def prepare() -> None:
    """Makes what is shared with other tests importable, and everything hurry."""
    sys.path[:0] = [str(folder) for folder in FOLDERS if str(folder) not in sys.path]
    writing_verbs: Any = importlib.import_module("writing_verbs")
    writing_verbs.hurry()
    os.fsync = lambda handle: None  # spares the disk; operations are counted all the same


def one_case(group: str, seed: int, number: int) -> dict[str, Any]:
    """Returns what a case found; an attack that fails itself is wrong, too."""
    found: Any = importlib.import_module("found")
    attack = getattr(importlib.import_module(GROUPS[group][0]), group)
    try:
        result = attack(found.rng_of(seed, group, number), number)
    except Exception:
        result = found.Found(group, "the attack itself", wrong=[traceback.format_exc()[-1500:]])
    return {"group": group, "number": number, **vars(result)}


def run(asked: dict[str, Any], tell: Any) -> None:
    """Runs cases until the time is up, or all that were asked for are done."""
    numbers = dict.fromkeys(asked["groups"], asked["worker"])
    spent = dict.fromkeys(asked["groups"], 0.0)
    end = time.monotonic() + asked.get("seconds", 1e9)
    while numbers and time.monotonic() < end:
        group = min(numbers, key=lambda name: (spent[name] / GROUPS[name][1], name))
        number, began = numbers[group], time.monotonic()
        tell(one_case(group, asked["seed"], number))
        spent[group] += time.monotonic() - began
        numbers[group] += asked["workers"]
        if numbers[group] >= asked.get("cases", 1e9):
            del numbers[group]


def main(asked: dict[str, Any]) -> None:
    prepare()
    told = os.fdopen(os.dup(1), "w")  # what an attack prints itself goes nowhere
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    def tell(found: dict[str, Any]) -> None:
        print(json.dumps(found), file=told, flush=True)

    if "case" in asked:
        for group in asked["groups"]:
            tell(one_case(group, asked["seed"], asked["case"]))
    else:
        run(asked, tell)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
