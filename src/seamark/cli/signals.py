"""Signals that ask the process to end: they do what Ctrl-C does, and the process is gone in time."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGHUP)
# Whoever sent the signal kills the process in the end, often after ten seconds. What has to be given back is given back
# before that, even if the main thread does not get to it: it may be inside a call that nothing interrupts.
GIVE_BACK_AFTER, GONE_AFTER = 6.0, 9.0


class Terminated(KeyboardInterrupt):
    """A signal asked the process to end. It passes where Ctrl-C passes."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"stopped by {signal.Signals(number).name}")

    @property
    def exit_code(self) -> int:
        """What a shell calls a process that a signal ended: 143 for SIGTERM."""
        return 128 + self.number


_to_give_back: list[Callable[[], None]] = []


@contextmanager
def given_back(give_back: Callable[[], None]) -> Iterator[None]:
    """While the block runs, call this if a signal asks the process to end and the main thread does not get there."""
    _to_give_back.append(give_back)
    try:
        yield
    finally:
        _to_give_back.remove(give_back)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """While the block runs, SIGTERM and SIGHUP end it as Ctrl-C would, and the process in ten seconds at the latest."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # `nohup` has said that a closed terminal does not matter
            signal.signal(number, _end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)  # once is enough: a second one must not break what the first began
    threading.Thread(target=_be_gone, args=(128 + number,), name="seamark-end", daemon=True).start()
    interrupt = signal.getsignal(signal.SIGINT)
    if callable(interrupt):  # with a session at work this is PySpark's, which cancels its jobs
        try:
            interrupt(signal.SIGINT, frame)
        except KeyboardInterrupt:
            raise Terminated(number) from None
    raise Terminated(number)


def _be_gone(code: int) -> None:
    """End the process in time, whatever the main thread does; what others wait for is given back before."""
    pause = threading.Event()
    pause.wait(GIVE_BACK_AFTER)
    threading.Thread(target=_give_back, name="seamark-give-back", daemon=True).start()
    pause.wait(GONE_AFTER - GIVE_BACK_AFTER)
    sys.stderr.flush()
    os._exit(code)


def _give_back() -> None:
    for give_back in list(_to_give_back):
        give_back()
