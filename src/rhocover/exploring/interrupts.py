r"""Ctrl-C between steps, never within one; unless it is pressed again.

`Interrupts` takes the place of the Ctrl-C handler for the length of a run. While `held` is true an
interrupt waits; otherwise it comes through at once, in the middle of planning if need be.

What is held is short, but for what somebody else wrote: a step of an environment may never end. So the second
Ctrl-C comes through inside of it (`is_foreign` says whether that is where we are), and what was done before
that step is kept. Where even that is not heard, because the step is in C code that does not come back to
Python, a thread ends the process with the code of an interrupt, 130: what is on disk is whole at any time.
C code that also keeps Python's lock stops every thread; then only Ctrl-\ or `kill` is left.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

INTERRUPTED = 130  # what shells say of a process that Ctrl-C ended
DEAF = 1.0  # seconds in which Python code would have heard, also on a busy machine; pressed twice in vain
LAST_WORDS = b"\nrhocover: interrupted in code that does not come back; what is on disk is whole.\n"


class Interrupts:
    """Lets Ctrl-C through only where everything stands still, or inside code of others if pressed twice."""

    def __init__(self, is_foreign: Callable[[FrameType | None], bool] | None = None) -> None:
        self.held = False
        self._is_foreign = is_foreign
        self._waiting: tuple[Any, ...] | None = None
        self._before: Any = None
        self._watch: _Watch | None = None

    def __enter__(self) -> Interrupts:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) is not None:  # one set from C could not be put back
            self._before = signal.signal(signal.SIGINT, self._caught)
            if self._is_foreign is not None and self._before is not signal.SIG_IGN:
                self._watch = _Watch(lambda: self.held)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watch is not None:
            self._watch.close()
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

    def _caught(self, number: int, frame: FrameType | None) -> None:
        if self._watch is not None:
            self._watch.answered.set()
        is_second, self._waiting = self._waiting is not None, (number, frame)
        if not self.held or (is_second and self._is_foreign is not None and self._is_foreign(frame)):
            self._pass_on()

    def _pass_on(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is None or self._before is signal.SIG_IGN:
            return
        if not callable(self._before):  # SIG_DFL would end the process: so does this, checkpoint first
            raise KeyboardInterrupt
        self._before(*waiting)


class _Watch:
    """A thread that hears of each Ctrl-C from the system, and ends a process that was deaf to two of them."""

    def __init__(self, is_held: Callable[[], bool]) -> None:
        self._is_held, self.answered = is_held, threading.Event()
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._is_ours = before == -1
        if not self._is_ours:  # somebody else listens, an event loop for one: leave it to them
            signal.set_wakeup_fd(before)
        self._thread = threading.Thread(target=self._listen, daemon=True, name="rhocover-interrupts")
        self._thread.start()

    def _listen(self) -> None:
        in_vain = 0
        while heard := self._reader.recv(1):
            if heard[0] != signal.SIGINT:
                continue
            is_heard = self.answered.wait(DEAF)
            self.answered.clear()
            in_vain = 0 if is_heard or not self._is_held() else in_vain + 1
            if in_vain == 2:
                os.write(2, LAST_WORDS)
                os._exit(INTERRUPTED)

    def close(self) -> None:
        """Ends the thread."""
        if self._is_ours:
            signal.set_wakeup_fd(-1)
        self._writer.close()  # which the thread hears as the end
        self._thread.join()
        self._reader.close()
