"""Steps and diffs over few rows of many bytes: Spark goes on with them, and the driver's memory stays level."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import seamark as sm
from seamark.tables import computed
from seamark.transforms.compute import pandas_worker
from seamark.transforms.compute.pandas_worker import whole_keys

ROOM = 20_000  # bytes that the driver takes in these tests
BODY = 1_000


def large(table: sm.Table, letter: str, ids: Any) -> pa.Table:
    """Rows of a table with an id, an owner and a body of a kilobyte."""
    rows = [(n, n % 3, (f"{letter}{n}" * BODY)[:BODY]) for n in ids]
    columns = zip(table.schema.names, zip(*rows, strict=True), strict=True)
    return pa.table({name: list(values) for name, values in columns}).cast(table.schema.arrow)


@pytest.fixture
def docs(ds, set_small, monkeypatch) -> sm.Table:
    """Sixty documents of a kilobyte; the driver takes twenty kilobytes."""
    set_small(monkeypatch, values=ROOM)
    docs = ds.table("docs", "id long, owner long, body string", key="id")
    docs.upsert(large(docs, "a", range(60)))
    docs.fold()
    return docs


def bodies(table: sm.Table) -> dict[int, str]:
    return {row["id"]: row["body"] for row in table.rows().toArrow().to_pylist()}


@pytest.mark.scenario("T54")
@pytest.mark.parametrize("options", [{}, {"pandas": True}, {"commit": "run", "batch_keys": 10}], ids=str)
def test_a_step_over_large_rows(ds, docs, options, fetched):
    copies = ds.table("copies", "id long, owner long, body string", key="id")

    @ds.transform(inputs=[docs], outputs=[copies], **options)
    def copy(docs):
        return docs

    assert ds.run("copy").ok
    docs.upsert(large(docs, "b", range(10, 25)))  # fifteen kilobytes fit, with what stood before they do not
    docs.delete(pa.table({"id": [0, 1]}))
    assert ds.run("copy").steps["copy"].error is None
    assert fetched.most_bytes <= 2 * ROOM

    expected = {n: (f"a{n}" * BODY)[:BODY] for n in range(2, 60)} | {n: (f"b{n}" * BODY)[:BODY] for n in range(10, 25)}
    assert bodies(copies) == expected
    assert not ds.run("copy").did_something


@pytest.mark.scenario("T54")
def test_a_reference_with_large_rows(ds, docs, fetched, frame):
    posts = ds.table("posts", "post_id long, doc long", key="post_id")
    lines = ds.table("lines", "post_id long, body string", key="post_id")

    @ds.transform(inputs=[posts, sm.JoinSpec(docs, join_keys={"doc": "id"})], outputs=[lines])
    def line(posts, docs):
        return posts.join(docs, posts.doc == docs.id).select("post_id", "body")

    posts.upsert(frame(posts, [(n, n % 60) for n in range(80)]))
    assert ds.run("line").ok
    docs.upsert(large(docs, "b", range(40)))
    assert ds.run("line").steps["line"].error is None
    assert fetched.most_bytes <= 2 * ROOM

    found = {row.post_id: row.body for row in lines.rows().collect()}
    assert found == {n: (f"{'b' if n % 60 < 40 else 'a'}{n % 60}" * BODY)[:BODY] for n in range(80)}


@pytest.mark.scenario("T54")
def test_results_of_many_batches_are_moved_to_files_when_they_are_large_in_all(ds, docs, monkeypatch):
    copies = ds.table("copies", "id long, owner long, body string", key="id")
    ds.transform(inputs=[docs], outputs=[copies], name="copy", commit="run", batch_keys=10)(lambda docs: docs)
    moved = []
    move = computed._write

    def watched(folder, batches):
        file = move(folder, batches)
        moved.append(file.rows if file else 0)
        return file

    monkeypatch.setattr(computed, "_write", watched)  # of the driver: tasks have a copy of their own
    assert ds.run("copy").steps["copy"].batches == 6

    assert sum(moved) == 50  # a batch of ten kilobytes fits, two of them do not
    assert len(bodies(copies)) == 60


@pytest.mark.scenario("T54")
def test_a_pandas_function_is_called_with_so_many_bytes(monkeypatch):
    monkeypatch.setattr(pandas_worker, "CHUNK_BYTES", 5_000)
    batch = pa.RecordBatch.from_pydict({"k": [n // 4 for n in range(40)], "body": ["x" * BODY] * 40})

    chunks = list(whole_keys(iter([batch, batch.slice(0, 0)]), ["k"]))

    assert pa.concat_tables(chunks).equals(pa.Table.from_batches([batch]))
    assert all(chunk.nbytes <= 3 * 5_000 for chunk in chunks)
    keys = [set(chunk.column("k").to_pylist()) for chunk in chunks]
    assert sum(len(found) for found in keys) == 10  # no key is parted


@pytest.mark.scenario("T54")
def test_a_diff_over_large_rows(ds, set_small, monkeypatch, fetched):
    set_small(monkeypatch, values=ROOM)
    visits = ds.table("visits", "VisitID long, y_VisitVersion long, title string")
    diff = ds.diff("sessions", key="VisitID", fast_version="y_VisitVersion", multiplier=1000, logs=[visits])

    def append(letter: str, version: int, ids: Any) -> None:
        titles = [(f"{letter}{n}" * BODY)[:BODY] for n in ids]
        visits.append(pa.table({"VisitID": list(ids), "y_VisitVersion": [version] * len(titles), "title": titles}))

    append("a", 1, range(60))
    assert ds.run().steps["sessions"].error is None
    append("b", 2, range(10))  # ten kilobytes of news fit, and so does their old state
    assert ds.run().steps["sessions"].error is None
    append("c", 3, range(10, 50))
    assert ds.run().steps["sessions"].error is None
    assert fetched.most_bytes <= 2 * ROOM

    letters = {n: "b" if n < 10 else "c" if n < 50 else "a" for n in range(60)}
    found = {row.VisitID: row.title for row in diff.state.rows().collect()}
    assert found == {n: (f"{letter}{n}" * BODY)[:BODY] for n, letter in letters.items()}
    signs = diff.visit_log_slow.rows().groupBy("VisitID").agg({"Sign": "sum"}).collect()
    assert {row[1] for row in signs} == {0}
