r"""What can go wrong, by name.

Every message names the argument as the caller wrote it, what was expected, what came, and the way out.
All classes derive from `RhocoverError`; those about arguments are also `ValueError`s, so that code which
does not know this library still catches them. A message may quote a file or an environment; what a terminal
would take for an order is shown in it as `\x1b`. Errors and warnings pass between processes as they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from rhocover.printing import LINES, printable

if TYPE_CHECKING:
    from rhocover.planning import Plan


class RhocoverError(Exception):
    """Base of everything this library raises on purpose."""

    def __str__(self) -> str:
        return printable(super().__str__(), keep=LINES)

    def __reduce__(self) -> tuple[Any, ...]:
        """Returns how to make the same error in another process, whatever its own arguments are."""
        kind, args, *state = cast("tuple[Any, ...]", super().__reduce__())
        return _made_again, (kind, args), *state


def _made_again(kind: type[RhocoverError], args: tuple[Any, ...]) -> RhocoverError:
    """Returns an error with these arguments; its fields are set next, so `__init__` is not asked."""
    if issubclass(kind, MemoryError):  # whose `__new__` makes no other kind
        return kind(*args)
    return kind.__new__(kind, *args)


class RhocoverWarning(UserWarning):
    """Base of everything this library warns of."""

    def __str__(self) -> str:
        return printable(super().__str__(), keep=LINES)


class InvalidArgumentError(RhocoverError, ValueError):
    """An argument is not what was expected."""


class InvalidModelError(InvalidArgumentError):
    """The transition probabilities do not describe a Markov decision process."""


class NotCommunicatingError(InvalidArgumentError):
    """Some weighted pairs cannot be visited for ever by one trajectory."""

    def __init__(self, message: str, pairs: Sequence[tuple[int, ...]] = ()) -> None:
        super().__init__(message)
        self.pairs = tuple(pairs)


class InfeasibleFloorError(InvalidArgumentError):
    """No occupancy gives every pair as much as the floor asks for."""

    def __init__(self, message: str, eta_max: float) -> None:
        super().__init__(message)
        self.eta_max = eta_max


class UnknownNameError(InvalidArgumentError):
    """A name is not in the registry; the message lists the near ones."""


class NotConvergedError(RhocoverError, RuntimeError):
    """The tolerance was not reached; `plan` holds what was reached."""

    def __init__(self, message: str, plan: Plan | None = None) -> None:
        super().__init__(message)
        self.plan = plan


class GapWarning(RhocoverWarning):
    """A plan's certified gap is larger than usual, and small enough to be handed over."""


class SolverError(RhocoverError, RuntimeError):
    """A numerical back end failed; nothing it left behind is used."""


class FileFormatError(RhocoverError, ValueError):
    """A file is damaged, foreign, or of a version this library cannot read."""


class CheckpointError(RhocoverError, OSError):
    """A checkpoint could not be written, or its folder is gone; what was written before is whole."""


class CheckpointWarning(RhocoverWarning):
    """A checkpoint is damaged or foreign; the one before it is used."""


class CacheWarning(RhocoverWarning):
    """Compiled code is not kept for the next process: each one compiles anew."""


class LockWarning(RhocoverWarning):
    """A folder cannot be locked where it is; nothing keeps a second process from writing to it."""


class WorkerWarning(RhocoverWarning):
    """A worker process was killed; others took its place, and the result is the same."""


class EnvironmentFailedError(RhocoverError, RuntimeError):
    """An environment raised, or broke its own contract; what was collected before is kept."""


class OutOfMemoryError(RhocoverError, MemoryError):
    """There was no memory left; what was collected before is kept."""


class InvalidDataError(InvalidArgumentError):
    """A data set is not what was expected: a column, a type, a value, another environment."""


class MissingExtraError(RhocoverError, ImportError):
    """An optional package is needed; the message gives the exact install line."""


def missing_extra(package: str, extra: str) -> MissingExtraError:
    """Returns the error for `package` of the optional group `extra`."""
    return MissingExtraError(
        f"`{package}` is not installed. Install it with: pip install 'rhocover[{extra}]'"
    )


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Names the file or folder in every error of ours about it that does not name it yet."""
    try:
        yield
    except (InvalidArgumentError, FileFormatError) as error:
        name = printable(os.fspath(path))
        said = str(error) if name in str(error) else f"{name}: {error}"
        error.args = (shortened(said, 1500), *error.args[1:])
        raise


def shortened(text: Any, most: int = 300) -> str:
    """Returns the text, cut in the middle if it is long: what a file says may be of any length."""
    text = str(text)
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"


def unknown_name(kind: str, name: Any, known: Sequence[str]) -> UnknownNameError:
    """Returns an error that names the near matches, or all names if none is near."""
    import difflib

    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5) if isinstance(name, str) else []
    hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
    came = repr(name) if isinstance(name, str) else f"(of type {type(name).__name__})"
    return UnknownNameError(f"unknown {kind} {came}. {hint}Known: {', '.join(sorted(map(str, known)))}.")
