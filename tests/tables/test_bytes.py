"""Rows of many bytes: slices are cut by bytes too, and nothing depends on one array having room for them all."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seamark.tables.row_bytes import bytes_of_rows
from seamark.tables.write import slices as slices_module
from seamark.tables.write.cuts import BLOCK_BYTES, SizeLimit
from seamark.tables.write.slices import row_groups, sort_records, take_records


def logical_hashes(table):
    files, index = table.source.context.files(table.name), table.source.context.control.index
    blocks = [files.block(b.hash).event.new_data for b in reversed(index.blocks(table.name)) if b.slice_hash]
    return [(piece.logical_hash, piece.offset_interval) for piece in blocks]


@pytest.mark.long
@pytest.mark.scenario("T55", "L46", "L55")
def test_slices_are_cut_by_bytes_whatever_the_partitions_and_the_path(
    open_store, spark, clock, told, slices, monkeypatch, set_small, arrow
):
    ds = open_store(spark=spark, clock=clock, block_bytes=1_000)
    found = {}
    for path, small in (("driver", 50_000), ("executors", 0)):
        set_small(monkeypatch, small)
        for partitions in (1, 8):
            t = ds.table(f"{path}{partitions}", "k long, v string", key="k")
            t.upsert(arrow(t, *[(i, "x" * (i * 7)) for i in range(0, 40, 3)]))
            change = spark.range(0, 40, 1, 1).selectExpr("id AS k", "repeat('y', CAST(id * id % 700 AS int)) AS v")
            commit = t.upsert(change.repartition(partitions))
            found[path, partitions] = (told(t), logical_hashes(t), commit.appended, commit.corrected)
            for piece in slices(t):
                values = bytes_of_rows(piece.select(["k", "v"])).sum()
                assert values <= 1_000 or len(set(piece.column("k").to_pylist())) == 1
                assert piece.column("op").to_pylist()[-1] != 2  # never between the two records of a correction

    assert len({repr(outcome) for outcome in found.values()}) == 1
    lines, hashes, appended, corrected = found["executors", 8]
    assert (len(lines), appended, corrected) == (14 + 26 + 2 * 13, 26, 13)  # key 0 has no text before or after
    assert len(hashes) > 10
    assert ds.verify().ok


@pytest.mark.scenario("T55", "L46")
def test_appended_rows_are_cut_by_bytes_in_their_order(open_store, spark, large, told, slices):
    clicks = open_store(spark=spark, block_bytes=100).table("clicks", "n long, url string")
    commit = clicks.append(spark.range(0, 20, 1, 3).selectExpr("id AS n", "repeat('u', CAST(id * 5 AS int)) AS url"))

    assert [line.split()[1] for line in told(clicks)] == [str(n) for n in range(20)]
    assert commit.blocks > 5
    assert all(bytes_of_rows(s.select(["n", "url"])).sum() <= 100 or s.num_rows == 1 for s in slices(clicks))


@pytest.mark.scenario("T55")
def test_replay_cuts_where_the_commit_was_cut(open_store, spark, arrow):
    ds = open_store(spark=spark, block_bytes=100)
    docs = ds.table("docs", "id long, body string", key="id")
    sizes = ds.table("sizes", "id long, body string", key="id")
    ds.transform(inputs=[docs], outputs=[sizes], name="copy")(lambda docs: docs.selectExpr("id", "upper(body) AS body"))
    docs.upsert(arrow(docs, *[(i, "x" * i) for i in range(30)]))
    assert ds.run().ok
    assert len(ds.control.index.slices("sizes", after=None, upto=None)) > 3

    again = open_store(spark=spark)
    copy = again.table("docs"), again.table("sizes")
    again.transform(inputs=[copy[0]], outputs=[copy[1]], name="copy")(
        lambda docs: docs.selectExpr("id", "upper(body) AS body")
    )
    report = again.verify("sizes", replay=True)

    assert (report.ok, report.not_replayable) == (True, 0)


@pytest.mark.scenario("T55", "T54")
def test_a_slice_of_large_rows_has_small_row_groups(ds, monkeypatch, arrow, slices):
    posts = ds.table("docs", "id long, body string", key="id")
    monkeypatch.setattr(slices_module, "ROW_GROUP", SizeLimit(rows=4, values=300))
    posts.upsert(arrow(posts, *[(i, "x" * (i * 9)) for i in range(20)]))

    [block] = ds.control.index.slices("docs", after=None, upto=None)
    file = pq.ParquetFile(ds._context.files("docs").data.path(block.slice_hash))
    groups = [file.read_row_group(n) for n in range(file.num_row_groups)]

    assert [row for group in groups for row in group.column("id").to_pylist()] == list(range(20))
    assert max(group.num_rows for group in groups) == 4
    assert all(group.num_rows == 1 or bytes_of_rows(group).sum() <= 300 for group in groups)
    assert ds.verify().ok


@pytest.mark.scenario("T54")
def test_what_spark_takes_of_a_slice_at_once_is_small(monkeypatch):
    """Rows of 5 kB would be 20 MiB where four thousand are read; rows of 3 kB are not cut apart for that."""
    monkeypatch.setattr(slices_module, "READ_AT_ONCE", SizeLimit(rows=4, values=400))
    large = pa.table({"body": ["x" * 125] * 10 + ["y" * 500] * 2 + ["z"]})
    small = pa.table({"body": ["x" * 75] * 10 + ["y" * 200]})

    assert [group.num_rows for group in row_groups(large)] == [3, 3, 3, 1, 1, 1, 1]
    assert [group.num_rows for group in row_groups(small)] == [11]
    assert pa.concat_tables(row_groups(large)).equals(large)


@pytest.mark.scenario("T55")
def test_records_are_picked_in_order_where_one_array_has_no_room_for_them(monkeypatch):
    rng = np.random.default_rng(7)
    texts = ["t" * int(n) for n in rng.integers(0, 50, 300)]
    nested = [None if n % 7 == 0 else {"a": [texts[n]] * (n % 3)} for n in range(300)]
    whole = pa.table({"k": rng.permutation(300), "t": texts, "n": nested})
    pieces = pa.concat_tables([whole.slice(0, 100), whole.slice(100, 0), whole.slice(100, 1), whole.slice(101)])
    expected = whole.take(pa.array(np.argsort(whole.column("k").to_numpy())))

    monkeypatch.setattr(slices_module, "_ONE_ARRAY", 400)

    assert sort_records(("k",), pieces).equals(expected)
    places = pa.array(rng.integers(0, 300, 50))
    assert take_records(pieces, places).equals(whole.take(places))


# --- at full size -----------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.scenario("T55")
def test_records_of_more_bytes_than_an_array_can_hold_are_sorted():
    rows = 2_200
    table = pa.concat_tables(
        pa.table({"op": pa.array([0] * 100, pa.int32()), "id": range(i, i - 100, -1), "body": ["x" * 1_000_000] * 100})
        for i in range(rows, 0, -100)
    )

    ordered = sort_records(("id", "op"), table)

    assert ordered.column("id").to_pylist() == list(range(1, rows + 1))
    assert ordered.nbytes > 2 << 30


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.scenario("T55")
def test_six_hundred_thousand_rows_of_four_kilobytes(open_store, spark, slices):
    """As texts: 2.6 GB in one column, more than one slice of 500 000 records could hold."""
    ds = open_store(spark=spark)
    docs = ds.table("docs", "id long, body string", key="id")
    rows = spark.range(0, 600_000, 1, 4).selectExpr("id", "repeat(md5(cast(id AS string)), 138) AS body")

    commit = docs.upsert(rows)

    blocks = ds.control.index.slices("docs", after=None, upto=None)
    assert (commit.appended, commit.blocks) == (600_000, len(blocks))
    assert [b.first_offset for b in blocks] == [0, *(b.last_offset + 1 for b in blocks[:-1])]
    for piece in slices(docs):
        assert bytes_of_rows(piece.select(["id", "body"])).sum() <= BLOCK_BYTES
    assert docs.upsert(rows) is None
    assert ds.verify().ok
    docs.fold()
    assert docs.rows().selectExpr("count(1)", "count(DISTINCT body)", "sum(length(body))").collect() == [
        (600_000, 600_000, 600_000 * 138 * 32)
    ]
