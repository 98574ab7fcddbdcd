"""Which files of src/rhocover a call goes through: how far a reader has to go to follow it.

    python tools/hops.py            the three paths, with their counts and limits
    python tools/hops.py --files    and the files of each
    python tools/hops.py --check    ends with 1 if a path is beyond its limit

A file counts if one of its functions is called, in any thread, after a warm-up call that has loaded modules
and compiled loops. Compiled loops themselves are not seen; the Python function that calls them is.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import rhocover as rc

SOURCE = Path(rc.__file__).resolve().parent


@dataclass(frozen=True)
class CallPath:
    """A call that users make, and the most files it may go through; `limit` None where there is none."""

    name: str
    call: Callable[[], object]
    limit: int | None


RIVER = rc.envs.river_swim(num_states=6)  # made before: the call is what is traced


def plan() -> None:
    """Plans on RiverSwim-6."""
    rc.plan(RIVER, rho=2.0)


def explore_learned() -> None:
    """Explores RiverSwim-6 with a learned model."""
    rc.explore(RIVER, rho=2.0, num_steps=3000, model="learned", seed=0)


def collect_audit_page() -> None:
    """Collects on FrozenLake-v1, audits what was collected, and writes the page of the audit."""
    import gymnasium as gym

    from rhocover.report.pages.audit import page_of_audit
    from rhocover.report.pages.rendering import write_page

    with tempfile.TemporaryDirectory() as folder:
        data = rc.collect(gym.make("FrozenLake-v1"), rho=2.0, num_steps=2000, out=f"{folder}/data", seed=0)
        write_page(page_of_audit(rc.audit(data, rho=2.0)), f"{folder}/page.html")


PATHS = (
    CallPath("plan", plan, None),
    CallPath('explore(model="learned")', explore_learned, 35),
    CallPath("collect, audit, page", collect_audit_page, 75),
)


def files_touched(call: Callable[[], object]) -> list[str]:
    """Returns the files of src/rhocover of which `call` calls a function, relative to it and sorted."""
    seen: set[str] = set()

    def watch(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            seen.add(frame.f_code.co_filename)

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    paths = (Path(name) for name in seen)
    return sorted(path.relative_to(SOURCE).as_posix() for path in paths if path.is_relative_to(SOURCE))


def main(arguments: list[str] | None = None) -> int:
    """Prints the paths; returns 1 if one is to be checked and is beyond its limit."""
    parser = argparse.ArgumentParser(description="Counts the files that three calls go through.")
    parser.add_argument("--files", action="store_true", help="print the files, too")
    parser.add_argument("--check", action="store_true", help="end with 1 if a path is beyond its limit")
    asked = parser.parse_args(arguments)
    is_beyond = False
    for path in PATHS:
        path.call()  # warm-up
        files = files_touched(path.call)
        is_beyond |= path.limit is not None and len(files) > path.limit
        print(f"{path.name:26} {len(files):4} files" + (f", limit {path.limit}" if path.limit else ""))
        if asked.files:
            print("".join(f"    {name}\n" for name in files), end="")
    return int(asked.check and is_beyond)


if __name__ == "__main__":
    sys.exit(main())
