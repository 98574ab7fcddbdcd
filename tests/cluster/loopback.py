"""Runs a Python script where nothing but loopback exists: `python tests/cluster/loopback.py SCRIPT ...`.

Ray's servers listen on the address by which the machine is reached. In a network of its own a process has
only loopback, so nobody else can reach them. Exits with 77 where the system does not allow such a network.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
from functools import cache

NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000  # of unshare(2)
GET_FLAGS, SET_FLAGS, UP = 0x8913, 0x8914, 0x1  # ioctls of network interfaces
IMPOSSIBLE = 77


def enter() -> None:
    """Moves this process into a network with loopback alone; raises OSError if that is not allowed."""
    system = ctypes.CDLL(None, use_errno=True)
    for flags in (NEW_NETWORK, NEW_USER | NEW_NETWORK):  # the second needs no rights, where it is allowed
        if system.unshare(flags) == 0:
            break
    else:
        raise OSError(ctypes.get_errno(), "no network of its own")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        name = b"lo".ljust(16, b"\0")
        found = fcntl.ioctl(any_socket, GET_FLAGS, struct.pack("16sh14x", name, 0))
        flags = struct.unpack("16sh14x", found)[1] | UP
        fcntl.ioctl(any_socket, SET_FLAGS, struct.pack("16sh14x", name, flags))


def run_alone(arguments: list[str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Returns the finished script, which saw loopback alone."""
    command = [sys.executable, __file__, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


@cache
def why_not() -> str:
    """Why Ray cannot be tested here; "" if it can."""
    if sys.platform != "linux":
        return "networks of their own are Linux's"
    try:
        import ray  # noqa: F401
    except ImportError:
        return "Ray is not installed: make test-ray"
    done = run_alone(["-c", "pass"], 60)
    return "this system allows no network of its own" if done.returncode == IMPOSSIBLE else ""


def main() -> None:
    """Enters the network and becomes the script."""
    try:
        enter()
    except OSError as error:
        print(error, file=sys.stderr)
        sys.exit(IMPOSSIBLE)
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])


if __name__ == "__main__":
    main()
