"""Verification: whatever is not as the chain says is named, all of it, in one report."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import seamark as sm
from seamark import ledger
from seamark.clock import commit_time
from seamark.control import Position, RunRecord
from seamark.errors import ChainRuleBroken, WrongVerb
from seamark.ledger.chain import ChainDraft
from seamark.ledger.objects import file_hash
from seamark.tables.write.publish import (
    Progress,
    begin_chain,
    data_slice,
    declare_schema,
    plan_table,
    publish,
)
from seamark.tables.write.slices import write_slice
from seamark.tables.write.writing import writing


@pytest.fixture
def posts(dry, arrow):
    """A root table with three data blocks, at sequences 2 to 4, written without Spark."""
    posts = dry.table("posts", "post_id long, content string")
    for text in ("one", "two", "three"):
        posts.append(arrow(posts, (1, text), (2, text)))
    return posts


def blocks(table):
    return list(reversed(table.source.context.control.index.blocks(table.name)))


def files(table):
    return table.source.context.files(table.name)


def damage(path, place=-8):
    """Flip one bit."""
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def kinds(report):
    return [finding.kind for finding in report.findings]


@pytest.mark.scenario("L47")
def test_a_healthy_table_is_left_as_it_is(dry, posts, files_under, tmp_path):
    before = posts.head, files_under(tmp_path), dry.control.index.runs()

    report = dry.verify("posts")

    assert (report.ok, report.blocks, report.findings) == (True, 5, ())
    assert (posts.head, files_under(tmp_path), dry.control.index.runs()) == before
    assert dry.verify() == report


@pytest.mark.scenario("L47")
def test_a_table_without_a_chain_is_well_too(dry):
    dry.table("new", "id long")
    assert dry.verify("new").ok
    assert dry.verify().blocks == 0
    with pytest.raises(sm.SeamarkError, match="no table 'unknown'"):
        dry.verify("unknown")


@pytest.mark.scenario("L48")
@pytest.mark.parametrize("place", [40, -8])
def test_a_flipped_bit_in_a_block(dry, posts, place):
    name = blocks(posts)[3].hash
    damage(files(posts).blocks.path(name), place)
    found = file_hash(files(posts).blocks.path(name))

    report = dry.verify("posts")

    finding = report.findings[0]
    assert (finding.table, finding.block, finding.kind) == ("posts", name, "block hash")
    assert (finding.expected, finding.found) == (name, found)
    assert name in finding.message
    assert found in finding.message


@pytest.mark.scenario("L48")
def test_a_block_replaced_by_another_valid_one(dry, posts):
    third, fourth = blocks(posts)[2].hash, blocks(posts)[3].hash
    files(posts).blocks.path(fourth).write_bytes(files(posts).blocks.read(third))

    report = dry.verify("posts")

    assert not report.ok
    assert {(f.block, f.expected, f.found) for f in report.findings if f.kind == "block hash"} == {
        (fourth, fourth, third)
    }
    assert "replaced" in report.findings[0].message


def encode_anew(table, block, change=lambda records: records):
    path = files(table).data.path(block.slice_hash)
    pq.write_table(change(pq.read_table(path)), path, compression="zstd")
    return file_hash(path)


@pytest.mark.scenario("L49")
@pytest.mark.parametrize("table", ["posts", "feed"])
def test_a_slice_encoded_anew_is_found_by_its_bytes_and_its_records_are_said_to_be_the_same(dry, feed, table):
    block = blocks(dry.table(table))[3]
    found = encode_anew(dry.table(table), block)

    report = dry.verify(table)

    assert kinds(report) == ["physical hash"]
    assert (report.findings[0].table, report.findings[0].block) == (table, block.hash)
    assert (report.findings[0].expected, report.findings[0].found) == (block.slice_hash, found)
    assert "by their logical hash its records are the same, encoded again" in report.findings[0].message


@pytest.mark.scenario("L26", "L50")
def test_everything_that_is_wrong_is_in_one_report(dry, posts):
    first, second, third = blocks(posts)[2:]
    path = files(posts).data.path(first.slice_hash)
    pq.write_table(pq.read_table(path).slice(0, 1), path)
    files(posts).data.path(second.slice_hash).unlink()
    damage(files(posts).data.path(third.slice_hash), 10)

    report = dry.verify("posts")

    assert {(finding.block, finding.kind) for finding in report.findings} == {
        (first.hash, "physical hash"),
        (second.hash, "missing data"),
        (third.hash, "physical hash"),
    }
    assert len(report.findings) == 3
    assert "another number of records" in next(f for f in report.findings if f.block == first.hash).message


# --- slices that do not hold what their block says --------------------------------------------------------------------


def numbered(posts, offsets):
    """A slice as it is written, but with other offsets."""
    context = posts.source.context
    records = pa.table({"op": pa.array([0] * 5, pa.int32()), "post_id": range(5), "content": ["x"] * 5})
    planned = plan_table(context, "posts")
    moment = commit_time(context.clock, planned.state.system_time)
    folder = planned.files.data.folder
    info = write_slice(folder, posts.schema, records, planned.next_offset, moment)
    whole = pq.read_table(folder / info.physical_hash)
    pq.write_table(whole.set_column(0, whole.schema.field(0), pa.array(offsets, pa.int64())), folder / "changed")
    name = file_hash(folder / "changed")
    (folder / "changed").rename(folder / name)
    return (
        planned,
        moment,
        ledger.DataSlice(info.logical_hash, name, ledger.OffsetInterval(6, 10), (folder / name).stat().st_size),
    )


@pytest.mark.scenario("L26")
@pytest.mark.parametrize(
    "offsets", [[6, 7, 9, 10, 11], [6, 8, 7, 9, 10], [0, 1, 2, 3, 4]], ids=["gap", "order", "start"]
)
def test_offsets_that_are_not_the_declared_ones_are_refused_at_commit(dry, posts, offsets, told):
    planned, moment, piece = numbered(posts, offsets)
    draft = ChainDraft(planned.state, moment)
    draft.add(ledger.AddData(prev_offset=5, new_data=piece))

    with (
        writing(dry._context) as run,
        pytest.raises(ChainRuleBroken, match=r"table 'posts': offsets in the slice: expected 6 to 10"),
    ):
        publish(dry._context, run, RunRecord(run.run_id, "t", "t", 0.0), [(planned, draft)])

    assert posts.head.offset == 5
    assert dry.verify().ok


@pytest.mark.scenario("L26")
def test_five_rows_declared_as_one_are_refused_at_commit(dry, posts):
    planned, moment, piece = numbered(posts, [6, 7, 8, 9, 10])
    draft = ChainDraft(planned.state, moment)
    short = ledger.DataSlice(piece.logical_hash, piece.physical_hash, ledger.OffsetInterval(6, 6), piece.size)
    draft.add(ledger.AddData(prev_offset=5, new_data=short))

    with (
        writing(dry._context) as run,
        pytest.raises(ChainRuleBroken, match="records in the slice: expected 1, found 5"),
    ):
        publish(dry._context, run, RunRecord(run.run_id, "t", "t", 0.0), [(planned, draft)])


@pytest.mark.scenario("L26")
def test_put_into_place_by_hand_they_are_reported(dry, posts, monkeypatch):
    planned, moment, piece = numbered(posts, [6, 7, 9, 10, 11])
    draft = ChainDraft(planned.state, moment)
    draft.add(ledger.AddData(prev_offset=5, new_data=piece))
    monkeypatch.setattr("seamark.tables.write.commit_checks.check_slice_offsets", lambda *_: None)
    with writing(dry._context) as run:
        publish(dry._context, run, RunRecord(run.run_id, "t", "t", 0.0), [(planned, draft)])

    report = dry.verify("posts")

    assert "offsets" in kinds(report)
    finding = next(f for f in report.findings if f.kind == "offsets")
    assert (finding.block, finding.expected, finding.found) == (posts.head.block_hash, "8", "9")


# --- derived tables ---------------------------------------------------------------------------------------------------


@pytest.fixture
def feed(dry, posts, arrow):
    """A derived table, as a step would write it: two blocks with data and a checkpoint, one with a checkpoint alone."""
    context = dry._context
    feed = dry.table("feed", "post_id long, line string", key="post_id")
    planned = plan_table(context, "feed")
    source = dry.control.index.head("posts")
    parts = blocks(posts)[2:]
    moment = commit_time(context.clock, None)
    draft = ChainDraft(None, moment)
    with writing(context) as run:
        begin_chain(draft, ledger.DatasetKind.DERIVATIVE)
        query = ledger.TransformSql(
            "seamark", queries=(ledger.SqlQueryStep("make_feed", "SELECT 1"), ledger.SqlQueryStep())
        )
        draft.add(ledger.SetTransform((ledger.TransformInput(source.dataset_id, "posts"),), query))
        declare_schema(draft, feed.schema)
        for number, part in enumerate(parts):
            checkpoint = json.dumps({"mode": "changes", "part": number}).encode()
            name = planned.files.checkpoints.put(checkpoint)
            piece = None
            if number < 2:
                records = arrow(feed, (number * 2, "a"), (number * 2 + 1, "b"))
                records = records.add_column(0, "op", pa.array([0, 0], pa.int32()))
                piece = write_slice(run.folder_of("feed"), feed.schema, records, draft.state.next_offset, moment)
                run.adopt_slices(planned.files, [piece])
            before = parts[number - 1] if number else None
            draft.add(
                ledger.ExecuteTransform(
                    query_inputs=(
                        ledger.ExecuteTransformInput(
                            source.dataset_id,
                            before.hash if before else None,
                            part.hash,
                            before.last_offset if before else None,
                            part.last_offset,
                        ),
                    ),
                    prev_checkpoint=draft.state.checkpoint,
                    prev_offset=draft.state.last_offset,
                    new_data=data_slice(piece) if piece else None,
                    new_checkpoint=ledger.Checkpoint(name, len(checkpoint)),
                )
            )
        last = Position("make_feed", "posts", part.system_time.timestamp(), part.last_offset, part.sequence, part.hash)
        record = RunRecord(run.run_id, "make_feed", "t", 0.0)
        publish(context, run, record, [(planned, draft)], progress=Progress(positions=(last,)))
    return feed


@pytest.mark.scenario("L47")
def test_a_derived_table_is_left_as_it_is(dry, feed):
    assert dry.verify().ok


@pytest.mark.scenario("L49")
def test_one_changed_cell_of_a_derived_table(dry, feed):
    block = blocks(feed)[4]
    encode_anew(feed, block, lambda records: records.set_column(5, "line", pa.array(["a", "B"])))

    report = dry.verify("feed")

    assert kinds(report) == ["physical hash"]
    assert (report.findings[0].table, report.findings[0].block) == ("feed", block.hash)
    declared = files(feed).block(block.hash).event.new_data.logical_hash
    assert f"logical hash expected {declared}, found f9680c00120" in report.findings[0].message


@pytest.mark.scenario("L50")
def test_a_damaged_checkpoint_of_a_block_without_data(dry, feed):
    first, second, last = blocks(feed)[3:]
    path = files(feed).data.path(first.slice_hash)
    pq.write_table(pq.read_table(path).slice(1), path)
    files(feed).data.path(second.slice_hash).unlink()
    damage(files(feed).checkpoints.path(last.checkpoint_hash), 3)

    report = dry.verify("feed")

    assert last.slice_hash is None
    found = {(finding.block, finding.kind) for finding in report.findings}
    assert (first.hash, "physical hash") in found
    assert (second.hash, "missing data") in found
    assert (last.hash, "checkpoint hash") in found
    assert {block for block, _ in found} == {first.hash, second.hash, last.hash}


@pytest.mark.scenario("L25")
def test_nobody_writes_by_hand_to_a_derived_table(feed, arrow, unchanged):
    with unchanged(feed), pytest.raises(WrongVerb, match="table 'feed' is derived: a step writes it"):
        feed.upsert(arrow(feed, (1, "x")))


def test_any_flipped_byte_of_a_slice_or_block_is_found(dry, posts):
    """One byte here and there through every file of the table."""
    for path in [*files(posts).data.folder.iterdir(), *files(posts).blocks.folder.iterdir()]:
        healthy = path.read_bytes()
        for place in range(0, len(healthy), max(1, len(healthy) // 12)):
            damage(path, place)
            report = dry.verify("posts")
            assert not report.ok, f"byte {place} of {path.name}"
            assert report.findings[0].table == "posts"
            path.write_bytes(healthy)
    assert dry.verify("posts").ok
