"""Slices that are not what was committed: nothing of them is sent, and the process lives on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from seamark.errors import ObjectChanged, ObjectMissing


def flipped(at: int) -> Callable[[Path], None]:
    def flip(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[at] ^= 0x5A
        path.write_bytes(data)

    return flip


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        *((flipped(-at), ObjectChanged) for at in (9, 60, 300, 700)),  # in the footer
        (flipped(40), ObjectChanged),  # in the first page
        (lambda path: path.write_bytes(path.read_bytes()[:-20]), ObjectChanged),
        (lambda path: path.write_bytes(b""), ObjectChanged),
        (Path.unlink, ObjectMissing),
    ],
)
def test_a_damaged_slice_stops_the_sink_before_its_block(local_visits, damage, kind):
    visits = local_visits
    for number in (1, 2, 3):
        visits.write((number, 1, 1, 0.5))
    block = visits.store.control.index.slices("visits_log", after=None, upto=None)[1]
    path = visits.store.warehouse / "visits_log" / "data" / block.slice_hash
    data = path.read_bytes()
    damage(path)
    report = visits.store.run().sinks["out"]
    assert isinstance(report.error, kind)
    assert block.slice_hash in str(report.error)
    assert (report.blocks, visits.standing()) == (1, {(1, 1): 1})

    path.write_bytes(data)  # as from a copy
    assert visits.send().blocks == 2
    assert visits.standing() == {(number, 1): 1 for number in (1, 2, 3)}
