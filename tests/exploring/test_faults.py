"""A run survives its files: full disks at every file operation, checkpoints damaged in every way, leftovers.

What is wrong is said, what is whole is used, and the bits at the end are those of a run without a folder.
"""

from __future__ import annotations

import errno
import os
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from exploring_models import same_run
from interrupted_runs import (
    CASES,
    RIVER,
    SHORT,
    TINY,
    StoppedError,
    names,
    stopped_after,
    temporary,
)

import rhocover as rc
from rhocover import files
from rhocover.errors import (
    CheckpointError,
    CheckpointWarning,
    FileFormatError,
    InvalidArgumentError,
    InvalidModelError,
)
from rhocover.exploring.runs import runner
from rhocover.exploring.runs.checkpoint import CHECKPOINTS, MODEL, RESULT, SETTINGS
from rhocover.exploring.worlds.simulator import Simulator
from tiers import tiered

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and locks are POSIX's")


# --- full disks ---------------------------------------------------------------------------------------


def failing(monkeypatch, when: int) -> list[int]:
    """Makes the `when`-th file operation fail for want of space; returns how many there were."""
    calls = [0]

    def guarded(real):
        def operation(*arguments, **named):
            calls[0] += 1
            if calls[0] == when:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*arguments, **named)

        return operation

    real_fdopen = os.fdopen

    def fdopen(*arguments, **named):
        file = real_fdopen(*arguments, **named)
        try:
            return Counted(file, guarded(file.write))
        except OSError:
            file.close()
            raise

    real_open, made = os.open, guarded(os.open)
    monkeypatch.setattr(
        files.os,
        "open",
        lambda path, flags, *more: (made if flags & os.O_CREAT else real_open)(path, flags, *more),
    )
    for name in ("fsync", "replace"):
        monkeypatch.setattr(files.os, name, guarded(getattr(os, name)))
    monkeypatch.setattr(files.os, "fdopen", fdopen)
    return calls


class Counted:
    """A file whose writes are counted."""

    def __init__(self, file, write):
        self.file, self.write = file, write

    def __enter__(self):
        return self

    def __exit__(self, *details):
        self.file.close()

    def flush(self):
        self.file.flush()

    def fileno(self):
        return self.file.fileno()


@pytest.mark.thorough
def test_a_full_disk_at_any_file_operation_says_what_to_do_and_loses_nothing(tmp_path, reference, often):
    when, stages = 0, set()
    while True:
        when += 1
        out = tmp_path / str(when)
        with pytest.MonkeyPatch.context() as patch:
            calls = failing(patch, when)
            try:
                rc.explore(RIVER, **TINY, out=out)
                break
            except CheckpointError as error:
                message = str(error)
        stages.add(check_message(message, out))
        assert temporary(out) == []
        for name in CHECKPOINTS:
            if name in names(out):
                files.load_tensors(out / name, "checkpoint")  # whole
        run = rc.resume(out) if SETTINGS in names(out) else rc.explore(RIVER, **TINY, out=out)
        same_run(run, reference(TINY))
    assert stages == {"settings", "first checkpoint", "later checkpoint"}
    assert calls[0] == when - 1
    assert when > 40  # 5 operations for each of model, settings, result and 6 checkpoints or more


def check_message(message: str, out: Path) -> str:
    """Asserts that a message names the folder, the reason and the way out; returns when it came."""
    assert "No space left on device" in message
    assert repr(str(out)) in message
    if message.startswith("`out`"):
        assert message.endswith("Free disk space, or name another folder, and explore again.")
        return "settings"
    assert message.endswith(f"Free disk space, then continue with resume({str(out)!r}).")
    if "there is no earlier checkpoint" in message:
        return "first checkpoint"
    assert "the checkpoint before it, at step " in message
    return "later checkpoint"


def test_a_folder_that_cannot_be_made_is_refused_by_name(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="could not be written: Not a directory"):
        rc.explore(RIVER, **SHORT, out=tmp_path / "file" / "out")
    assert names(tmp_path) == ["file"]


# --- damaged files ------------------------------------------------------------------------------------


@pytest.fixture
def half(tmp_path, often) -> Path:
    """Returns the folder of a run that was left in the middle, with two checkpoints."""
    out = tmp_path / "half"
    with pytest.raises(StoppedError):
        rc.explore(RIVER, **SHORT, out=out, report=stopped_after(1600))
    assert names(out) == sorted([SETTINGS, MODEL, *CHECKPOINTS])
    return out


def newest(out: Path) -> tuple[Path, Path]:
    """Returns (newer, older) of the two checkpoints."""
    number = {name: files.load_tensors(out / name, "checkpoint")[1]["number"] for name in CHECKPOINTS}
    older, newer = sorted(CHECKPOINTS, key=number.__getitem__)
    return out / newer, out / older


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def flipped(path: Path) -> None:
    payload = bytearray(path.read_bytes())
    payload[-50] ^= 0x10
    path.write_bytes(payload)


def flipped_in_the_header(path: Path) -> None:
    payload = path.read_bytes()
    place = payload.index(b"block_steps") + 3
    path.write_bytes(payload[:place] + b"X" + payload[place + 1 :])


def foreign(path: Path) -> None:
    other = path.parent.parent / "other"
    if not other.exists():
        rc.explore(RIVER, **SHORT | {"seed": 9}, out=other)
    shutil.copy(other / CHECKPOINTS[0], path)


def of_another_kind(path: Path) -> None:
    shutil.copy(path.parent / MODEL, path)


DAMAGES = [truncated, emptied, flipped, flipped_in_the_header, foreign, of_another_kind]


@pytest.mark.parametrize("which", tiered(["newer", "older"]))
@pytest.mark.parametrize("damage", tiered(DAMAGES))
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(half, damage, which, reference):
    newer, older = newest(half)
    broken, whole = (newer, older) if which == "newer" else (older, newer)
    step = files.load_tensors(whole, "checkpoint")[1]["num_steps"]
    damage(broken)
    begun = []

    def report(steps, num_steps):
        begun.append(steps)

    with pytest.warns(CheckpointWarning, match=r"The other checkpoint is used\.$") as caught:
        run = rc.resume(half, report=report)
    assert broken.name in str(caught[0].message)
    assert caught[0].filename == __file__  # where the caller can look
    assert step <= begun[0] <= step + 1000
    same_run(run, reference(SHORT))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same_run(rc.resume(half), reference(SHORT))  # and is written over


@pytest.mark.parametrize("damage", tiered(DAMAGES))
def test_two_damaged_checkpoints_are_an_error_that_names_both(half, damage, reference):
    for path in newest(half):
        damage(path)
    before = {path.name: path.read_bytes() for path in half.iterdir()}
    with pytest.raises(FileFormatError) as caught:
        rc.resume(half)
    message = str(caught.value)
    assert message.startswith(f"no checkpoint in {str(half)!r} can be used: ")
    assert message.endswith("Remove the checkpoint files to start again.")
    assert all(name in message for name in CHECKPOINTS)
    assert {path.name: path.read_bytes() for path in half.iterdir()} == before
    for name in CHECKPOINTS:
        (half / name).unlink()
    same_run(rc.resume(half), reference(SHORT))  # as the message says


def test_a_run_that_goes_on_writes_over_the_older_checkpoint(half):
    # The mutant writes over the newer one, and a power cut then costs two.
    newer, older = newest(half)
    before, number = newer.read_bytes(), files.load_tensors(newer, "checkpoint")[1]["number"]
    with pytest.raises(StoppedError):
        rc.resume(half, report=stopped_after(0))
    assert newer.read_bytes() == before
    assert files.load_tensors(older, "checkpoint")[1]["number"] == number + 1


@pytest.mark.parametrize("place", tiered(range(0, 4000, 661)))
def test_no_flipped_byte_of_a_checkpoint_goes_unnoticed(half, place, reference):
    path, _ = newest(half)
    payload = bytearray(path.read_bytes())
    payload[place % len(payload)] ^= 0x01
    path.write_bytes(payload)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CheckpointWarning)
        same_run(rc.resume(half), reference(SHORT))


@pytest.mark.parametrize("damage", tiered([truncated, emptied, flipped, of_another_kind]))
def test_damaged_settings_are_an_error_that_names_the_file(half, damage):
    damage(half / SETTINGS)
    with pytest.raises(FileFormatError, match=SETTINGS.replace(".", r"\.")):
        rc.resume(half)


@pytest.mark.parametrize("damage", [truncated, emptied, flipped])
def test_a_damaged_model_is_an_error_that_names_the_file(half, damage):
    damage(half / MODEL)
    with pytest.raises((FileFormatError, InvalidModelError), match=MODEL.replace(".", r"\.")):
        rc.resume(half)


def test_another_model_and_a_missing_one_are_errors(half):
    rc.envs.river_swim(num_states=7).save(half / MODEL, overwrite=True)
    with pytest.raises(FileFormatError) as caught:
        rc.resume(half)
    assert str(caught.value) == f"{MODEL} in {str(half)!r} is not the model of this run."
    (half / MODEL).unlink()
    with pytest.raises(InvalidArgumentError, match=MODEL.replace(".", r"\.")):
        rc.resume(half)


# --- leftovers and finished runs ----------------------------------------------------------------------


def test_what_a_killed_writer_left_behind_is_removed_and_nothing_else(half, reference):
    for name in (f".{CHECKPOINTS[0]}.0123abcd.tmp", f".{RESULT}.00000000.tmp", f".{SETTINGS}.ffffffff.tmp"):
        (half / name).write_bytes(b"half a file")
    (half / "notes.txt").write_text("mine")
    mine = [
        f".{RESULT}.backup",
        f".{RESULT}.0123ABCD.tmp",
        f".{RESULT}.01234567.tmp.old",
        ".mine.0123abcd.tmp",
    ]
    for name in mine:
        (half / name).write_text("mine too")
    (half / f".{RESULT}.abcdabcd.tmp").symlink_to(half / "notes.txt")
    (half / f".{RESULT}.abcdabce.tmp").mkdir()
    same_run(rc.resume(half), reference(SHORT))
    others = [f".{RESULT}.abcdabcd.tmp", f".{RESULT}.abcdabce.tmp"]
    assert temporary(half) == sorted([*mine, *others])
    assert "notes.txt" in names(half)


def test_a_finished_run_is_returned_without_a_step(tmp_path, reference, monkeypatch):
    out = tmp_path / "out"
    run = rc.explore(RIVER, **SHORT, out=out)
    same_run(run, reference(SHORT))

    def never(*_):
        raise AssertionError("a finished run takes no step")

    monkeypatch.setattr(Simulator, "advance", never)
    same_run(rc.resume(out, report=never), run)


@pytest.mark.thorough
def test_a_run_with_a_folder_has_the_bits_of_one_without(tmp_path, reference, often):
    for case in ("feedback, worst case", "tracking"):
        same_run(rc.explore(RIVER, **CASES[case], out=tmp_path / case), reference(CASES[case]))


def test_a_run_whose_directions_are_no_longer_kept_goes_on_all_the_same(tmp_path, often, monkeypatch):
    """After some million numbers episodes are recorded without psi; here after three episodes."""
    monkeypatch.setattr(runner, "KEPT", 24)
    whole = rc.explore(RIVER, **SHORT)
    assert [episode.psi.size for episode in whole.episodes] == [12, 12, 12, 0, 0, 0]
    with pytest.raises(StoppedError):
        rc.explore(RIVER, **SHORT, out=tmp_path / "out", report=stopped_after(2600))
    same_run(rc.resume(tmp_path / "out"), whole)


def test_every_setting_comes_back(tmp_path, often):
    """Weights, start, discount, chains, trace: a run that is left in the middle has all of them."""
    mdp, mu = RIVER, np.random.default_rng(0).random((6, 2)) + 0.1
    settings = {
        "discount": 0.95,
        "start": [0, 0.5, 0.5, 0, 0, 0],
        "num_chains": 3,
        "trace_points": 7,
        "seed": 8,
    }
    whole = rc.explore(mdp, 0.5, 9000, mu, **settings)
    with pytest.raises(StoppedError):
        rc.explore(mdp, 0.5, 9000, mu, **settings, out=tmp_path / "out", report=stopped_after(3000))
    same_run(rc.resume(tmp_path / "out"), whole)
    settings = {"horizon": 8, "start": 0, "restrict": True, "explorer": "tracking"}
    whole = rc.explore(mdp, 2, 4000, **settings)
    with pytest.raises(StoppedError):
        rc.explore(mdp, 2, 4000, **settings, out=tmp_path / "two", report=stopped_after(2000))
    same_run(rc.resume(tmp_path / "two"), whole)


def test_a_checkpoint_of_other_settings_is_another_runs(half):
    """Every setting is in the digest: a change of any makes the checkpoints foreign."""
    from dataclasses import replace

    from rhocover.exploring.runs.checkpoint import settings_digest
    from rhocover.exploring.runs.explore import read_folder

    asked = read_folder(half)
    spec, objective, criterion = asked.spec, asked.spec.objective, asked.spec.criterion
    others = {
        "num_steps": 3500, "seed": 1, "trace_points": 3, "explorer": rc.Algorithm1(rc.Constant(501)),
        "model": rc.Learned(), "until": rc.EveryPair(3),
    }  # fmt: skip
    specs = [replace(spec, **{name: value}) for name, value in others.items()]
    weights = {"rho": 3.0, "mu": np.full((6, 2), 2.0)}
    specs += [replace(spec, objective=replace(objective, **{key: value})) for key, value in weights.items()]
    starts = {"restrict": True, "discount": 0.5, "horizon": 3, "start": np.eye(6)[2]}
    specs += [replace(spec, criterion=replace(criterion, **{key: value})) for key, value in starts.items()]
    runs = [replace(asked, spec=spec) for spec in specs]
    runs += [replace(asked, num_chains=2), replace(asked, mdp=rc.envs.river_swim(num_states=7))]
    assert len({settings_digest(run) for run in (asked, *runs)}) == len(runs) + 1
