"""How long this process has spent on starting Spark, and who hears of it meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

OnStart = Callable[[bool], None]
"""Called with True when a session is about to be started, and with False when it is there or could not be."""

_observers: list[OnStart] = []
_seconds = 0.0
_lock = threading.Lock()


def seconds_spent() -> float:
    """Seconds that this process has spent on starting Spark so far: they are nobody's work."""
    return _seconds


@contextmanager
def starting() -> Iterator[None]:
    """Count what the block takes as the start of Spark, and say so to those who watch."""
    global _seconds
    begun, observers = time.monotonic(), list(_observers)
    for tell in observers:
        tell(True)
    try:
        yield
    finally:
        with _lock:
            _seconds += time.monotonic() - begun
        for tell in observers:
            tell(False)


@contextmanager
def looking_on(tell: OnStart) -> Iterator[None]:
    """While the block runs, `tell` is called when a session is about to be started, and when it is there."""
    _observers.append(tell)
    try:
        yield
    finally:
        _observers.remove(tell)
