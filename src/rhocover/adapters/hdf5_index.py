"""The root of an HDF5 file: which episode begins where, as the format's oldest kind of group.

A group of this kind is a heap of names, leaves with up to 2k entries (name, address) in the order of the
names, and a B-tree above them (HDF5 File Format Specification 3.0, II.A, III.A.1, III.B, III.D). All of it
is made at once when the addresses are known, from the bottom up. The library can add to it afterwards.
"""

from __future__ import annotations

import struct

import numpy as np

from rhocover.adapters.hdf5_messages import UNDEFINED, fixed, message, object_header

SUPERBLOCK_BYTES = 96
LEAF_K, TREE_K = 32, 64  # half of what a leaf and a tree node hold: 2^20 episodes fit below two tree levels
NOWHERE = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
ENTRY = np.dtype([("name", "<u8"), ("header", "<u8"), ("cache", "<u4"), ("_", "<u4"), ("scratch", "V16")])
LEAF = np.dtype([("head", "V6"), ("count", "<u2"), ("entries", ENTRY, (2 * LEAF_K,))])
NODE = np.dtype(
    [
        ("signature", "V4"),
        ("kind", "u1"),  # 0: a tree of a group's names
        ("level", "u1"),
        ("count", "<u2"),
        ("left", "<u8"),
        ("right", "<u8"),
        ("pairs", [("key", "<u8"), ("child", "<u8")], (2 * TREE_K,)),
        ("last", "<u8"),
    ]
)


def root_group(addresses: np.ndarray, position: int) -> tuple[bytes, bytes]:
    """Returns (bytes to write at `position`, superblock): a file of groups episode_0, episode_1, ..."""
    names = np.array([f"episode_{number}" for number in range(len(addresses))], dtype="S24")
    order = np.argsort(names, kind="stable")
    heap = _heap(names, position)
    offsets = 8 + names.dtype.itemsize * order
    leaves, where, last = _leaves(offsets, addresses[order], position + len(heap))
    tree, root = _tree(where, last, position + len(heap) + len(leaves))
    body = heap + leaves + tree
    table = struct.pack("<QQ", root, position)
    header = object_header([message(0x0011, fixed(table))]).data
    return body + header, superblock(position + len(body), table, position + len(body) + len(header))


def superblock(root: int, table: bytes, end: int) -> bytes:
    """Returns the first 96 bytes of the file (II.A, version 0): where its root group and its end are."""
    versions = struct.pack("<8sBBBxBBBx", b"\x89HDF\r\n\x1a\n", 0, 0, 0, 0, 8, 8)
    shape = struct.pack("<HHIQ", LEAF_K, TREE_K, 0, 0) + UNDEFINED + struct.pack("<Q", end) + UNDEFINED
    return versions + shape + struct.pack("<QQII", 0, root, 1, 0) + table


def _heap(names: np.ndarray, position: int) -> bytes:
    """Returns the names, each in 24 bytes behind an empty one at 0, and their heap's header before them."""
    data = bytes(8) + names.tobytes()
    no_free_space = 1  # III.D calls it the offset of the free list; the library writes 1 where there is none
    return struct.pack("<4sB3xQQQ", b"HEAP", 0, len(data), no_free_space, position + 32) + data


def _parts(count: int, size: int) -> np.ndarray:
    """Returns boundaries of equal shares of at most `size`: one share, or each at least half full."""
    return np.linspace(0, count, -(-count // size) + 1).astype(np.int64)


def _leaves(names: np.ndarray, headers: np.ndarray, position: int) -> tuple[bytes, np.ndarray, np.ndarray]:
    """Returns (bytes, address of each leaf, name that ends it)."""
    bounds = _parts(len(names), 2 * LEAF_K)
    leaves = np.zeros(len(bounds) - 1, LEAF)
    leaves["head"] = np.frombuffer(b"SNOD\x01\0", "V6")
    leaves["count"] = np.diff(bounds)
    row = np.repeat(np.arange(len(leaves)), np.diff(bounds))
    place = np.arange(len(names)) - bounds[row]
    leaves["entries"]["name"][row, place] = names
    leaves["entries"]["header"][row, place] = headers
    where = position + LEAF.itemsize * np.arange(len(leaves))
    return leaves.tobytes(), where, names[bounds[1:] - 1]


def _tree(children: np.ndarray, last: np.ndarray, position: int) -> tuple[bytes, int]:
    """Returns (bytes of all levels, address of the root); `last` are the greatest names below each child."""
    data, level = b"", 0
    while level == 0 or len(children) > 1:
        nodes, children, last = _tree_level(children, last, level, position + len(data))
        data += nodes
        level += 1
    return data, int(children[0])


def _tree_level(
    children: np.ndarray, last: np.ndarray, level: int, position: int
) -> tuple[bytes, np.ndarray, np.ndarray]:
    """Returns (bytes, addresses, greatest names) of the nodes above `children`.

    A node of n children has n + 1 keys; child i holds names above key i and up to key i + 1.
    """
    bounds = _parts(len(children), 2 * TREE_K)
    nodes = np.zeros(len(bounds) - 1, NODE)
    where = position + NODE.itemsize * np.arange(len(nodes))
    nodes["signature"], nodes["level"] = np.frombuffer(b"TREE", "V4"), level
    nodes["count"] = np.diff(bounds)
    nodes["left"] = np.concatenate([[NOWHERE], where[:-1].astype(np.uint64)])
    nodes["right"] = np.concatenate([where[1:].astype(np.uint64), [NOWHERE]])
    before = np.concatenate([[0], last])  # before the first name stands the empty one, at 0 of the heap
    for node, begin, end in zip(nodes, bounds[:-1], bounds[1:], strict=True):
        keys, count = before[begin : end + 1], end - begin
        node["pairs"]["child"][:count] = children[begin:end]
        node["pairs"]["key"][:count] = keys[:-1]
        if count < 2 * TREE_K:
            node["pairs"]["key"][count] = keys[-1]
        else:
            node["last"] = keys[-1]
    return nodes.tobytes(), where, last[bounds[1:] - 1]
