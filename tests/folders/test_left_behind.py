"""What a killed process left is removed, what somebody else put there is not, and nothing else is left."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from small_writers import WRITERS, collect, compare, contents

from rhocover.errors import InvalidArgumentError
from rhocover.files import write_atomically
from tiers import tiered

HALF = b"half a file"
MINE = {  # names near to those of ours, and whose they are not
    ".log-2024-notes.txt", ".log-backup/kept.txt", ".collection.json.backup", ".collection.json.0123ABCD.tmp",
    ".collection.json.0123abcd.tmp.old", ".log-000000.safetensors.bak", ".log-0.safetensors.0123abcd.tmp",
    ".manifest.json.backup", ".manifest.json.0123ABCD.tmp", ".manifest.json.0123abcd.tmp.old",
    ".comparison.safetensors.bak", ".comparison.safetensors.0123abcde.tmp", ".mine.0123abcd.tmp",
}  # fmt: skip


def put(folder: Path, names: set[str]) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("mine")


@pytest.mark.parametrize("name", tiered(sorted(MINE)))
def test_a_collection_does_not_begin_among_files_of_somebody_else(name, tmp_path):
    """Mutants remove whatever begins as one of our names does."""
    put(tmp_path, {name})
    with pytest.raises(InvalidArgumentError, match="new or empty folder"):
        collect(tmp_path)
    assert contents(tmp_path) == {name: b"mine"}


@pytest.mark.parametrize("verb", ["compare", "collect"])
def test_going_on_removes_what_was_half_written_and_nothing_else(verb, tmp_path, often):
    """Half written are regular files with one of our names, a mark of eight digits, and an ending."""
    out, writer = tmp_path / "out", WRITERS[verb]

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        writer.call(out, stop)
    left = [out / f".{writer.first}.{mark}.tmp" for mark in ("0123abcd", "00000000")]
    for path in left:
        path.write_bytes(HALF)
    put(out, MINE | {"log-notes.safetensors"})
    (out / f".{writer.first}.aaaaaaaa.tmp").symlink_to(out / ".mine.0123abcd.tmp")
    (out / f".{writer.first}.bbbbbbbb.tmp").mkdir()
    writer.again(out)
    assert not any(os.path.lexists(path) for path in left)
    now = contents(out)
    assert {name: now[name] for name in MINE} == dict.fromkeys(MINE, b"mine")
    assert now["log-notes.safetensors"] == b"mine"
    assert now[f".{writer.first}.aaaaaaaa.tmp"] == b"a link"
    assert (out / f".{writer.first}.bbbbbbbb.tmp").is_dir()


def test_parts_that_no_manifest_names_are_removed_by_going_on_and_nothing_else(tmp_path, often):
    out = tmp_path / "out"

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect(out, stop)
    parts = out / "parts"
    put(parts, {"part-0000-000007.parquet", ".part-0000-000000.parquet.0123abcd.tmp"})
    mine = {"part-1.parquet", "notes.parquet", ".part-0000-000000.parquet.backup"}
    put(parts, mine)
    collect(out, resume=True)
    assert contents(parts).keys() == {"part-0000-000000.parquet", *mine}


@pytest.mark.parametrize(
    "line",
    ["plan river_swim --rho 2 --out out", "compare river_swim --steps 50 --seeds 1 --workers 1 --out out"],
)
def test_a_command_removes_the_hidden_folder_of_one_that_was_killed(line, rhocover, tmp_path):
    left, mine = tmp_path / "out" / ".rhocover.0123abcd.tmp", tmp_path / "out" / ".rhocover.0123abce.tmp"
    put(left, {"plan.json", ".plan.json.0123abcd.tmp"})
    if line.startswith("plan"):
        mine.mkdir()
        (mine / "link").symlink_to(tmp_path)
    assert rhocover(line).code == 0
    assert not left.exists()
    assert not line.startswith("plan") or (mine / "link").is_symlink()


def test_a_report_removes_what_was_half_written_under_its_own_name_only(rhocover, tmp_path):
    (tmp_path / ".page.html.0123abcd.tmp").write_bytes(HALF)
    put(tmp_path, {".other.html.0123abcd.tmp", ".page.html.backup"})
    assert rhocover("plan river_swim --rho 2 --report page.html").code == 0
    assert contents(tmp_path).keys() == {"page.html", ".other.html.0123abcd.tmp", ".page.html.backup"}


def test_what_another_process_is_still_writing_is_not_removed(rhocover, tmp_path):
    """The mutant removes a file by its name alone, and the other process fails."""
    from rhocover.folders import temporary_file

    with temporary_file(tmp_path / "page.html") as (place, file):
        assert rhocover("plan river_swim --rho 2 --report page.html").code == 0
        assert place.exists()
        file.write(b"another page")
        file.flush()
        os.replace(place, tmp_path / "page.html")
    assert contents(tmp_path) == {"page.html": b"another page"}


# --- force --------------------------------------------------------------------------------------------

FORCED = {
    "explore river_swim --rho 2 --steps 100 --out out": ".run.safetensors.notes",
    "compare river_swim --steps 50 --seeds 1 --workers 1 --out out": ".comparison.safetensors.notes",
    "collect FrozenLake-v1 --rho 2 --steps 50 --out out": "manifest.json.bak",
}


@pytest.mark.parametrize("line", FORCED)
def test_making_room_refuses_names_that_only_look_like_ours(line, rhocover, tmp_path):
    """Mutants take whatever begins as one of our names does for half written."""
    assert rhocover(line).code == 0
    put(tmp_path / "out", {FORCED[line]})
    before = contents(tmp_path)
    found = rhocover(f"{line} --force")
    assert (found.code, repr(FORCED[line]) in found.err) == (2, True), found.err
    assert contents(tmp_path) == before


# --- writing one file ---------------------------------------------------------------------------------


def test_writing_a_file_never_changes_the_mask_of_the_process(tmp_path, monkeypatch):
    """Another thread that makes a file meanwhile would make it open to everybody."""
    before = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the mask was changed"))
        write_atomically(tmp_path / "file", b"new")
    finally:
        monkeypatch.undo()
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_folder_that_cannot_be_synced_is_not_a_failure(number, tmp_path, monkeypatch):
    real = os.fsync

    def fsync(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(number, os.strerror(number))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    compare(tmp_path / "out")
    assert (tmp_path / "out" / "comparison.safetensors").exists()


@pytest.mark.parametrize("number", tiered([errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS]))
@pytest.mark.parametrize("step", tiered(["open", "fdopen", "write", "fsync", "replace"]))
def test_an_error_of_any_operation_leaves_the_old_file_and_nothing_else(step, number, tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"old")

    def refuse(*arguments, **named):
        raise OSError(number, os.strerror(number))

    if step == "write":
        real = os.fdopen

        def full(handle, mode):
            os.close(handle)
            return real(os.open("/dev/full", os.O_WRONLY), mode)

        monkeypatch.setattr(os, "fdopen", full)
    else:
        monkeypatch.setattr(os, step, refuse)
    with pytest.raises(OSError, match="No space left" if step == "write" else os.strerror(number)):
        write_atomically(tmp_path / "file", b"new", overwrite=True)
    monkeypatch.undo()
    assert contents(tmp_path) == {"file": b"old"}
