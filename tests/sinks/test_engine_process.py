"""The engine without a server: what it leaves behind stays in a process of its own, and is gone with it."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest

import seamark as sm
from seamark.errors import SinkUnavailable
from seamark.sinks.clickhouse import embedded


@pytest.fixture
def users(dry) -> sm.Table:
    return dry.table("users", "id long, name string", key="id")


def test_many_runs_leave_no_threads_and_no_open_files(dry, users, folder_url):
    def here() -> tuple[int, int]:
        return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

    target = sm.ClickHouseSink(folder_url, table="copy")
    dry.sink("users", target, name="out")

    def run(number: int) -> None:
        users.upsert(pa.table({"id": [number], "name": ["A"]}))
        assert dry.run(fail_fast=True).ok

    run(0)
    threads, files = here()
    for number in range(1, 50):  # more than one process opens
        run(number)
    now = here()
    assert now[0] <= threads + 3
    assert now[1] <= files + 5
    assert target.query("SELECT count() AS n FROM copy FINAL") == [{"n": 50}]


def test_an_engine_that_is_killed_is_said_and_started_again(dry, users, folder_url):
    target = sm.ClickHouseSink(folder_url, table="copy")
    dry.sink("users", target, name="out")
    users.upsert(pa.table({"id": [1], "name": ["A"]}))
    assert dry.run(fail_fast=True).ok
    with embedded.open_folder(target._place, "sink 'out'") as connection:
        embedded._engine._process.kill()
        embedded._engine._process.wait()
        with pytest.raises(SinkUnavailable, match="has ended with -9"):
            connection.query("SELECT 1")
    assert target.query("SELECT id FROM copy FINAL") == [{"id": 1}]
