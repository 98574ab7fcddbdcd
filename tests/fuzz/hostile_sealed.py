"""Models, runs, comparisons and weights made to hurt: safetensors, NPY and JSON, each (rng, folder) -> path."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

from hostile_sets import in_its_place
from hostile_tables import Make, Rng, npy

import rhocover as rc

DEEP = 100_000


def model(folder: Path) -> Path:
    """Writes a whole model."""
    path = folder / "model.safetensors"
    rc.envs.river_swim(num_states=5).save(path)
    return path


def with_header(path: Path, header: bytes, data: bytes = b"") -> Path:
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)
    return path


def header_of(path: Path) -> tuple[dict[str, Any], bytes]:
    payload = path.read_bytes()
    size = struct.unpack("<Q", payload[:8])[0]
    return json.loads(payload[8 : 8 + size]), payload[8 + size :]


def long_header(rng: Rng, folder: Path) -> Path:
    path = folder / "model.safetensors"
    claim = (2**60, 2**63, 2**64 - 1, 10**11, 10**8, 8, 0)[int(rng.integers(7))]
    path.write_bytes(struct.pack("<Q", claim) + rng.bytes(int(rng.integers(200))))
    return path


def long_hollow_header(rng: Rng, folder: Path) -> Path:
    path = long_header(rng, folder)
    os.truncate(path, 2 ** int(rng.integers(31, 41)))
    return path


def hollow_tensor(rng: Rng, folder: Path) -> Path:
    """Writes a right header with a tensor of up to a terabyte of nothing."""
    path = model(folder)
    header, _ = header_of(path)
    number = 2 ** int(rng.integers(28, 37))
    tensors = {"x": {"dtype": "F64", "shape": [number], "data_offsets": [0, 8 * number]}}
    text = json.dumps({"__metadata__": header["__metadata__"]} | tensors).encode()
    with_header(path, text)
    os.truncate(path, 8 + len(text) + 8 * number)
    return path


def odd_offsets(rng: Rng, folder: Path) -> Path:
    path = model(folder)
    header, data = header_of(path)
    names = [name for name in header if name != "__metadata__"]
    chosen = header[names[int(rng.integers(len(names)))]]
    places = ([0, 2**62], [8, 0], [0, 0], [len(data), len(data) + 8], [-1, 8], [2**64, 2**65], [0, len(data)])
    chosen["data_offsets"] = places[int(rng.integers(len(places)))]
    return with_header(path, json.dumps(header).encode(), data)


def odd_shape(rng: Rng, folder: Path) -> Path:
    path = model(folder)
    header, data = header_of(path)
    names = [name for name in header if name != "__metadata__"]
    shapes = ([2**32, 2**32], [10**12], [-1], [0, 10**12], [], [1.5], [10**400], ["a"])
    header[names[int(rng.integers(len(names)))]]["shape"] = shapes[int(rng.integers(len(shapes)))]
    return with_header(path, json.dumps(header).encode(), data)


def names_twice(rng: Rng, folder: Path) -> Path:
    path = model(folder)
    header, data = header_of(path)
    name = next(key for key in header if key != "__metadata__")
    text = json.dumps(header)
    return with_header(path, f'{text[:-1]}, "{name}": {json.dumps(header[name])}}}'.encode(), data)


def odd_metadata(rng: Rng, folder: Path) -> Path:
    path = model(folder)
    header, data = header_of(path)
    words = ("[" * DEEP, '{"a":' * DEEP, "1" * 5000, '"\\ud800"', '{"document": {}, "kind": "\\ud800", "format": 1}', "NaN", '{"document": {}, "format": 1e999}',
             '{"document": {}, "format": ' + "9" * 400 + "}", "[" + "[]," * 10**6 + "[]]")  # fmt: skip
    header["__metadata__"]["rhocover"] = words[int(rng.integers(len(words)))]
    return with_header(path, json.dumps(header).encode(), data)


def trailing(rng: Rng, folder: Path) -> Path:
    path = model(folder)
    with path.open("ab") as file:
        file.write(rng.bytes(int(rng.integers(1, 1000))))
    return path


def model_in_its_place(rng: Rng, folder: Path) -> Path:
    path = model(folder)
    in_its_place(rng, path, folder)
    return path


def run_in_its_place(rng: Rng, folder: Path) -> Path:
    path = folder / "run"
    rc.explore(
        rc.envs.river_swim(num_states=5), rho=2.0, num_steps=50, explorer="tracking", trace_points=1, out=path
    )
    files = sorted(place for place in path.iterdir() if place.suffix == ".safetensors")
    for place in files if rng.random() < 0.3 else [files[int(rng.integers(len(files)))]]:
        in_its_place(rng, place, folder)
        (folder / "kept").unlink(missing_ok=True)
    return path


def comparison_of(rng: Rng, folder: Path) -> Path:
    path = folder / "compared"
    path.mkdir()
    make = (long_header, odd_shape, hollow_tensor, model_in_its_place, trailing)[int(rng.integers(5))]
    make(rng, path).rename(path / "comparison.safetensors")
    return path


def collection(rng: Rng, folder: Path) -> Path:
    texts = (
        b"[" * DEEP, b'{"dataset_id": "../x"}', b'{"dataset_id": "/etc"}', b'{"dataset_id": "\\ud800"}', b'{"dataset_id": ' + b"9" * 5000 + b"}",
        b'{"dataset_id": "a\\u0000"}', b"{}", b'{"dataset_id": "x", "format": 1e400}', b'{"versions": {"rhocover": "\\udfff"}, "format": 2}',
    )  # fmt: skip
    path = folder / "collected"
    path.mkdir()
    name = ("collection.json", "manifest.json")[
        int(rng.integers(2))
    ]  # of the first format, and of the second
    (path / name).write_bytes(texts[int(rng.integers(len(texts)))])
    if rng.random() < 0.3:
        in_its_place(rng, path / name, folder)
    return path


def weights(rng: Rng, folder: Path) -> Path:
    """Writes weights for --mu: arrays that claim, and text without end."""
    way = int(rng.integers(6))
    path = folder / ("mu.npy" if way < 4 else "mu.csv")
    shape = ((10**12, 2), (10**9, 2), (5, 10**8), (5, 2))[min(way, 3)]
    path.write_bytes(npy(shape, "<f8", bytes(80)) if way < 4 else b"1," * 2 ** int(rng.integers(16, 21)))
    if way in (1, 2, 5):
        os.truncate(path, 2**36)
    return path


SEALED: dict[str, Make] = {
    make.__name__: make
    for make in (
        long_header, long_hollow_header, hollow_tensor, odd_offsets, odd_shape, names_twice, odd_metadata, trailing,
        model_in_its_place,
    )
}  # fmt: skip
