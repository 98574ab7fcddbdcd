"""One process that runs one command: its signals, its streams, its warnings.

Ctrl-C ends it with 130 and the word `interrupted`, whenever it comes. While packages are loaded, and when the
command is done, nothing is to be put in order and the process ends on the spot: an exception would run
through the start or the end of foreign packages, which may drop it or print it. In between it is a
`KeyboardInterrupt`, so that files are put in order; where foreign code turned it into another error, it is
still an interruption.

Warnings are one line on stderr each. A traceback, which means a defect, obeys no more than they do.
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
A_MOMENT = 0.01  # seconds: by then the callback has returned that could not pass Ctrl-C on
_came: list[int] = []  # the signals of Ctrl-C, as they came


def run(args: Sequence[str] | None) -> NoReturn:
    """Runs one command and exits; where a package is missing or broken, says which and the way out.

    A program that calls it with arguments goes on afterwards, and has its own answer to Ctrl-C back.
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
            sys.excepthook = _show_defect  # the parser has put its own there
            raise
        if not (isinstance(error, SystemExit) and error.code == INTERRUPTED):  # it has been said, then
            put(sys.stderr, WORD)
        sys.exit(INTERRUPTED)
    sys.exit()


def _answer(handler: Any) -> None:
    """Sets what Ctrl-C does, unless it is ignored (`nohup`) or somebody else's, or this is no main thread."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _leave, _interrupt):
        signal.signal(signal.SIGINT, handler)


def _leave(*_: Any) -> NoReturn:
    """Ends the process where it stands: nothing has begun, or all is done."""
    with suppress(OSError):
        os.write(2, WORD.encode())
    os._exit(INTERRUPTED)


def _interrupt(number: int, *_: Any) -> NoReturn:
    _came.append(number)
    raise KeyboardInterrupt


def _prepare() -> None:
    """Sets up streams and warnings before anything is loaded that may use them."""
    _open_streams()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  a letter that a terminal lacks is ?
    warnings.showwarning = _show_warning
    sys.excepthook, sys.unraisablehook = _show_defect, _unraisable


def _open_streams() -> None:
    """Opens what the caller closed (`2>&-`): the next file would take its number, and get what is printed."""
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
    """Passes Ctrl-C on that came in a callback, which cannot; prints whatever else did, as Python does."""
    if issubclass(failed.exc_type, KeyboardInterrupt):
        threading.Thread(target=_again, daemon=True).start()
    else:
        sys.__unraisablehook__(failed)


def _again() -> None:
    time.sleep(A_MOMENT)
    if hasattr(signal, "pthread_kill"):  # to the main thread itself, which may be waiting for something
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        signal.raise_signal(signal.SIGINT)
