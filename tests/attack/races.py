"""Two processes that want one folder, and folders that go away: one wins, and results are never mixed.

Both processes ask for the same verb with other seeds, so that a mixture of their files would show. Whoever ends well
left exactly its own files; whoever does not says so with an error of ours.
"""

from __future__ import annotations

import functools
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from copies import begin_copy, in_a_copy
from deaths import differing
from fault_runs import Files, called, contents
from found import Found, Rng
from watched_place import Place, watched_place
from writing_verbs import COMPARED, LEARNED, RIVER, RUN, Verb, command, lake, steps

import rhocover as rc

Call = Callable[[Path, int, Any], Any]  # of the folder, the seed, and a function that is told of progress
FORCED = ("--out", "out", "--report", "page.html", "--force")


def explore(folder: Path, seed: int, report: Any = None) -> Any:
    return rc.explore(RIVER, **RUN, seed=seed, out=folder / "out", report=report)


def collect(folder: Path, seed: int, report: Any = None) -> Any:
    return rc.collect(lake(), 2.0, 60, seed=seed, out=folder / "out", report=report, **LEARNED)


def top_up(folder: Path, seed: int, report: Any = None) -> Any:
    return rc.top_up(
        steps(), lake(), 60, seed=seed, out=folder / "out", dataset_id="attack/more-v0", report=report
    )


def compare(folder: Path, seed: int, report: Any = None) -> Any:
    asked = COMPARED | {"num_steps": 100 + seed}
    return rc.compare({"river": RIVER}, **asked, out=folder / "out", report=report)


def explore_by_force(folder: Path, seed: int, report: Any = None) -> Any:
    command("explore", "river_swim", "--set", "num_states=4", "--rho", "2", "--steps", "300", "--explorer", "tracking",
            "--seed", str(seed), *FORCED)  # fmt: skip


def collect_by_force(folder: Path, seed: int, report: Any = None) -> Any:
    command("collect", "FrozenLake-v1", "--rho", "2", "--steps", "60", "--model", "learned", "--seed", str(seed),
            "--out", "out", "--force")  # fmt: skip


def compare_by_force(folder: Path, seed: int, report: Any = None) -> Any:
    command("compare", "river_swim", "--set", "num_states=4", "--steps", str(100 + seed), "--seeds", "2", "--explorer",
            "tracking", "--workers", "1", *FORCED)  # fmt: skip


def plan_by_force(folder: Path, seed: int, report: Any = None) -> Any:
    command("plan", "river_swim", "--set", f"num_states={4 + seed}", "--rho", "2", *FORCED)


VERBS: dict[str, Call] = {
    "explore": explore, "collect": collect, "top_up": top_up, "compare": compare, "explore --force": explore_by_force,
    "collect --force": collect_by_force, "compare --force": compare_by_force, "plan --force": plan_by_force,
}  # fmt: skip
TOLD = ("explore", "collect", "top_up", "compare")  # that call a function of the user's


def as_verb(name: str, seed: int, report: Any = None) -> Verb:
    return Verb(lambda folder: VERBS[name](folder, seed, report))


@functools.cache
def undisturbed(name: str, seed: int) -> tuple[Files, float]:
    """Returns the files of a call that is alone, and the seconds it takes; calls it here first, to compile."""
    here = os.getcwd()
    with watched_place() as place:
        os.chdir(place.here)
        try:
            VERBS[name](Path(), seed, None)
        finally:
            os.chdir(here)
    with watched_place() as place:
        ended = in_a_copy(lambda: called(as_verb(name, seed), Path()), place)
        assert ended.code == 0, (name, ended)
        assert ended.value is None, (name, ended)
        return contents(place.here), ended.seconds


def races(rng: Rng, number: int) -> Found:
    """Runs one race: two processes, a folder that goes away, or a function of the user's that changes the folder."""
    kinds = (two_at_once, folder_goes, two_at_once, folder_changes)
    return kinds[number % len(kinds)](rng, number // len(kinds))


# --- two processes --------------------------------------------------------------------------------------


def two_at_once(rng: Rng, number: int) -> Found:
    """Begins a second process in the folder of a first one."""
    name = [*VERBS][number % len(VERBS)]
    wholes, seconds = [undisturbed(name, seed)[0] for seed in (0, 1)], undisturbed(name, 0)[1]
    wait = float(rng.choice([0.0, rng.uniform(0.0, seconds)]))
    found = Found("races: two processes", f"{name}, the second {wait:.3f} s later")
    with watched_place() as place:
        before = place.listing()
        first = begin_copy(lambda: called(as_verb(name, 0), Path()), place)
        time.sleep(wait)
        second = begin_copy(lambda: called(as_verb(name, 1), Path()), place)
        ends = [first.end(), second.end()]
        found.wrong += [ended.wrong for ended in ends if ended.wrong]
        found.wrong += [f"process {k} ended with {e.code}" for k, e in enumerate(ends) if e.code]
        found.wrong += wrong_results(place, wholes, [not e.code and e.value is None for e in ends], ends)
        litter = [name for name in place.outside(before) if not name.startswith("here/.rhocover")]
        found.add(f"outside of the folder: {litter}" if litter else None)
    return found


def wrong_results(place: Place, wholes: list[Files], did_win: list[bool], ends: Any) -> list[str]:
    """Returns what is wrong with the files of a race: they are those of one that came to its end, and of no other."""
    if not any(did_win):
        return [f"nobody won: {[ended.value for ended in ends]}"]
    now = contents(place.here)
    if any(won and not differing(now, whole) for won, whole in zip(did_win, wholes, strict=True)):
        return []
    return [f"{did_win} ended well, but files are neither's: {[differing(now, whole) for whole in wholes]}"]


# --- a folder that goes away ----------------------------------------------------------------------------


def removed(out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)


def renamed(out: Path) -> None:
    if out.exists():
        out.rename(out.with_name("out2"))


def replaced(out: Path) -> None:
    if out.exists():
        out.rename(out.with_name("out2"))
        out.mkdir()


def replaced_by_a_file(out: Path) -> None:
    if out.exists():
        out.rename(out.with_name("out2"))
        out.write_bytes(b"mine")


def emptied(out: Path) -> None:
    for path in [*out.iterdir()] if out.is_dir() else []:
        removed(path) if path.is_dir() else path.unlink(missing_ok=True)


WAYS = (removed, renamed, replaced, replaced_by_a_file, emptied)


def folder_goes(rng: Rng, number: int) -> Found:
    """Takes the folder away under a verb, at a random instant."""
    name, way = [*VERBS][number % len(VERBS)], WAYS[int(rng.integers(len(WAYS)))]
    _, seconds = undisturbed(name, 0)
    wait = float(rng.uniform(0.0, seconds))
    found = Found("races: folders that go", f"{name}, {way.__name__} after {wait:.3f} s")
    with watched_place() as place:
        before = place.listing()
        running = begin_copy(lambda: called(as_verb(name, 0), Path()), place)
        time.sleep(wait)
        way(place.here / "out")
        ended = running.end()
        found.add(ended.wrong)
        found.add(f"ended with {ended.code}, and not with an error of ours" if ended.code else None)
        litter = [path for path in place.outside(before) if not path.startswith("here/out2")]
        found.add(f"outside of the folder: {litter}" if litter else None)
        if way is replaced_by_a_file and (place.here / "out2").exists():
            is_mine = (place.here / "out").is_file() and (place.here / "out").read_bytes() == b"mine"
            found.add(None if is_mine else "a file of the user's was replaced")
    return found


# --- a function that changes the folder -----------------------------------------------------------------


def folder_changes(rng: Rng, number: int) -> Found:
    """Has the function that is told of progress change the working directory."""
    name = TOLD[number % len(TOLD)]
    whole, _ = undisturbed(name, 0)
    found = Found("races: folders that change", name)
    with watched_place() as place:
        before = place.listing()

        def report(*_: Any) -> None:
            os.chdir(place.root)

        ended = in_a_copy(lambda: called(as_verb(name, 0, report), Path()), place)
        found.add(ended.wrong)
        found.add(f"ended with {ended.code}, and not with an error of ours" if ended.code else None)
        if ended.code == 0 and ended.value is None and differing(contents(place.here), whole):
            found.add(f"it ended well, and files differ: {differing(contents(place.here), whole)}")
        found.add(f"outside of the folder: {place.outside(before)}" if place.outside(before) else None)
    return found
