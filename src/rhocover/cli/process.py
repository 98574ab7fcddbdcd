"""One process that runs one command: its signals, streams and warnings.

Ctrl-C ends the process with exit code 130 and the word `interrupted` at any time. While packages are loaded,
and after the command is done, there is nothing to clean up and the process ends immediately: an exception
would pass through the start or the end of other packages, which may drop it or print it. In between, Ctrl-C
is a `KeyboardInterrupt`, so that files are cleaned up; if other code turns it into another error, it still
counts as an interruption.

Each warning is one line on stderr. Control characters in warnings and in tracebacks, which mean a bug, are
shown and not executed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

from rhocover.printing import LINES, printable, put

INTERRUPTED = 130
WORD = "interrupted\n"
A_MOMENT = 0.01  # seconds: by then, the callback that could not pass Ctrl-C on has returned
_came: list[int] = []  # the SIGINT signals received so far


def run(args: Sequence[str] | None) -> NoReturn:
    """Runs one command and exits; if a package is missing or broken, says which one and how to fix it.

    A program that calls it with arguments continues afterwards, with its own handler of Ctrl-C restored.
    """
    before = _leave if args is None else signal.getsignal(signal.SIGINT)
    try:
        _answer(_leave)
        _prepare()
        main = _load()
        _answer(_interrupt)
        main(args)
    except BaseException as error:
        _answer(before)
        if not _came and not isinstance(error, KeyboardInterrupt):
            sys.excepthook = _show_defect  # the parser has replaced it
            raise
        if not (
            isinstance(error, SystemExit) and error.code == INTERRUPTED
        ):  # otherwise it has been printed already
            put(sys.stderr, WORD)
        sys.exit(INTERRUPTED)
    sys.exit()


def _answer(handler: Any) -> None:
    """Sets the handler of Ctrl-C, unless it is ignored (`nohup`) or foreign, or outside the main thread."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _leave, _interrupt):
        signal.signal(signal.SIGINT, handler)


def _leave(*_: Any) -> NoReturn:
    """Ends the process immediately: nothing has started yet, or everything is done."""
    with suppress(OSError):
        os.write(2, WORD.encode())
    os._exit(INTERRUPTED)


def _interrupt(number: int, *_: Any) -> NoReturn:
    _came.append(number)
    raise KeyboardInterrupt


def _prepare() -> None:
    """Sets up streams and warnings before loading anything that may use them."""
    _open_streams()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  characters the terminal cannot show become ?
    warnings.showwarning = _show_warning
    sys.excepthook, sys.unraisablehook = _show_defect, _unraisable


def _open_streams() -> None:
    """Reopens streams that the caller closed (`2>&-`): else the next opened file would get the output."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _load() -> Any:
    try:
        from rhocover.cli.app import main
    except (ImportError, RuntimeError) as error:
        from rhocover.diagnosis.packages import loading_failure

        put(sys.stderr, f"error: {printable(loading_failure(error))}\n")
        sys.exit(1)
    return main


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    from rhocover.cli.output import one_line

    with suppress(OSError, ValueError):
        put(sys.stderr, f"warning: {one_line(message)}\n")


def _show_defect(kind: Any, error: Any, trace: Any) -> None:
    import traceback

    with suppress(OSError, ValueError):
        put(sys.stderr, printable("".join(traceback.format_exception(kind, error, trace)), keep=LINES))


def _unraisable(failed: Any) -> None:
    """Passes on a Ctrl-C that was raised in a callback; prints other errors there, as Python does."""
    if issubclass(failed.exc_type, KeyboardInterrupt):
        threading.Thread(target=_again, daemon=True).start()
    else:
        sys.__unraisablehook__(failed)


def _again() -> None:
    time.sleep(A_MOMENT)
    if hasattr(signal, "pthread_kill"):  # to the main thread itself, which may be blocked
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        signal.raise_signal(signal.SIGINT)
