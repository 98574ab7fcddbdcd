"""What is no plain file is told before it is opened, and no text is longer than what is asked for."""

from __future__ import annotations

import json
import os
import socket
import struct

import pytest

import rhocover as rc
from rhocover import files
from rhocover.errors import FileFormatError, InvalidArgumentError
from rhocover.files import load_document

LINUX = pytest.mark.skipif(os.name != "posix", reason="pipes and holes are POSIX's")


@pytest.fixture
def model(tmp_path):
    """Returns the file of a small model."""
    rc.envs.river_swim(num_states=3).save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def listening(place):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(place))


@LINUX
@pytest.mark.parametrize(
    ("put", "words"),
    [
        (os.mkfifo, "it is a pipe, expected a file"),
        (os.mkdir, "it is a folder, expected a file"),
        (listening, "it is a socket, expected a file"),
        (lambda place: os.symlink("/dev/zero", place), "it is a device, expected a file"),
    ],
)
def test_what_is_no_file_is_told_by_its_kind(tmp_path, monkeypatch, put, words):
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "it"
    put(place)
    with pytest.raises(ValueError, match=words):
        files.check_plain(place)
    with pytest.raises(FileFormatError, match=f"it` is damaged: {words}"):
        load_document(place)
    with pytest.raises(InvalidArgumentError, match="there is no file"):
        rc.MDP.load(place)


@LINUX
@pytest.mark.parametrize("size", [2**31, 2**40])
def test_a_file_of_holes_is_refused_before_it_is_read(model, size):
    payload = model.read_bytes()
    header = json.loads(payload[8 : 8 + struct.unpack("<Q", payload[:8])[0]])
    tensor = {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}
    text = json.dumps({"__metadata__": header["__metadata__"], "x": tensor}).encode()
    model.write_bytes(struct.pack("<Q", len(text)) + text)
    os.truncate(model, 8 + len(text) + size)
    with pytest.raises(
        FileFormatError, match=rf"it claims {8 + len(text) + size} bytes, of which \d+ are on"
    ):
        rc.MDP.load(model)


@LINUX
def test_a_large_file_that_is_on_the_disk_and_a_small_one_of_holes_are_files(tmp_path, monkeypatch):
    place = tmp_path / "it"
    place.write_bytes(b"x" * 8192)
    monkeypatch.setattr(files, "LARGE", 1000)
    assert files.check_plain(place) == 8192
    monkeypatch.setattr(files, "LARGE", 10**9)
    os.truncate(place, 10**8)
    assert files.check_plain(place) == 10**8


def test_a_document_has_a_largest_size(tmp_path, monkeypatch):
    place = tmp_path / "it.json"
    place.write_text(json.dumps({"a": "x" * 100}))
    assert load_document(place) == {"a": "x" * 100}
    monkeypatch.setattr(files.read_text, "__defaults__", (100,))
    with pytest.raises(FileFormatError, match="it has more than 100 bytes"):
        load_document(place)


@pytest.mark.parametrize("text", [r'{"a": "\ud800"}', r'{"\uDFFF": 1}', r'{"a": [{"b": "x\udc00\ud800"}]}'])
def test_half_a_letter_is_no_text(tmp_path, text):
    (tmp_path / "it.json").write_text(text)
    with pytest.raises(FileFormatError, match="half a character") as refused:
        load_document(tmp_path / "it.json")
    str(refused.value).encode()


def test_both_halves_of_a_letter_are_one(tmp_path):
    (tmp_path / "it.json").write_text(r'{"a": "\ud83d\ude00", "b": "\\ud800"}')
    assert load_document(tmp_path / "it.json") == {"a": "\U0001f600", "b": r"\ud800"}


def test_a_header_with_half_a_letter_is_refused_in_words_that_can_be_printed(model):
    payload = model.read_bytes()
    header = json.loads(payload[8 : 8 + struct.unpack("<Q", payload[:8])[0]])
    header["__metadata__"]["rhocover"] = r'{"document": {}, "format": 1, "kind": "\ud800"}'
    text = json.dumps({"__metadata__": header["__metadata__"]}).encode()
    model.write_bytes(struct.pack("<Q", len(text)) + text)
    with pytest.raises(FileFormatError, match="half a character") as refused:
        rc.MDP.load(model)
    str(refused.value).encode()
