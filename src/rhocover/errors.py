r"""Errors and warnings.

Every message names the argument as the caller wrote it, what was expected, what came, and how to fix it: the
fields of `InvalidArgumentError`. `str` writes names and calls as Python does; `text_in` writes them in
another dialect, so that the command line can name its own options. All classes derive from `RhocoverError`;
those about arguments are also `ValueError`s, so that code which does not know this library still catches
them. A message may quote a file or an environment; control characters of a terminal are shown in it as
`\x1b`. Errors and warnings can be sent between processes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, cast

from rhocover.printing import LINES, printable

if TYPE_CHECKING:
    from rhocover.planning import Plan


LONGEST_NAME = 60  # characters of a name in a sentence
LONGEST_NAMES = 240  # of names that begin and end alike
MOST_NAMED = 1500  # characters of a message about a file: a quoted text may have any length


@dataclass(frozen=True)
class Argument:
    """An argument in a message: `mu` in Python, `--mu` on the command line."""

    name: str

    def __str__(self) -> str:
        return f"`{self.name}`"


@dataclass(frozen=True)
class Setting:
    """An argument and its value as Python writes it: `restrict=True`, `--restrict` on the command line.

    `typed` is the value on the command line, if it is written differently there.
    """

    name: str
    value: str
    typed: str = ""

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


@dataclass(frozen=True)
class Call:
    """Code to write: `python` in a program, `typed` on the command line."""

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
    """Returns sentences as one text, separated by spaces."""
    return tuple(part for text in texts if text for part in (" ", *_parts(text)))[1:]


def _parts(text: Text) -> tuple[Part, ...]:
    if isinstance(text, Note):
        return text.parts
    return (text,) if isinstance(text, str) else text


class Note(str):
    """A sentence of a result, as Python writes it; `format_text` writes it in another dialect."""

    parts: tuple[Part, ...]

    def __new__(cls, *texts: Text) -> Self:
        """Returns the texts as one note, separated by spaces."""
        joined = join_texts(*texts)
        note = super().__new__(cls, format_text(joined))
        note.parts = _parts(joined)
        return note


class RhocoverError(Exception):
    """Base of all errors that this library raises on purpose; the message may be a `Text`.

    `where` is the file that the error is about.
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
        """Returns how to make the same error in another process, whatever arguments its class has."""
        kind, args, *state = cast("tuple[Any, ...]", super().__reduce__())
        return _made_again, (kind, args), *state


def _made_again(kind: type[RhocoverError], args: tuple[Any, ...]) -> RhocoverError:
    """Returns an error with these arguments; pickle sets its fields next, so `__init__` is not called."""
    if issubclass(kind, MemoryError):  # its `__new__` cannot make a subclass
        return kind(*args)
    return kind.__new__(kind, *args)


class RhocoverWarning(UserWarning):
    """Base of all warnings of this library."""

    def __str__(self) -> str:
        return printable(super().__str__(), keep=LINES)


class InvalidArgumentError(RhocoverError, ValueError):
    """An argument is not what was expected: "`argument` expected, got `got`. Remedy", or a message.

    `part` is named in the message instead of the argument, if the error is about a part: a column of `data`.
    """

    expected: Text = ""
    got: Text = ""
    part: str = ""

    def __init__(self, message: Text = "", *, argument: str = "", remedy: Text = "") -> None:
        super().__init__(format_text(message))
        self.message, self.argument, self.remedy = message, argument, remedy

    @classmethod
    def of(cls, argument: str, expected: Text, got: Text = "", remedy: Text = "") -> Self:
        """Returns the error about an argument; `expected` is a phrase such as "must be positive"."""
        name = re.split(r"\W", argument)[0]  # mu, if it is mu[1, 2]
        error = cls(argument=name, remedy=remedy)
        error.expected, error.got, error.part = expected, got, "" if name == argument else argument
        error.args = (error._text(str),)
        return error

    def rename(self, names: Mapping[str, str]) -> None:
        """Gives arguments other names, wherever they are in the message."""
        self.argument = names.get(self.argument, self.argument)
        for field in ("message", "expected", "got", "remedy"):
            parts = _parts(getattr(self, field))
            setattr(self, field, tuple(_renamed(part, names) for part in parts) if any(parts) else "")
        self.args = (self._text(str),)

    def add_remedy(self, more: Text) -> None:
        """Appends to the remedy."""
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


def _renamed(part: Part, names: Mapping[str, str]) -> Part:
    is_named = isinstance(part, Argument | Setting)
    return replace(part, name=names.get(part.name, part.name)) if is_named else part


class InvalidModelError(InvalidArgumentError):
    """The transition probabilities do not describe a Markov decision process."""


class NotCommunicatingError(InvalidArgumentError):
    """One trajectory cannot visit all pairs with a weight again and again."""

    def __init__(self, message: Text = "", pairs: Sequence[tuple[int, ...]] = (), **fields: Any) -> None:
        super().__init__(message, **fields)
        self.pairs = tuple(pairs)


class InfeasibleFloorError(InvalidArgumentError):
    """No occupancy gives every pair as much as the floor requires."""

    def __init__(self, message: Text, eta_max: float, **fields: Any) -> None:
        super().__init__(message, argument="eta", **fields)
        self.eta_max = eta_max


class InfeasibleConditionsError(InvalidArgumentError):
    """No policy meets the conditions of `subject_to`, or only those do that are best for one of them.

    `conditions` are the numbers of those that cannot be met together, `multipliers` (one for each) prove it:
    no policy has a positive sum of multipliers times slacks. `best` is the best possible value of the first
    of them, under the others.
    """

    def __init__(
        self,
        message: Text = "",
        conditions: Sequence[int] = (),
        best: float | None = None,
        multipliers: Sequence[float] = (),
        **fields: Any,
    ) -> None:
        super().__init__(message, **fields)
        self.conditions, self.best, self.multipliers = tuple(conditions), best, tuple(multipliers)


class UnknownNameError(InvalidArgumentError):
    """A name is not in the registry; the message lists similar names."""


class NotConvergedError(RhocoverError, RuntimeError):
    """The tolerance was not reached; `plan` is the best plan found."""

    def __init__(self, message: str, plan: Plan | None = None) -> None:
        super().__init__(message)
        self.plan = plan


class GapWarning(RhocoverWarning):
    """A plan's certified gap is larger than usual, but small enough for the plan to be returned."""


class SolverError(RhocoverError, RuntimeError):
    """A numerical back end failed; no partial result is used."""


class FileFormatError(RhocoverError, ValueError):
    """A file is damaged, not written by this library, or of a version that it cannot read."""


class CheckpointError(RhocoverError, OSError):
    """A checkpoint could not be written, or its folder is gone; earlier files are intact."""


class CheckpointWarning(RhocoverWarning):
    """A checkpoint is damaged or of another run; the one before it is used."""


class CacheWarning(RhocoverWarning):
    """Compiled code cannot be cached, so that every process compiles it again."""


class LockWarning(RhocoverWarning):
    """The file system has no locks, so nothing keeps a second process from writing to the folder."""


class WorkerWarning(RhocoverWarning):
    """A worker process was killed; another one replaced it, and the result is the same."""


class WorkerError(RhocoverError, RuntimeError):
    """What was sent to a worker failed as often as it may, or a worker could not start."""


class EnvironmentFailedError(RhocoverError, RuntimeError):
    """An environment raised an error, or violated its interface; the steps before are kept."""


class OutOfMemoryError(RhocoverError, MemoryError):
    """There was no memory left; the steps collected before are kept."""


class InvalidDataError(InvalidArgumentError):
    """A data set is not what was expected: a column, a type, a value, another environment.

    It is about `data` unless it names another argument.
    """

    def __init__(self, message: Text = "", *, argument: str = "data", remedy: Text = "") -> None:
        super().__init__(message, argument=argument, remedy=remedy)


class MissingExtraError(RhocoverError, ImportError):
    """An optional package is needed; the message gives the exact install line."""


def missing_extra(package: str, extra: str) -> MissingExtraError:
    """Returns the error for `package` of the optional group `extra`."""
    return MissingExtraError(
        f"`{package}` is not installed. Install it with: pip install 'rhocover[{extra}]'"
    )


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Adds the name of the file or folder to errors of this library that do not contain it."""
    try:
        yield
    except (InvalidArgumentError, FileFormatError) as error:
        name = printable(os.fspath(path))
        error.where = f"{name}: {error.where}" if error.where and name not in str(error) else name
        raise


@contextmanager
def inside(argument: str, *others: str) -> Iterator[None]:
    """Makes errors about a part of an argument, such as a column of `data`, errors about that argument.

    Errors about one of the `others`, arguments of the same call, are not changed.
    """
    try:
        yield
    except InvalidArgumentError as error:
        if error.argument not in (argument, *others):
            error.part, error.argument = error.part or error.argument, argument
        raise


@contextmanager
def calling(**names: str) -> Iterator[None]:
    """Renames arguments to the caller's names: `calling(model="env")` if `env` is passed as `model`."""
    try:
        yield
    except InvalidArgumentError as error:
        error.rename(names)
        raise


def shortened(text: Any, most: int = 300) -> str:
    """Returns the text, shortened in the middle if it is long, as a text from a file may be."""
    text = str(text)
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"


def short_name(name: Any) -> str:
    """Returns the name of a state or a pair for a sentence: a key may have any length."""
    return shortened(name, LONGEST_NAME)


def short_names(names: Sequence[Any]) -> list[str]:
    """Returns names for a list in a sentence; they are longer if different ones would read the same."""
    short = [short_name(name) for name in names]
    if len(set(short)) == len({str(name) for name in names}):
        return short
    return [shortened(name, LONGEST_NAMES) for name in names]


def unknown_name(kind: Text, name: Any, known: Sequence[str], *, argument: str = "") -> UnknownNameError:
    """Returns an error that suggests similar names and lists all names.

    `argument` is the kind by default.
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
