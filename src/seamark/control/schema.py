"""The tables of the control database."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, Integer, MetaData, Table, Text

SCHEMA_VERSION = 3  # each step from one version to the next is in control/versions/upgrade.py

metadata = MetaData()

seamark_schema = Table("seamark_schema", metadata, Column("version", Integer, nullable=False))

# One row per table: where its chain ends, and the few blocks from which the next transaction is planned.
table_head = Table(
    "table_head",
    metadata,
    Column("table_name", Text, primary_key=True),
    Column("dataset_id", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("head_hash", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("last_offset", BigInteger),
    Column("system_time", BigInteger, nullable=False),  # milliseconds since 1970, like all commit times here
    Column("data_block", Text),
    Column("schema_block", Text),
    Column("transform_block", Text),
)

# An index of every chain. It holds the slice's name as well, so that a read opens no block.
block = Table(
    "block",
    metadata,
    Column("table_name", Text, primary_key=True),
    Column("sequence", BigInteger, primary_key=True),
    Column("hash", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("first_offset", BigInteger),
    Column("last_offset", BigInteger),
    Column("system_time", BigInteger, nullable=False),
    Column("slice_hash", Text),
    Column("slice_size", BigInteger),
    Column("checkpoint_hash", Text),
    Index("block_by_hash", "table_name", "hash"),
    Index("block_by_offset", "table_name", "last_offset"),
    Index("block_by_time", "table_name", "system_time"),
)

base = Table(
    "base",
    metadata,
    Column("table_name", Text, primary_key=True),
    Column("delta_version", BigInteger, primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("last_offset", BigInteger, nullable=False),
    Column("row_count", BigInteger, nullable=False),
    Column("distrusted_at", Double),  # when its rows were found to be others than the log's: it is no longer read
)

# Positions belong to the outputs that they were made with, as `outputs_key` names them; "" is not known.
transform_input_offset = Table(
    "transform_input_offset",
    metadata,
    Column("transformation_id", Text, primary_key=True),
    Column("outputs", Text, primary_key=True),
    Column("input_table_name", Text, primary_key=True),
    Column("update_ts_offset", Double),
    Column("record_offset", BigInteger),
    Column("block_sequence", BigInteger),
    Column("block_hash", Text),
    Column("generation", BigInteger, nullable=False),
)

transform_meta = Table(
    "transform_meta",
    metadata,
    Column("transformation_id", Text, primary_key=True),
    Column("outputs", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("process_ts", Double, nullable=False),
    Column("is_success", Boolean, nullable=False),
    Column("error", Text),
    Column("attempts", Integer, nullable=False),
    Column("retry_after", Double),
    Column("read_at", Text),  # the positions a key was read at, as JSON
    Column("whole_key", Text),  # a key that is too long for an index, which then has a short form of it in `key`
)

run = Table(
    "run",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("step", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("started", Double, nullable=False),
    Column("ended", Double),
    Column("pins", Text),
    Column("rows_in", BigInteger),
    Column("rows_out", BigInteger),
    Column("outcome", Text, nullable=False),
    Column("error", Text),
    Column("commit_token", Text),  # which of the run's commits was the last: answers "did mine get through?"
    Column("outputs", Text),  # of a step's run
    Index("run_by_step", "step", "started"),
)

# A row with an empty object says "this run lives"; the others name the files that it has written and not yet committed.
staged = Table(
    "staged",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("object", Text, primary_key=True),
    Column("touched", Double, nullable=False),
)

sink_position = Table(
    "sink_position",
    metadata,
    Column("sink", Text, primary_key=True),
    Column("table_name", Text, primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("target", Text),  # where it was sent to, without secrets; NULL: before that was written down
)

lease = Table(
    "lease",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("expires_at", Double, nullable=False),
)

# Runs of steps that are at work: a row goes when its run ends; one that stays behind its lease was killed.
live_run = Table(
    "live_run",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("step", Text, nullable=False),
    Column("lease_name", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("place", Text, nullable=False),  # host and process
    Column("mode", Text, nullable=False),
    Column("started", Double, nullable=False),
    Column("pins", Text, nullable=False),  # the last record that is read of each input, as JSON
    Column("batch", Integer, nullable=False),  # the batch at work, from 1; 0 before the first
    Column("batches", Integer, nullable=False),  # how many are known so far
    Index("live_run_by_lease", "lease_name"),
)

# Materialized views: what a project that is opened without Spark must know of them, and which ones are paused.
mv_views = Table(
    "mv_views",
    metadata,
    Column("view_name", Text, primary_key=True),
    Column("analysed_digest", Text),  # of the model and the schemas of its inputs, as Spark has accepted them
    Column("analysed_types", Text),  # of its columns and units, as Spark has found them then, as JSON
    Column("paused_since", Double),
)

# How far each scan, or pass over dictionaries, of a view has come. Its cursor moves in the commits of its pages.
mv_scans = Table(
    "mv_scans",
    metadata,
    Column("job_name", Text, primary_key=True),
    Column("target_name", Text, primary_key=True),
    Column("part", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("filter", Text, primary_key=True),  # the digest of the filter, empty without one
    Column("key_position", Text),  # the last unit of the pages that are done, as JSON; NULL before the first
    Column("interval", Text),  # the records that a pass over dictionaries is about, as JSON
    Column("rows_done", BigInteger, nullable=False),
    Column("rate", Double),  # rows per second at most
    Column("started_at", Double, nullable=False),
    Column("done_at", Double),
)
