"""Clocks: waiting passes time on the clock that is waited on."""

import time
from datetime import timedelta

from seamark.clock import SystemClock


def test_the_machines_clock_waits():
    clock, before = SystemClock(), time.monotonic()
    clock.sleep(0.05)
    assert time.monotonic() - before >= 0.05
    clock.sleep(-1.0)  # what was due already is not waited for


def test_a_turned_clock_moves_on_and_waits_for_nobody(clock):
    began, before = clock.now(), time.monotonic()
    clock.sleep(8 * 3600)
    assert clock.now() - began == timedelta(hours=8)
    assert time.monotonic() - before < 60
