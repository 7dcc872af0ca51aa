"""Writing: which records each verb leaves in the log."""

import os
import subprocess
import sys
import textwrap
import threading
from datetime import UTC, datetime

import pandas as pd
import pyarrow as pa
import pytest

import seamark as sm
from seamark.control import RunRecord
from seamark.errors import CommitConflict, ComputeFailed, WrongVerb
from seamark.ledger.chain import ChainDraft
from seamark.tables.write.publish import add_data, plan_table, publish
from seamark.tables.write.slices import write_slice
from seamark.tables.write.writing import writing

THREE = [(1, 100, "hello"), (2, 200, "hi"), (3, 100, "again")]


@pytest.mark.scenario("T1")
def test_a_table_just_declared_is_empty(posts, clicks):
    assert posts.head == sm.Head(sequence=-1, block_hash=None, offset=None, system_time=None)
    assert posts.rows().columns == ["post_id", "user_id", "content"]
    assert posts.changes().columns == ["offset", "op", "system_time", "event_time", "post_id", "user_id", "content"]
    assert clicks.changes().schema["at"].dataType.simpleString() == "timestamp"
    assert posts.rows().collect() == posts.changes().collect() == clicks.rows().collect() == []


@pytest.mark.scenario("T2")
def test_new_rows_are_appended_whatever_frame_they_come_in(ds, frame_of, told, rows):
    posts = ds.table("posts", "post_id long, user_id long, content string", key="post_id")

    commit = posts.upsert(frame_of(posts, *THREE))

    assert told(posts) == ["+A 1 100 hello", "+A 2 200 hi", "+A 3 100 again"]
    assert rows(posts) == THREE
    assert (commit.first_offset, commit.last_offset, commit.blocks) == (0, 2, 1)
    assert (commit.appended, commit.corrected, commit.retracted) == (3, 0, 0)


@pytest.mark.scenario("T2")
def test_pandas_arrow_and_spark_frames_give_one_logical_hash(ds, clock, spark, arrow, open_store):
    ds = open_store(spark=spark, clock=clock)
    first, second, third = (ds.table(f"posts{n}", "post_id long, content string", key="post_id") for n in range(3))
    first.upsert(pd.DataFrame({"post_id": [2, 1], "content": [None, "hello"]}))
    second.upsert(arrow(second, (1, "hello"), (2, None)))
    third.upsert(spark.createDataFrame([(2, None), (1, "hello")], "post_id long, content string"))

    assert len({logical_hashes(table)[0] for table in (first, second, third)}) == 1


def logical_hashes(table):
    blocks = [table.source.context.files(table.name).block(b.hash).event for b in blocks_of(table)]
    return [event.new_data.logical_hash for event in blocks if isinstance(event, sm.ledger.AddData) and event.new_data]


def blocks_of(table):
    return list(reversed(table.source.context.control.index.blocks(table.name)))


@pytest.mark.scenario("T3")
def test_only_the_row_that_differs_is_written_with_both_images(posts, frame_of, told):
    posts.upsert(frame_of(posts, (1, 100, "hello"), (2, 200, "hi")))

    commit = posts.upsert(frame_of(posts, (1, 100, "hello"), (2, 200, "bye")))

    assert told(posts, after=1) == ["-C 2 200 hi", "+C 2 200 bye"]
    assert (commit.appended, commit.corrected, commit.retracted) == (0, 1, 0)
    assert posts.head.offset == 3


@pytest.mark.scenario("T4")
def test_a_delete_retracts_what_is_there(posts, arrow, told, rows):
    posts.upsert(arrow(posts, *THREE))
    keys = pa.table({"post_id": [1, 99]})

    commit = posts.delete(keys)

    assert told(posts, after=2) == ["-R 1 100 hello"]
    assert commit.retracted == 1
    assert posts.delete(keys) is None
    assert rows(posts) == [(2, 200, "hi"), (3, 100, "again")]


@pytest.mark.scenario("T4")
def test_a_delete_takes_a_spark_frame_of_few_or_many_keys(posts, arrow, told, spark):
    posts.upsert(arrow(posts, *THREE))

    posts.delete(spark.createDataFrame([(1,), (1,), (99,)], "post_id int"))
    assert told(posts, after=2) == ["-R 1 100 hello"]

    posts.delete(spark.range(2, 400).withColumnRenamed("id", "post_id"))
    assert told(posts, after=3) == ["-R 2 200 hi", "-R 3 100 again"]


@pytest.mark.scenario("T5", "T6", "T19")
def test_a_snapshot_is_compared_with_what_stands(stock, arrow, told, rows):
    stock.replace(arrow(stock, ("A", 10), ("B", 20), ("C", 30)))
    commit = stock.replace(arrow(stock, ("E", 50), ("A", 10), ("C", 35), ("D", 40)))

    assert told(stock, after=2) == ["-R B 20", "-C C 30", "+C C 35", "+A D 40", "+A E 50"]
    assert (commit.first_offset, commit.last_offset) == (3, 7)
    assert (commit.appended, commit.corrected, commit.retracted) == (2, 1, 1)
    assert rows(stock.rows(as_of=2)) == [("A", 10), ("B", 20), ("C", 30)]
    assert rows(stock.rows(as_of=7)) == [("A", 10), ("C", 35), ("D", 40), ("E", 50)]

    head = stock.head
    assert stock.replace(arrow(stock, ("A", 10), ("C", 35), ("D", 40), ("E", 50))) is None
    assert stock.head == head

    stock.replace(arrow(stock))
    assert told(stock, after=7) == ["-R A 10", "-R C 35", "-R D 40", "-R E 50"]
    assert rows(stock) == []


@pytest.mark.scenario("T6")
def test_an_empty_spark_snapshot_retracts_every_row(stock, arrow, told, spark):
    stock.replace(arrow(stock, ("A", 10), ("B", 20)))
    stock.replace(spark.createDataFrame([], stock.schema.spark()))
    assert told(stock, after=1) == ["-R A 10", "-R B 20"]


@pytest.mark.scenario("T7")
def test_appended_rows_are_never_compared(clicks, arrow, told, rows):
    noon = datetime(2020, 1, 1, 12, tzinfo=UTC)
    two = arrow(clicks, ("/a", noon), ("/b", noon))

    clicks.append(two)
    clicks.append(two)

    assert told(clicks) == [f"+A {url} {noon}" for url in ("/a", "/b", "/a", "/b")]
    assert [url for url, _ in rows(clicks)] == ["/a", "/a", "/b", "/b"]


@pytest.mark.scenario("T7")
def test_appended_rows_keep_the_order_of_their_frame(clicks, spark, told):
    urls = [f"/{number}" for number in (3, 1, 2)]
    clicks.append(spark.createDataFrame([(url, None) for url in urls], clicks.schema.spark()).coalesce(1))
    assert [line.split()[1] for line in told(clicks)] == urls


@pytest.mark.scenario("T8")
def test_a_verb_that_does_not_fit_names_the_one_that_does(dry, arrow):
    posts = dry.table("posts", "post_id long, content string", key="post_id")
    clicks = dry.table("clicks", "url string")

    with pytest.raises(WrongVerb, match=r"table 'posts'.*`append` does not fit.*`upsert`"):
        posts.append(arrow(posts, (1, "hello")))
    for verb in ("upsert", "delete", "replace"):
        with pytest.raises(WrongVerb, match=rf"table 'clicks'.*`{verb}` does not fit.*use `append`"):
            getattr(clicks, verb)(arrow(clicks, ("/a",)))
    assert posts.head.sequence == clicks.head.sequence == -1


@pytest.mark.scenario("T9")
def test_there_and_back_again(stock, arrow, told, rows):
    for amount in (10, 20, 10):
        stock.upsert(arrow(stock, ("key", amount)))

    assert told(stock) == ["+A key 10", "-C key 10", "+C key 20", "-C key 20", "+C key 10"]
    assert rows(stock) == [("key", 10)]
    assert stock.upsert(arrow(stock, ("key", 10))) is None


@pytest.mark.scenario("T10")
def test_an_empty_frame_writes_nothing(posts, frame_of, arrow, unchanged):
    assert posts.upsert(frame_of(posts)) is None
    assert posts.head.sequence == -1
    posts.upsert(arrow(posts, *THREE))
    with unchanged(posts):
        assert posts.upsert(frame_of(posts)) is None
        assert posts.delete(frame_of(posts)) is None


@pytest.mark.scenario("T11")
@pytest.mark.parametrize("verb", ["upsert", "replace", "delete"])
def test_a_frame_that_cannot_be_computed_is_the_callers_to_hear(posts, arrow, spark, verb, unchanged):
    posts.upsert(arrow(posts, *THREE))
    broken = spark.range(3).selectExpr("1 div (id - 2) AS post_id", "id AS user_id", "'x' AS content")

    with unchanged(posts), pytest.raises(ComputeFailed, match=r"table 'posts'.*DIVIDE_BY_ZERO.*Nothing was") as error:
        getattr(posts, verb)(broken)

    assert "DIVIDE_BY_ZERO" in str(error.value.__cause__)


@pytest.mark.scenario("T11")
def test_the_same_on_a_table_without_a_chain(posts, spark):
    with pytest.raises(ComputeFailed, match="DIVIDE_BY_ZERO"):
        posts.upsert(spark.range(3).selectExpr("1 div (id - 2) AS post_id", "id AS user_id", "'x' AS content"))
    assert posts.head.sequence == -1


@pytest.mark.scenario("T22")
def test_the_head_grows_with_every_block(ds, posts, arrow):
    seen = []
    for text in ("one", "two", "three"):
        posts.upsert(arrow(posts, (1, 100, text)))
        seen.append(posts.head)

    assert [head.sequence for head in seen] == [2, 3, 4]  # Seed, SetDataSchema and the first data; then one each
    assert [head.block_hash for head in seen] == [b.hash for b in blocks_of(posts)[2:]]
    assert [head.offset for head in seen] == [0, 2, 4]
    assert seen[0].system_time < seen[1].system_time < seen[2].system_time


@pytest.mark.scenario("L56", "T22")
def test_system_time_goes_on_when_the_clock_stands_still_or_goes_back(open_store, clock, arrow, no_spark):
    clicks = open_store(spark=no_spark, clock=clock).table("clicks", "url string")
    noon = clock.moment
    times = []
    for hours in (0, 0, -3):
        clock.turn(hours=hours)
        clicks.append(arrow(clicks, ("/a",)))
        times.append(clicks.head.system_time)
    assert [(time - noon).total_seconds() for time in times] == [0, 0.001, 0.002]


# --- several writers --------------------------------------------------------------------------------------------------


@pytest.mark.scenario("T29", "L43")
def test_two_threads_with_disjoint_keys_lose_nothing(posts, ds, arrow, told, rows):
    posts.upsert(arrow(posts, (0, 0, "first")))
    failures = []

    def write(keys):
        try:
            for key in keys:
                posts.upsert(arrow(posts, (key, key, "new"), (0, key, "contended")))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(keys,)) for keys in ([1, 2, 3], [11, 12, 13])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert [row[0] for row in rows(posts)] == [0, 1, 11, 12, 13, 2, 3]
    assert len(told(posts)) == 1 + 6 + 6 * 2  # `told` checks that offsets have neither gap nor overlap
    assert ds.verify().ok


@pytest.mark.scenario("T31")
def test_a_conflict_names_both_heads_and_leaves_nothing_to_see(dry, dry_posts, arrow, told):
    dry_posts.upsert(arrow(dry_posts, (1, 100, "hello")))
    context = dry._context
    planned = plan_table(context, "posts")
    dry_posts.set_watermark(datetime(2020, 1, 1, tzinfo=UTC))
    found = dry_posts.head

    with writing(context) as run:
        moment = datetime(2030, 1, 1, tzinfo=UTC)
        records = arrow(dry_posts, (2, 200, "lost")).add_column(0, "op", pa.array([0], pa.int32()))
        piece = write_slice(run.folder_of("posts"), dry_posts.schema, records, planned.next_offset, moment)
        run.adopt_slices(planned.files, [piece])
        draft = ChainDraft(planned.state, moment)
        add_data(draft, [piece])
        record = RunRecord(run.run_id, "posts", "test", 0.0)
        with pytest.raises(CommitConflict) as error:
            publish(context, run, record, [(planned, draft)])

    assert f"table 'posts' moved while a change to it was prepared: planned on head {planned.head.head_hash}" in str(
        error.value
    )
    assert f"found {found.block_hash}" in str(error.value)
    assert dry_posts.head == found
    assert told(dry_posts) == ["+A 1 100 hello"]
    assert dry.verify().ok


# --- several blocks ---------------------------------------------------------------------------------------------------


@pytest.mark.scenario("T36", "L44")
def test_a_large_change_is_several_blocks_of_one_commit(open_store, spark, rows, told):
    posts = open_store(spark=spark, block_rows=1000).table("posts", "post_id long, content string", key="post_id")

    commit = posts.upsert(pd.DataFrame({"post_id": range(2500), "content": "x"}))

    blocks = [b for b in blocks_of(posts) if b.slice_hash]
    assert [(b.first_offset, b.last_offset) for b in blocks] == [(0, 999), (1000, 1999), (2000, 2499)]
    assert [b.sequence for b in blocks] == [2, 3, 4]
    assert len({b.system_time for b in blocks}) == 1
    assert (commit.blocks, commit.first_offset, commit.last_offset, commit.sequence) == (3, 0, 2499, 4)
    assert posts.rows().count() == 2500


CHILD = """
    import sys
    import pyarrow as pa
    import seamark as sm

    ds = sm.DataStore(sys.argv[1], sys.argv[2], block_rows=1000)
    ds.table("clicks", "n long").append(pa.table({"n": range(2500)}))
"""


@pytest.mark.scenario("L44", "L42")
@pytest.mark.parametrize(
    ("point", "records"), [("slices-staged", 0), ("blocks-staged", 0), ("committed", 2500), ("mirrored", 2500)]
)
def test_a_killed_writer_leaves_all_blocks_of_a_commit_or_none(tmp_path, open_store, no_spark, point, records, told):
    place = [f"sqlite:///{tmp_path / 'control.db'}", str(tmp_path / "warehouse")]
    command = [sys.executable, "-c", textwrap.dedent(CHILD), *place]
    env = os.environ | {"SEAMARK_KILL_AT": point}
    ended = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == -9, ended.stderr

    ds = open_store(spark=no_spark, block_rows=1000)
    clicks = ds.table("clicks", "n long")

    assert len(told(clicks)) == records
    assert ds.verify().ok
    commit = clicks.append(pa.table({"n": range(2500)}))
    assert (commit.blocks, commit.first_offset, commit.last_offset) == (3, records, records + 2499)
    assert (ds.warehouse / "clicks" / "refs" / "head").read_text() == clicks.head.block_hash


@pytest.mark.scenario("L55")
def test_no_block_ends_inside_a_correction(open_store, spark, told, arrow):
    stock = open_store(spark=spark, block_rows=3).table("stock", "name string, amount long", key="name")
    stock.upsert(arrow(stock, ("b", 1), ("c", 1), ("d", 1), ("f", 1)))

    stock.upsert(arrow(stock, *[(name, 2) for name in "abcdef"]))

    blocks = [b for b in blocks_of(stock) if b.slice_hash and b.first_offset >= 4]
    lines = told(stock)
    cut = [lines[b.first_offset : b.last_offset + 1] for b in blocks]
    assert cut == [
        ["+A a 2", "-C b 1", "+C b 2"],
        ["-C c 1", "+C c 2"],
        ["-C d 1", "+C d 2", "+A e 2"],
        ["-C f 1", "+C f 2"],
    ]
    assert len({b.system_time for b in blocks}) == 1


@pytest.mark.scenario("L5")
def test_the_folder_is_laid_out_as_open_data_fabric_does(dry, dry_posts, arrow, files_under):
    from seamark.ledger.objects import file_hash

    dry_posts.upsert(arrow(dry_posts, *THREE))
    folder = dry.warehouse / "posts"

    names = sorted(files_under(folder))
    assert [n.split("/")[0] for n in names] == ["blocks"] * 3 + ["data", "info", "refs"]
    for path in [*(folder / "blocks").iterdir(), *(folder / "data").iterdir()]:
        assert path.name == file_hash(path)
        assert path.name.startswith("f1620")
        assert len(path.name) == 5 + 64
    assert (folder / "refs" / "head").read_bytes() == dry_posts.head.block_hash.encode()
    assert (folder / "info" / "alias").read_text() == "posts"


@pytest.mark.scenario("L6")
def test_a_slice_has_the_system_columns_first(dry, arrow, slices, stock):
    stock.upsert(arrow(stock, ("A", 10), ("B", 20)))
    stock.replace(arrow(stock, ("B", 25), ("C", 30)))

    first, second = slices(stock)

    utc = pa.timestamp("ms", tz="UTC")
    assert first.schema.names == ["offset", "op", "system_time", "event_time", "name", "amount"]
    assert first.schema.types == [pa.int64(), pa.int32(), utc, utc, pa.string(), pa.int64()]
    assert second.column("op").to_pylist() == [1, 2, 3, 0]  # -R A, -C B, +C B, +A C
    assert second.column("offset").to_pylist() == [2, 3, 4, 5]
    assert set(second.column("system_time").to_pylist()) == {stock.head.system_time}
    assert second.column("event_time").to_pylist() == second.column("system_time").to_pylist()
