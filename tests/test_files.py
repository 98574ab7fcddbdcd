"""A file is whole or absent, and a damaged one is never taken for a model.

Damage of every kind ends in an error of ours with a message: never in another exception, never in a
model that differs from the one saved. A failure while writing leaves the old file and nothing else.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import struct

import numpy as np
import pytest
from safetensors.numpy import save, save_file

from rhocover import MDP, __version__, envs
from rhocover.errors import FileFormatError, InvalidArgumentError, InvalidModelError
from rhocover.files import load_tensors, save_tensors, tensor_digest, write_atomically
from tiers import tiered

OURS = (FileFormatError, InvalidModelError, InvalidArgumentError)


@pytest.fixture(scope="module")
def model() -> MDP:
    return envs.river_swim()


@pytest.fixture(scope="module")
def payload(model, tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "model"
    model.save(path)
    return path.read_bytes()


def everything(mdp: MDP):
    layout = mdp.layout
    return (
        mdp.fingerprint, mdp.num_states, mdp.num_actions, mdp.state_labels, mdp.action_labels, mdp.name,
        layout.positions.tobytes(), layout.directions.tobytes(),
    )  # fmt: skip


def refusal(path) -> Exception:
    """Returns the error of ours that loading raises; any other fails the test."""
    with pytest.raises(OURS) as caught:
        MDP.load(path)
    assert str(path) in str(caught.value)
    return caught.value


def document(**changes) -> dict:
    return {
        "num_states": 1, "num_actions": 1, "state_labels": None, "action_labels": None, "name": "",
    } | changes  # fmt: skip


def tensors(**changes) -> dict:
    one = np.ones(1, np.int64)
    whole = {
        "data": np.ones(1), "indices": 0 * one, "indptr": np.array([0, 1]), "pair_state": 0 * one,
        "pair_action": 0 * one,
    } | changes  # fmt: skip
    return {name: array for name, array in whole.items() if array is not None}


# --- damage -------------------------------------------------------------------------------------------


def test_a_file_cut_off_anywhere_is_refused(payload, tmp_path):
    path = tmp_path / "cut"
    for length in range(0, len(payload), 7):
        path.write_bytes(payload[:length])
        assert isinstance(refusal(path), FileFormatError)


@pytest.mark.parametrize("flip", tiered([0x01, 0x80, 0xFF]))
def test_a_flipped_byte_is_never_taken_for_the_model(payload, model, tmp_path, flip):
    # Also in labels, name and sizes: a mutant that hashes the tensors alone loads "siver_swim".
    path = tmp_path / "flipped"
    refused = 0
    for place in range(0, len(payload), 3):
        damaged = bytearray(payload)
        damaged[place] ^= flip
        path.write_bytes(damaged)
        try:
            assert everything(MDP.load(path)) == everything(model)
        except OURS:
            refused += 1
    assert refused >= 0.99 * len(range(0, len(payload), 3))  # a space of padding may become another one


@pytest.mark.parametrize("length", [1, 8, 64])
def test_a_block_of_zeros_is_never_taken_for_the_model(payload, tmp_path, length):
    # What a crash of the machine leaves where a page was never written.
    path = tmp_path / "zeros"
    for place in range(0, len(payload) - length, 61):
        damaged = payload[:place] + bytes(length) + payload[place + length :]
        if damaged != payload:
            path.write_bytes(damaged)
            refusal(path)


def test_bytes_after_the_end_are_refused(payload, tmp_path):
    (tmp_path / "long").write_bytes(payload + b"\0")
    refusal(tmp_path / "long")


@pytest.mark.parametrize(
    "content",
    [b"", b"\0", b"hello, this is text\n" * 20, b"{}", b"PK\x03\x04" + bytes(100), bytes(5000), b"\xff" * 64,
     struct.pack("<Q", 2**63) + b"{}", struct.pack("<Q", 2) + b"{}"],
)  # fmt: skip
def test_a_file_of_something_else_is_refused(content, tmp_path):
    (tmp_path / "foreign").write_bytes(content)
    assert isinstance(refusal(tmp_path / "foreign"), FileFormatError)


@pytest.mark.parametrize("metadata", [None, {}, {"format": "pt"}])
def test_a_safetensors_file_of_another_program_is_refused(metadata, tmp_path):
    save_file({"weight": np.ones(3, np.float32)}, tmp_path / "net", metadata=metadata)
    assert "was not written by rhocover" in str(refusal(tmp_path / "net"))


@pytest.mark.parametrize("dtype", ["BF16", "F8_E4M3", "F16", "BOOL", "U8"])
def test_tensors_of_types_that_numpy_may_not_know_are_refused(dtype, tmp_path):
    size = {"BF16": 2, "F16": 2}.get(dtype, 1)
    head = json.dumps({"x": {"dtype": dtype, "shape": [1], "data_offsets": [0, size]}}).encode()
    (tmp_path / "odd").write_bytes(struct.pack("<Q", len(head)) + head + bytes(size))
    assert isinstance(refusal(tmp_path / "odd"), FileFormatError)


@pytest.mark.parametrize(
    "header", ["null", "[]", "3", '"text"', "{", "", "{}", '{"document": 3}', "[" * 100_000, "NaN"],
    ids=["null", "list", "number", "text", "broken", "empty", "nothing", "no document", "deep", "nan"],
)  # fmt: skip
def test_a_header_that_is_not_ours_is_refused(header, tmp_path):
    (tmp_path / "odd").write_bytes(save(tensors(), metadata={"rhocover": header}))
    assert isinstance(refusal(tmp_path / "odd"), FileFormatError)


def test_a_folder_and_a_missing_file_are_refused_by_name(tmp_path):
    for path in (tmp_path, tmp_path / "missing", tmp_path / "missing" / "deeper"):
        with pytest.raises(InvalidArgumentError, match="`path`: there is no file"):
            MDP.load(path)


def test_a_file_of_another_kind_is_refused_with_both_kinds(tmp_path):
    save_tensors(tmp_path / "plan", "plan", tensors(), document())
    with pytest.raises(FileFormatError, match="holds a 'plan', expected a 'mdp'"):
        MDP.load(tmp_path / "plan")


def rewritten(payload: bytes, **changes) -> bytes:
    """Returns the file with entries of its header changed, and everything else as it was."""
    size = struct.unpack("<Q", payload[:8])[0]
    head = json.loads(payload[8 : 8 + size])
    header = json.loads(head["__metadata__"]["rhocover"]) | changes
    head["__metadata__"]["rhocover"] = json.dumps(header, sort_keys=True)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + payload[8 + size :]


def test_a_header_written_again_unchanged_is_still_valid(payload, model, tmp_path):
    # So that the next test fails for the version and not for the rewriting.
    (tmp_path / "again").write_bytes(rewritten(payload))
    assert everything(MDP.load(tmp_path / "again")) == everything(model)


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_a_file_of_another_version_is_refused_with_the_version_that_wrote_it(payload, version, tmp_path):
    (tmp_path / "new").write_bytes(rewritten(payload, format=version, rhocover="9.9"))
    message = str(refusal(tmp_path / "new"))
    assert f"format {version!r}" in message
    assert "9.9" in message
    assert __version__ in message


@pytest.mark.parametrize(
    "changes", [{"sha256": "0" * 64}, {"sha256": None}, {"rhocover": "9.9"}, {"extra": 1}, {"document": {}}]
)
def test_nothing_in_the_header_can_change_without_notice(payload, changes, tmp_path):
    (tmp_path / "changed").write_bytes(rewritten(payload, **changes))
    with pytest.raises(FileFormatError, match="SHA-256"):
        MDP.load(tmp_path / "changed")


# --- whole files that hold no model -------------------------------------------------------------------


def test_the_smallest_model_is_read_from_its_tensors(tmp_path):
    # So that the next tests fail for what they change.
    save_tensors(tmp_path / "one", "mdp", tensors(), document())
    assert MDP.load(tmp_path / "one").fingerprint == MDP(np.ones((1, 1, 1))).fingerprint


@pytest.mark.parametrize(
    "changes",
    [
        {"data": None},
        {"indptr": None},
        {"pair_state": None},
        {"data": np.array([0.5])},
        {"data": np.array([np.nan])},
        {"data": np.array([-1.0])},
        {"data": np.array([1.0, 1.0])},
        {"data": np.array([True])},
        {"data": np.ones((1, 1))},
        {"data": np.ones(0)},
        {"data": np.ones(1, np.float16)},
        {"indices": np.array([1])},
        {"indices": np.array([-1])},
        {"indices": np.array([2**62])},
        {"indptr": np.array([0, 2])},
        {"indptr": np.array([1, 0])},
        {"indptr": np.array([0])},
        {"indptr": np.array([0, 2**62])},
        {"pair_state": np.array([1])},
        {"pair_state": np.array([-1])},
        {"pair_state": np.array([0, 0])},
        {"pair_state": np.zeros((1, 1), int)},
        {"pair_state": np.array([0.0])},
        {"pair_action": np.array([1])},
        {"pair_action": np.array([-1])},
        {"pair_action": np.zeros(0, int)},
        {"start": np.array([0.5])},
        {"start": np.array([1.0, 0.0])},
        {"positions": np.zeros(2)},
        {"positions": np.zeros((2, 2))},
        {"positions": np.array([[np.nan, 0]])},
        {"positions": np.zeros((1, 2)), "directions": np.zeros((2, 2))},
    ],
    ids=lambda changes: ", ".join(f"{k}={v}" for k, v in changes.items()),
)
def test_tensors_that_are_no_model_are_refused(changes, tmp_path):
    save_tensors(tmp_path / "odd", "mdp", tensors(**changes), document())
    assert isinstance(refusal(tmp_path / "odd"), InvalidModelError)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_states": 0},
        {"num_states": 2},
        {"num_states": -1},
        {"num_states": "many"},
        {"num_states": None},
        {"num_states": float("inf")},
        {"num_states": 10**12},
        {"num_states": 10**30},
        {"num_actions": 0},
        {"num_actions": 1.5},
        {"num_actions": None, "action_labels": ["a", "b"]},
        {"state_labels": ["a", "b"]},
        {"state_labels": 3},
        {"action_labels": "a"},
    ],
    ids=str,
)
def test_a_document_that_is_no_models_is_refused(changes, tmp_path):
    save_tensors(tmp_path / "odd", "mdp", tensors(), document(**changes))
    assert isinstance(refusal(tmp_path / "odd"), InvalidModelError)


@pytest.mark.parametrize("missing", list(document()))
def test_a_document_without_one_of_its_entries_is_refused(missing, tmp_path):
    rest = {key: value for key, value in document().items() if key != missing}
    save_tensors(tmp_path / "odd", "mdp", tensors(), rest)
    assert isinstance(refusal(tmp_path / "odd"), InvalidModelError)


# --- writing ------------------------------------------------------------------------------------------


def only_files(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_not_replaced_unless_asked(tmp_path):
    path = tmp_path / "model"
    first, second = MDP(np.ones((1, 1, 1))), MDP(np.ones((1, 2, 1)))
    first.save(path)
    with pytest.raises(InvalidArgumentError, match="overwrite=True"):
        second.save(path)
    assert MDP.load(path).fingerprint == first.fingerprint
    second.save(path, overwrite=True)
    assert MDP.load(path).fingerprint == second.fingerprint
    assert only_files(tmp_path) == ["model"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_is_never_replaced(tmp_path, overwrite):
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidArgumentError, match="is a folder"):
        write_atomically(tmp_path / "folder", b"new", overwrite=overwrite)
    assert only_files(tmp_path) == ["folder"]


def test_folders_on_the_way_are_made(tmp_path):
    write_atomically(tmp_path / "a" / "b" / "file", b"new")
    assert (tmp_path / "a" / "b" / "file").read_bytes() == b"new"


def test_the_longest_name_that_the_system_allows_can_be_written(tmp_path):
    # The temporary name must not be the longer one.
    for name in ("x" * 255, "ü" * 127):
        write_atomically(tmp_path / name, b"new")
        assert (tmp_path / name).read_bytes() == b"new"


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
@pytest.mark.parametrize(("mask", "expected"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_file_is_readable_as_the_callers_mask_allows(tmp_path, mask, expected):
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "file", b"new")
        assert os.umask(mask) == mask, "the mask itself is left as it was"
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == expected


class FullDiskError(OSError):
    def __init__(self, *_):
        super().__init__(errno.ENOSPC, "No space left on device")


class FailingFile:
    """A file whose disk is full after the first bytes."""

    def __init__(self, file):
        self.file = file

    def __enter__(self):
        return self

    def __exit__(self, *details):
        self.file.close()

    def write(self, payload):
        self.file.write(payload[:3])
        raise FullDiskError


def fail(*_, **__):
    raise FullDiskError


def interrupt(*_, **__):
    raise KeyboardInterrupt


def break_writing(monkeypatch, step, action):
    if step == "write":
        real = os.fdopen
        monkeypatch.setattr("rhocover.files.os.fdopen", lambda *args: FailingFile(real(*args)))
    else:
        monkeypatch.setattr(f"rhocover.files.os.{step}", action)


@pytest.mark.parametrize("action", [fail, interrupt])
@pytest.mark.parametrize("step", ["open", "write", "fsync", "replace"])
@pytest.mark.parametrize("is_new", [False, True])
def test_a_failure_while_writing_leaves_the_old_file_and_nothing_else(
    tmp_path, monkeypatch, step, action, is_new
):
    # Mutants: writing in place leaves 3 bytes; no clean-up leaves a temporary file.
    path = tmp_path / "model"
    if not is_new:
        path.write_bytes(b"old")
    break_writing(monkeypatch, step, action)
    with pytest.raises((FullDiskError, KeyboardInterrupt)):
        write_atomically(path, b"the new payload", overwrite=True)
    monkeypatch.undo()
    assert only_files(tmp_path) == ([] if is_new else ["model"])
    assert is_new or path.read_bytes() == b"old"


def test_the_payload_is_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    # A rename that overtakes its data leaves an empty file after a crash.
    events = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(handle):
        events.append(
            ("fsync", os.fstat(handle).st_size if stat.S_ISREG(os.fstat(handle).st_mode) else "folder")
        )
        real_fsync(handle)

    def replace(source, target):
        events.append(("replace", os.path.dirname(source) == os.path.dirname(target)))
        real_replace(source, target)

    monkeypatch.setattr("rhocover.files.os.fsync", fsync)
    monkeypatch.setattr("rhocover.files.os.replace", replace)
    write_atomically(tmp_path / "model", b"12345")
    assert events == [("fsync", 5), ("replace", True), ("fsync", "folder")]


def test_a_folder_that_cannot_be_opened_is_not_a_failure(tmp_path, monkeypatch):
    real = os.open

    def refuse_folders(path, flags, *rest, **named):
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, "no")
        return real(path, flags, *rest, **named)

    monkeypatch.setattr("rhocover.files.os.open", refuse_folders)
    write_atomically(tmp_path / "model", b"new")
    assert (tmp_path / "model").read_bytes() == b"new"


def test_a_reader_sees_the_old_file_or_the_new_one(tmp_path, monkeypatch):
    # At the last moment before the rename the old file is whole, and it is another file than the new one.
    path = tmp_path / "model"
    MDP(np.ones((1, 1, 1))).save(path)
    seen = []
    real = os.replace

    def replace(source, target):
        seen.append(MDP.load(target).num_actions)
        real(source, target)
        seen.append(MDP.load(target).num_actions)

    monkeypatch.setattr("rhocover.files.os.replace", replace)
    MDP(np.ones((1, 2, 1))).save(path, overwrite=True)
    assert seen == [1, 2]


# --- tensors and documents ----------------------------------------------------------------------------


def test_tensors_and_document_come_back_as_json_would_have_them(tmp_path):
    arrays = {
        "float": np.array([[0.1, np.nan], [-np.inf, 5e-324]]),
        "int": np.array([2**62, -1]),
        "none": np.zeros((0, 3)),
        "strided": np.arange(10.0)[::3],
        "transposed": np.arange(6.0).reshape(2, 3).T,
    }
    words = {
        "text": 'ü "quoted" \n',
        "tuple": (1, 2),
        "number": 0.1,
        "inf": float("inf"),
        10: "ten",
        9: "nine",
    }
    save_tensors(tmp_path / "file", "test", arrays, words)
    found, document = load_tensors(tmp_path / "file", "test")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    assert document == json.loads(json.dumps(words))


def test_the_digest_knows_names_types_shapes_and_bytes_but_not_the_order():
    a, b = np.arange(4.0), np.arange(4)
    assert tensor_digest({"a": a, "b": b}) == tensor_digest({"b": b, "a": a})
    different = [
        {"a": a, "b": b},
        {"b": a, "a": b},
        {"a": a},
        {"a": a.reshape(2, 2), "b": b},
        {"a": a, "b": b.astype(np.int32)},
        {"a": a.view(np.int64), "b": b},
        {"a": -a, "b": b},
    ]
    assert len({tensor_digest(item) for item in different}) == len(different)
