"""Where a command computes: `--engine process[:N]` or `--engine ray --address HOST:PORT`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rhocover import engines
from rhocover.errors import InvalidArgumentError

NAMES = ("process", "ray")


@contextmanager
def open_engine(engine: str | None, address: str | None) -> Iterator[Any]:
    """Opens the engine that was named; None if none was."""
    if engine is None:
        if address is not None:
            raise InvalidArgumentError.of(
                "address", "is that of a Ray cluster, and no engine was named", remedy="Add --engine ray."
            )
        yield None
        return
    with _make(engine, address) as opened:
        yield opened


def _make(engine: str, address: str | None) -> Any:
    name, has_number, number = engine.partition(":")
    if name not in NAMES or (name == "ray" and has_number):
        raise InvalidArgumentError.of(
            "engine", "must be process, process:N or ray", repr(engine), remedy="Such as --engine process:4."
        )
    if name == "ray":
        return _ray(address)
    if address is not None:
        raise InvalidArgumentError.of(
            "address", "is that of a Ray cluster", remedy="Leave it out, or use --engine ray."
        )
    if has_number and not (number.isdecimal() and int(number[:9]) > 0):
        raise InvalidArgumentError.of(
            "engine", "must name a number of processes", repr(engine), remedy="Such as --engine process:4."
        )
    return engines.process(int(number) if has_number else None)


def _ray(address: str | None) -> Any:
    if address is None:
        raise InvalidArgumentError.of(
            "engine",
            "'ray' needs the address of a cluster",
            remedy="Add --address HOST:PORT, or --address local to start one on this machine.",
        )
    return engines.ray(address)
