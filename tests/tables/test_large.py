"""Changes too large for the driver: the same records in the same order, whatever the partitioning and the path."""

from datetime import UTC, datetime

import pytest

from seamark.errors import DuplicateKey


def logical_hashes(table):
    files, index = table.source.context.files(table.name), table.source.context.control.index
    blocks = [files.block(b.hash).event.new_data for b in reversed(index.blocks(table.name)) if b.slice_hash]
    return [(piece.logical_hash, piece.offset_interval) for piece in blocks]


@pytest.mark.scenario("L46", "L55")
def test_partitions_and_paths_do_not_show(open_store, spark, clock, told, monkeypatch, set_small, arrow):
    ds = open_store(spark=spark, clock=clock, block_rows=7)
    found = {}
    for path, small in (("driver", 50_000), ("executors", 0)):
        set_small(monkeypatch, small)
        for partitions in (1, 8):
            t = ds.table(f"{path}{partitions}", "k string, n int, v double", key=["k", "n"])
            t.upsert(arrow(t, *[("ab"[i % 2], i, float(i % 2)) for i in range(0, 40, 3)]))
            change = spark.range(0, 40, 1, 1).selectExpr(
                "substr('ab', CAST(id % 2 AS int) + 1, 1) AS k", "CAST(id AS int) AS n", "CAST(1 AS double) AS v"
            )
            commit = t.upsert(change.repartition(partitions))
            found[path, partitions] = (told(t), logical_hashes(t), commit.appended, commit.corrected)

    assert len({repr(outcome) for outcome in found.values()}) == 1
    lines, hashes, appended, corrected = found["executors", 8]
    assert (appended, corrected) == (26, 7)
    assert len(lines) == 14 + 26 + 2 * 7
    keys = [tuple(line.split()[1:3]) for line in lines[14:]]
    assert keys == sorted(keys, key=lambda key: (key[0], int(key[1])))
    for _, interval in hashes:
        assert interval.end - interval.start < 7
        assert lines[interval.end].startswith(("+", "-R"))
    assert ds.verify().ok


@pytest.mark.scenario("L46", "T7")
def test_appended_rows_keep_the_order_of_partitions(open_store, spark, large, told):
    clicks = open_store(spark=spark, block_rows=7).table("clicks", "n long")
    commit = clicks.append(spark.range(0, 20, 1, 3).withColumnRenamed("id", "n"))
    assert told(clicks) == [f"+A {n}" for n in range(20)]
    assert (commit.blocks, commit.appended) == (3, 20)


@pytest.mark.scenario("T35")
def test_a_doubled_key_is_seen_on_the_executors(open_store, spark, large):
    ds = open_store(spark=spark, block_rows=3)
    posts = ds.table("posts", "post_id long, content string", key="post_id")
    frame = spark.range(0, 10, 1, 4).selectExpr("id % 9 AS post_id", "'x' AS content")
    with pytest.raises(DuplicateKey, match=r"table 'posts': the key .*post_id\W+0\b"):
        posts.upsert(frame)
    assert posts.head.sequence == -1
    assert list((ds.warehouse / ".staging").iterdir()) == []


@pytest.mark.scenario("T50", "T33")
def test_watermark_and_one_byte_integers_from_the_executors(open_store, spark, large, rows):
    ds = open_store(spark=spark, block_rows=4)
    clicks = ds.table("clicks", "n tinyint, at timestamp", event_time="at")
    frame = spark.range(0, 10, 1, 2).selectExpr("CAST(id AS tinyint) AS n", "timestamp_seconds(10 - id) AS at")
    clicks.append(frame)
    event = ds._context.files("clicks").block(clicks.head.block_hash).event
    assert event.new_watermark == datetime(1970, 1, 1, 0, 0, 10, tzinfo=UTC)
    assert [n for n, _ in rows(clicks)] == list(range(10))
    assert ds.verify().ok
