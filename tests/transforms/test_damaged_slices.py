"""A slice with a damaged byte: a run is refused and the process goes on, whatever pyarrow would do with the file."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import seamark as sm
from seamark.errors import ObjectChanged


def test_a_run_that_reads_a_damaged_slice_is_refused_wherever_the_damage_is(ds: sm.DataStore, rows: Any) -> None:
    posts, out = ds.table("posts", "id long, text string", key="id"), ds.table("out", "id long, text string", key="id")
    ds.add(sm.BatchTransform("SELECT * FROM {posts}", [posts], [out], name="copy"))
    posts.upsert([{"id": n, "text": "abc"} for n in range(3)])
    ds.run(fail_fast=True)
    posts.upsert([{"id": 1, "text": "def"}])
    newest = ds.control.index.slices("posts", after=2, upto=posts.head.offset)[0]
    path: Path = posts.source.context.files("posts").data.path(newest.slice_hash or "")
    whole, chance = path.read_bytes(), random.Random(1)

    for place in [5, len(whole) - 6, *(chance.randrange(len(whole) * 2 // 3, len(whole)) for _ in range(10))]:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << chance.randrange(8))]) + whole[place + 1 :])
        with pytest.raises(ObjectChanged, match=r"was changed: its bytes have another hash"):
            ds.step("copy").run_full()
    assert rows(out) == [(n, "abc") for n in range(3)]

    path.write_bytes(whole)
    assert ds.run(fail_fast=True).ok
    assert rows(out) == [(0, "abc"), (1, "def"), (2, "abc")]
