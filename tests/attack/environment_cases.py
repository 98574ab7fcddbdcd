"""What comes of environments that break their contract: a refusal of ours, or a right result, and nothing else.

Wrong is: another exception than one of ours (but for Ctrl-C and its like, which pass), a command that ends without a
line of its own, a hang, memory without end, a byte outside the folder, a data set that is not what the
environment showed, and a collection that cannot go on when the environment is mended.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from copies import Ended, in_a_copy
from failing_environments import KINDS, Fault, World, fault_of
from fault_runs import Files, contents
from found import Found, Rng
from watched_place import Place, watched_place
from writing_verbs import outcome

import rhocover as rc
from rhocover.cli import app
from rhocover.datasets.collection.source import open_collection
from rhocover.errors import RhocoverError

STEPS, ID = 60, "Attack-v0"
ASKED: dict[str, Any] = {"rho": 2.0, "num_steps": STEPS}
MOST_LETTERS = 4000  # of a message: what an environment says is shortened
ORDER = [
    sorted(KINDS)[k] for k in np.random.default_rng(0).permutation(len(KINDS))
]  # so that few are of all sorts
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")  # that a terminal would obey


def environments(rng: Rng, number: int) -> Found:
    """Runs a verb or a command in one misbehaving environment."""
    warm()
    name = ORDER[number % len(ORDER)]
    fault = fault_of(name, rng)
    way = "collect" if fault.options else str(rng.choice([*WAYS], p=[0.4, 0.15, 0.15, 0.2, 0.1]))
    found = Found("hostile environments", f"{name} from step {fault.first}, {way}")
    with watched_place() as place:
        before = place.listing()
        ended = in_a_copy(lambda: outcome_of(way, fault), place, patience=fault.patience)
        found.add(ended.wrong or judged(ended, fault))
        if fault.can_resume and way == "collect" and not found.wrong:
            found.add(wrong_when_mended(place, fault))
        outside = place.outside(before)
        found.add(f"outside of the folder: {outside}" if outside else None)
    return found


@functools.cache
def warm() -> None:
    """Meets a decent environment in every way in this process, so that its copies find everything compiled."""
    here = os.getcwd()
    for way in WAYS:
        with watched_place() as place:
            os.chdir(place.here)
            try:
                ended = outcome_of(way, Fault())
            finally:
                os.chdir(here)
        assert ended["kind"] == "finished", (way, ended)


def judged(ended: Ended, fault: Fault) -> str | None:
    """Returns what is wrong with how a call ended; None if nothing is."""
    if ended.code or not ended.value:
        return f"died with {ended.code}"
    kind, said = ended.value["kind"], ended.value["said"]
    if kind in ("wrong", "raised"):
        return said
    if kind == "passed":
        return None if fault.is_interrupt else f"an exception that is not ours passes: {said}"
    if kind == "refused" and fault.is_honest:
        return f"refused, though it kept to the contract: {said[:500]}"
    return f"a message of {len(said)} letters" if len(said) > MOST_LETTERS else None


# --- ways to meet an environment ------------------------------------------------------------------------


def _collect(env: Any, fault: Fault) -> Any:
    known = inspect.signature(rc.collect).parameters
    options = {name: value for name, value in fault.options.items() if name in known}
    return rc.collect(env, **ASKED, out="out", model="learned", dataset_id="attack/set-v0", **options)


def _explore(env: Any, fault: Fault) -> Any:
    return rc.explore(env, **ASKED, model="learned")


def _top_up(env: Any, fault: Fault) -> Any:
    old = {"s": [0, 1, 2, 1], "a": [1, 0, 1, 1], "s_next": [1, 2, 1, 1], "done": [False] * 4}
    return rc.top_up(old, env, STEPS, out="out", model="learned", dataset_id="attack/more-v0")


def _vector(env: Any, fault: Fault) -> Any:
    return rc.collect(env, **ASKED, out="out", model="learned", dataset_id="attack/set-v0")


WAYS: dict[str, Callable[[Any, Fault], Any]] = {
    "collect": _collect, "explore": _explore, "top_up": _top_up, "command": lambda env, fault: None, "vector": _vector,
}  # fmt: skip


def outcome_of(way: str, fault: Fault) -> dict[str, str]:
    """Returns how a call ended: finished, refused, passed (an interrupt) or raised, and what it said."""
    if way == "command":
        return _outcome_of_command(fault)
    try:
        env = World(fault) if way != "vector" else gym.vector.SyncVectorEnv([World, lambda: World(fault)])
    except Exception as error:  # of Gymnasium's: it never comes to us
        return {"kind": "refused" if not fault.is_honest else "finished", "said": f"not made: {error!r:.200}"}
    out = Path("out").absolute()  # an environment may change the working directory
    return outcome_of_call(lambda: WAYS[way](env, fault), lambda found: _wrong_result(way, env, found, out))


def outcome_of_call(call: Callable[[], Any], wrong_of: Callable[[Any], str | None]) -> dict[str, str]:
    """Returns how a call of the library ended; `wrong_of` looks at its result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an environment may warn, and so may Gymnasium
        try:
            found = call()
        except RhocoverError as error:
            return {"kind": "refused", "said": str(error)}
        except Exception as error:
            return {"kind": "raised", "said": "".join(traceback.format_exception(error))[-1200:]}
        except BaseException as error:
            return {"kind": "passed", "said": f"{type(error).__name__}"}
        wrong = wrong_of(found)
    return {"kind": "finished" if wrong is None else "wrong", "said": wrong or ""}


def _outcome_of_command(fault: Fault) -> dict[str, str]:
    if ID in gym.registry:
        del gym.registry[ID]
    gym.register(ID, lambda **_: World(fault), disable_env_checker=True)
    words = ["collect", ID, "--rho", "2", "--steps", str(STEPS), "--model", "learned", "--out", "out"]
    try:
        code, said = outcome(*words)
    except BaseException as error:
        return {"kind": "raised", "said": "".join(traceback.format_exception(error))[-1200:]}
    return judged_command(code, said, is_done=Path("out", "datasheet.json").exists())


def judged_command(code: Any, said: str, *, is_done: bool) -> dict[str, str]:
    """Returns how a command ended: with a line of its own, or as it should not."""
    lines = [line for line in said.splitlines() if line.startswith("error: ")]
    own = [line for line in said.splitlines() if not line.startswith(("error: ", "warning: "))]  # these quote
    if code not in app.EXIT_CODES or any("Traceback (most" in line for line in own):
        return {"kind": "wrong", "said": f"exit code {code}: {said[-500:]}"}
    if code == 0:
        return (
            {"kind": "finished", "said": ""}
            if is_done
            else {"kind": "wrong", "said": "exit code 0 and no data"}
        )
    if code == app.INTERRUPTED:
        return {"kind": "passed", "said": said}
    if len(lines) != 1 or not said.endswith(lines[0] + "\n"):
        return {
            "kind": "wrong",
            "said": f"exit code {code} without a line of its own at the end: {said[-500:]!r}",
        }
    if CONTROL.search(lines[0]):
        return {"kind": "wrong", "said": f"a line that a terminal would obey: {lines[0][:300]!r}"}
    return {"kind": "refused", "said": lines[0]}


# --- right results --------------------------------------------------------------------------------------


def _wrong_result(way: str, env: Any, found: Any, out: Path) -> str | None:
    if way == "explore":
        seen = found.tally.counts.sum()  # `counts` leaves out what can be visited only once
        return None if found.num_steps == STEPS == seen else f"{found.num_steps} steps, {seen} counted"
    if way == "vector":
        return None
    try:
        return wrong_data(env.shown, open_collection(out))
    except Exception as error:
        return f"it finished, and cannot be looked at: {error!r:.500}"


def wrong_data(shown: list[Any], source: Any) -> str | None:
    """Returns what in a data set is not as it was shown."""
    parts = list(source.pieces())
    rewards, ends, cuts = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("rewards", "terminations", "truncations")
    )
    if len(rewards) != len(shown) or len(shown) != STEPS:
        return f"{len(rewards)} steps stored, {len(shown)} taken"
    seen = _after_steps(parts)
    for k, step in enumerate(shown):
        observation, reward, terminated, truncated, _ = step
        if not _is_same(rewards[k], reward):
            return f"step {k}: reward {reward!r:.100} stored as {rewards[k]!r}"
        if bool(ends[k]) != bool(terminated) or (
            bool(cuts[k]) != bool(truncated) and not terminated and k < STEPS - 1
        ):
            return f"step {k}: ({terminated!r:.50}, {truncated!r:.50}) stored as ({ends[k]}, {cuts[k]})"
        if not _is_same(seen[k], observation):
            return f"step {k}: {observation!r:.100} stored as {seen[k]!r:.100}"
    return None


def _after_steps(parts: list[Any]) -> list[Any]:
    """Returns the observation after each step; an episode has one more, its first."""
    seen: list[Any] = []
    for part in parts:
        begin = 0
        for length in np.asarray(part.lengths).tolist():
            seen.extend(part.observations[begin + 1 : begin + length + 1])
            begin += length + 1
    return seen


def _is_same(stored: Any, shown: Any) -> bool:
    """Whether a number or an array is stored as it was shown, up to the type that is stored."""
    try:
        left, right = np.asarray(stored, np.float64).ravel(), np.asarray(shown, np.float64).ravel()
    except (TypeError, ValueError, OverflowError):
        return False
    return left.shape == right.shape and np.allclose(left, right, rtol=1e-6, atol=0, equal_nan=True)


@functools.cache
def undisturbed() -> Files:
    """Returns the files of a collection in an environment that keeps to the contract."""
    with watched_place() as place:
        ended = in_a_copy(lambda: outcome_of("collect", Fault()), place)
        assert not ended.wrong, ended
        assert ended.value["kind"] == "finished", ended
        return contents(place.here)


def wrong_when_mended(place: Place, fault: Fault) -> str | None:
    """Returns what is wrong with going on after the environment was mended."""
    begun = (place.here / "out" / "manifest.json").exists()

    def go_on() -> dict[str, str]:
        call = functools.partial(
            rc.collect, World(), **ASKED, out="out", model="learned", dataset_id="attack/set-v0"
        )
        return outcome_of_call(lambda: call(resume=begun), lambda found: None)

    ended = in_a_copy(go_on, place)
    if ended.wrong or ended.code or ended.value["kind"] != "finished":
        return f"mended, it does not go on: {ended}"
    now, whole = contents(place.here), undisturbed()
    other = sorted(name for name in {**now, **whole} if now.get(name) != whole.get(name))
    return f"mended and gone on, other bits than undisturbed: {other}" if other else None
