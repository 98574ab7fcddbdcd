r"""What can go wrong, by name.

Every message names the argument as the caller wrote it, what was expected, what came, and the way out: the
fields of `InvalidArgumentError`. `str` writes them as Python does, `text_in` as another dialect, by which the
command line names its own options. All classes derive from `RhocoverError`; those about arguments are also
`ValueError`s, so that code which does not know this library still catches them. A message may quote a file or
an environment; what a terminal would take for an order is shown in it as `\x1b`. Errors and warnings pass
between processes as they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast

from rhocover.printing import LINES, printable

if TYPE_CHECKING:
    from rhocover.planning import Plan


MOST_NAMED = 1500  # letters of a message about a file: what a file says may be of any length


@dataclass(frozen=True)
class Argument:
    """An argument that a message speaks of: `mu` in Python, `--mu` on the command line."""

    name: str

    def __str__(self) -> str:
        return f"`{self.name}`"


@dataclass(frozen=True)
class Setting:
    """An argument and its value as Python writes it: `restrict=True`, `--restrict` on the command line."""

    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


@dataclass(frozen=True)
class Call:
    """What to write: `python` in a program, `typed` on the command line."""

    python: str
    typed: str

    def __str__(self) -> str:
        return self.python


Part = str | Argument | Setting | Call
Text = str | tuple[Part, ...]
Dialect = Callable[[Part], str]


def parse_text(text: str) -> Text:
    """Returns a text in which `name` in backticks is an argument, and `name=value` a setting."""
    pieces = re.split(r"`(\w+)(?:=([^`]+))?`", text)
    named = zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True)
    parts = ((Setting(name, value) if value else Argument(name), rest) for name, value, rest in named)
    return pieces[0], *(part for pair in parts for part in pair)


def format_text(text: Text, dialect: Dialect = str) -> str:
    """Returns the text as Python writes it, or as another dialect does."""
    return (
        text if isinstance(text, str) and not isinstance(text, Note) else "".join(map(dialect, _parts(text)))
    )


def join_texts(*texts: Text) -> Text:
    """Returns sentences as one text, with blanks between them."""
    return tuple(part for text in texts if text for part in (" ", *_parts(text)))[1:]


def _parts(text: Text) -> tuple[Part, ...]:
    if isinstance(text, Note):
        return text.parts
    return (text,) if isinstance(text, str) else text


class Note(str):
    """A sentence of a result, as Python writes it; `format_text` writes it in another dialect."""

    parts: tuple[Part, ...]

    def __new__(cls, *texts: Text) -> Self:
        """Returns the texts as one note, with blanks between them."""
        joined = join_texts(*texts)
        note = super().__new__(cls, format_text(joined))
        note.parts = _parts(joined)
        return note


class RhocoverError(Exception):
    """Base of everything this library raises on purpose: a message, which may be a `Text`.

    `where` is the file that it is about.
    """

    where: str = ""

    def __str__(self) -> str:
        return self.text_in(str)

    def text_in(self, dialect: Dialect) -> str:
        """Returns the message, with arguments and calls as the dialect writes them."""
        text = printable(self._text(dialect), keep=LINES)
        if not self.where:
            return text
        return shortened(text if self.where in text else f"{self.where}: {text}", MOST_NAMED)

    def _text(self, dialect: Dialect) -> str:
        first = self.args[0] if len(self.args) == 1 else None
        return format_text(first, dialect) if isinstance(first, tuple) else super().__str__()

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
    """An argument is not what was expected: "`argument` expected, got `got`. Remedy", or a message.

    `part` is what the message names where it is not the argument itself: a column of `data`.
    """

    expected: Text = ""
    got: Text = ""
    part: str = ""

    def __init__(self, message: Text = "", *, argument: str = "", remedy: Text = "") -> None:
        super().__init__(format_text(message))
        self.message, self.argument, self.remedy = message, argument, remedy

    @classmethod
    def of(cls, argument: str, expected: Text, got: Text = "", remedy: Text = "") -> Self:
        """Returns the error of an argument; `expected` is what is said of it: "must be positive"."""
        name = re.split(r"\W", argument)[0]  # of mu[1, 2]
        error = cls(argument=name, remedy=remedy)
        error.expected, error.got, error.part = expected, got, "" if name == argument else argument
        error.args = (error._text(str),)
        return error

    def rename(self, names: Mapping[str, str]) -> None:
        """Gives arguments other names, wherever the message speaks of them."""
        self.argument = names.get(self.argument, self.argument)
        for field in ("message", "expected", "got", "remedy"):
            parts = _parts(getattr(self, field))
            renamed = (Argument(names.get(p.name, p.name)) if isinstance(p, Argument) else p for p in parts)
            setattr(self, field, tuple(renamed) if any(parts) else "")
        self.args = (self._text(str),)

    def add_remedy(self, more: Text) -> None:
        """Says more of the way out."""
        self.remedy = join_texts(self.remedy, more)
        self.args = (self._text(str),)

    @property
    def text(self) -> tuple[Part, ...]:
        """The whole message, in parts."""
        return _parts(join_texts(self.message or self._sentence(), self.remedy))

    def _sentence(self) -> Text:
        expected, got = _parts(self.expected), (", got ", *_parts(self.got)) if self.got else ()
        blank = "" if str(expected[0]).startswith(":") else " "
        return Argument(self.part or self.argument), blank, *expected, *got, "."

    def _text(self, dialect: Dialect) -> str:
        return format_text(self.text, dialect)


class InvalidModelError(InvalidArgumentError):
    """The transition probabilities do not describe a Markov decision process."""


class NotCommunicatingError(InvalidArgumentError):
    """Some weighted pairs cannot be visited for ever by one trajectory."""

    def __init__(self, message: Text = "", pairs: Sequence[tuple[int, ...]] = (), **fields: Any) -> None:
        super().__init__(message, **fields)
        self.pairs = tuple(pairs)


class InfeasibleFloorError(InvalidArgumentError):
    """No occupancy gives every pair as much as the floor asks for."""

    def __init__(self, message: Text, eta_max: float) -> None:
        super().__init__(message, argument="eta")
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
        error.where = f"{name}: {error.where}" if error.where and name not in str(error) else name
        raise


@contextmanager
def inside(argument: str, *others: str) -> Iterator[None]:
    """Says of an error about a part of an argument, such as a column of `data`, that it is about that one.

    What is about one of the `others`, arguments of the same call, stays so.
    """
    try:
        yield
    except InvalidArgumentError as error:
        if error.argument not in (argument, *others):
            error.part, error.argument = error.part or error.argument, argument
        raise


@contextmanager
def calling(**names: str) -> Iterator[None]:
    """Names arguments as the caller knows them: `calling(model="env")` where `env` is passed as `model`."""
    try:
        yield
    except InvalidArgumentError as error:
        error.rename(names)
        raise


def shortened(text: Any, most: int = 300) -> str:
    """Returns the text, cut in the middle if it is long: what a file says may be of any length."""
    text = str(text)
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"


def unknown_name(kind: Text, name: Any, known: Sequence[str], *, argument: str = "") -> UnknownNameError:
    """Returns an error that names the near matches, or all names if none is near.

    The argument is the kind, if it is not said.
    """
    import difflib

    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5) if isinstance(name, str) else []
    hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
    came = repr(name) if isinstance(name, str) else f"(of type {type(name).__name__})"
    return UnknownNameError(
        join_texts("unknown", kind, f"{came}."),
        argument=argument or format_text(kind),
        remedy=f"{hint}Known: {', '.join(sorted(map(str, known)))}.",
    )
