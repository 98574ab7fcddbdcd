"""Ctrl-C between steps, never within one.

`Interrupts` takes the place of the Ctrl-C handler for the length of a run. While `held` is true an
interrupt waits; otherwise it comes through at once, in the middle of planning if need be.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any


class Interrupts:
    """Lets Ctrl-C through only where everything stands still."""

    def __init__(self) -> None:
        self.held = False
        self._waiting: tuple[Any, ...] | None = None
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) is not None:  # one set from C could not be put back
            self._before = signal.signal(signal.SIGINT, self._caught)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if error is None:
            self._pass_on()

    def together(self, action: Callable[[], None]) -> None:
        """Does `action` as a whole, and then lets an interrupt through that came meanwhile."""
        self.held = True
        try:
            action()
        finally:
            self.held = False
        self._pass_on()

    def _caught(self, *signal_and_frame: Any) -> None:
        self._waiting = signal_and_frame
        if not self.held:
            self._pass_on()

    def _pass_on(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is None or self._before is signal.SIG_IGN:
            return
        if not callable(self._before):  # SIG_DFL would end the process: so does this, checkpoint first
            raise KeyboardInterrupt
        self._before(*waiting)
