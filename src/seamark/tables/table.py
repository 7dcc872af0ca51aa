"""A table, as a person uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from seamark.control import Mode, TableHead
from seamark.errors import NOTHING_WRITTEN, InvalidSchema, WrongVerb
from seamark.ledger import DatasetKind
from seamark.spark.frames import spark_frame
from seamark.tables.care.fold import FoldReport, fold_table
from seamark.tables.computed import computed, in_files
from seamark.tables.context import TableContext
from seamark.tables.frame import CheckedFrame
from seamark.tables.frames import check_frame, check_wanted_keys
from seamark.tables.read.few_rows import read_few
from seamark.tables.read.in_process import OFFSET
from seamark.tables.read.records import read_changes
from seamark.tables.read.rows import rows_of
from seamark.tables.read.snapshot import check_as_of, snapshot_at
from seamark.tables.read.source import TableSource
from seamark.tables.schema.table_schema import TableSchema
from seamark.tables.write.change import (
    Change,
    NoRecords,
    append_change,
    appended_rows,
    checked_choice,
    delete_change,
    replace_change,
    spark_errors_explained,
    upsert_change,
)
from seamark.tables.write.publish import Planned
from seamark.tables.write.slices import doubled_among
from seamark.tables.write.stage import refuse_doubled_key
from seamark.tables.write.write_change import NOTHING_ELSE, Advance, Commit, write_change

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from seamark.tables.frames import Frame


@dataclass(frozen=True, slots=True)
class Head:
    """Where a table stands: its newest block, its last record and the time of its last commit.

    A table without a chain has sequence -1, so that the first block's is one more, and no hash, offset or time.
    """

    sequence: int
    block_hash: str | None
    offset: int | None
    system_time: datetime | None

    @staticmethod
    def of(head: TableHead | None) -> Head:
        """The head that the control database has for a table, if any."""
        if head is None:
            return Head(-1, None, None, None)
        return Head(head.sequence, head.head_hash, head.last_offset, head.system_time)


class Table:
    """A keyed or append-only table of a store."""

    def __init__(
        self,
        context: TableContext,
        name: str,
        schema: TableSchema,
        *,
        changefeeds: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._source = TableSource(context, name, schema)
        self.changefeeds = {"log": (), **{feed: tuple(users) for feed, users in (changefeeds or {}).items()}}

    def __repr__(self) -> str:
        key = ", ".join(self.key) or "append-only"
        return f"Table({self.name!r}, key: {key})"

    @property
    def name(self) -> str:
        """The table's name."""
        return self._source.name

    @property
    def schema(self) -> TableSchema:
        """Columns, key and event time, without hidden columns."""
        return self._source.schema.visible

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns; empty for an append-only table."""
        return self._source.schema.key

    @property
    def source(self) -> TableSource:
        """The table as the reading and writing functions take it, with its hidden columns."""
        return self._source

    @property
    def head(self) -> Head:
        """Where the table stands now."""
        return Head.of(self._source.context.control.index.head(self.name))

    # --- writing ------------------------------------------------------------------------------------------------------

    def upsert(self, frame: Frame) -> Commit | None:
        """Make a frame's rows the table's for their keys; gives what was written, or None if nothing differs."""
        self._only_keyed("upsert", "append")
        with self._computed(self._checked(frame)) as rows:
            return self._write(Mode.UPSERT, lambda planned: upsert_change(self._source, rows, planned.last_offset))

    def replace(self, frame: Frame) -> Commit | None:
        """Make a frame the whole table: rows that are not in it are retracted."""
        self._only_keyed("replace", "append")
        with self._in_files(self._checked(frame)) as rows:
            return self._write(Mode.REPLACE, lambda planned: replace_change(self._source, rows, planned.last_offset))

    def delete(self, keys: Frame) -> Commit | None:
        """Retract the rows with these keys; keys that are not there do not matter, nor do other columns."""
        self._only_keyed("delete", "append")
        checked = check_frame(self.name, self.schema, keys, only_key=True)
        with self._computed(checked, only_key=True) as wanted:
            return self._write(Mode.DELETE, lambda planned: delete_change(self._source, wanted, planned.last_offset))

    def append(self, frame: Frame) -> Commit | None:
        """Add the rows of a frame to an append-only table, in the frame's order."""
        if self.key:
            raise WrongVerb(
                f"table '{self.name}' has a key, {', '.join(self.key)}: `append` does not fit it.",
                outcome=NOTHING_WRITTEN,
                hint="use `upsert`, `replace` or `delete`.",
            )
        rows = check_frame(self.name, self.schema, frame)
        return self._write(Mode.APPEND, lambda _: append_change(self._source, rows))

    def set_watermark(self, moment: datetime) -> Commit | None:
        """Say that nothing older than this is expected any more; gives None if the watermark stands there already."""
        if not isinstance(moment, datetime):
            raise InvalidSchema(
                f"table '{self.name}': a watermark is a datetime, not {moment!r}.",
                outcome=NOTHING_WRITTEN,
                hint="give a datetime; one without a time zone is taken as UTC.",
            )
        in_utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        watermark = in_utc.replace(microsecond=in_utc.microsecond // 1000 * 1000)
        return self._write(Mode.WATERMARK, lambda _: NoRecords(), Advance(watermark=watermark))

    def _write(
        self, mode: Mode, make_change: Callable[[Planned], Change], advance: Advance = NOTHING_ELSE
    ) -> Commit | None:
        self._only_root()
        return write_change(self._source, mode, make_change, advance)

    def _checked(self, frame: Frame) -> CheckedFrame:
        rows = check_frame(self.name, self.schema, frame)
        if rows.in_memory is not None:
            records = appended_rows(rows.in_memory)
            refuse_doubled_key(self.name, doubled_among(self.schema, records))
        return rows

    @contextmanager
    def _computed(self, rows: CheckedFrame, *, only_key: bool = False) -> Iterator[CheckedFrame]:
        """The rows, computed if they are to be compared with others; what comes to the driver is checked there."""
        if rows.in_memory is not None or self.head.offset is None:
            with self._in_files(rows) as kept:
                yield kept
            return
        with ExitStack() as until_written:
            columns = _of_columns(self.schema, rows)
            with spark_errors_explained(self._source):
                at_hand = until_written.enter_context(computed(self._source.context, rows, columns))
            if at_hand.in_memory is None:
                yield at_hand
            elif only_key:
                yield check_frame(self.name, self.schema, at_hand.in_memory, only_key=True)
            else:
                yield self._checked(at_hand.in_memory)

    @contextmanager
    def _in_files(self, rows: CheckedFrame) -> Iterator[CheckedFrame]:
        """The rows; if they are to be compared with others, and too large for that in memory, in files for Spark."""
        if self.head.offset is None:
            yield rows
            return
        with in_files(self._source.context, rows, self.schema) as kept:
            yield kept

    def _only_keyed(self, verb: str, fitting: str) -> None:
        if not self.key:
            raise WrongVerb(
                f"table '{self.name}' is append-only, so `{verb}` does not fit it.",
                outcome=NOTHING_WRITTEN,
                hint=f"use `{fitting}`, or declare the table with a key.",
            )

    def _only_root(self) -> None:
        maker = self._source.context.makers.get(self.name)
        if maker is not None:
            raise WrongVerb(
                f"table '{self.name}' is derived: step '{maker}' writes it.",
                outcome=NOTHING_WRITTEN,
                hint="change the step's inputs, or write to another table.",
            )
        head = self._source.context.control.index.head(self.name)
        if head is not None and head.kind != DatasetKind.ROOT.name.lower():
            raise WrongVerb(
                f"table '{self.name}' is derived: a step writes it.",
                outcome=NOTHING_WRITTEN,
                hint="change the step's inputs, or write to another table.",
            )

    # --- reading ------------------------------------------------------------------------------------------------------

    def rows(self, as_of: int | None = None) -> DataFrame:
        """The current rows as a Spark frame, or those that stood after the record `as_of`, the end of a commit."""
        last = self.head.offset
        upto = last if as_of is None else check_as_of(self._source, as_of, last)
        return rows_of(snapshot_at(self._source.visible, upto))

    def get_data(self, idx: Frame) -> DataFrame:
        """The rows for a frame of keys, each once. Of few keys in memory they are read at once, and without a job."""
        self._only_keyed("get_data", "rows")
        keys = check_wanted_keys(self.name, self.schema, idx)
        snapshot = snapshot_at(self._source.visible, self.head.offset)
        if keys.in_memory is not None:
            few = read_few(snapshot, keys.in_memory.select(list(self.key)), self.schema.names)
            if few is not None:
                session = self._source.context.session()
                return spark_frame(session, few.drop_columns([OFFSET]), self.schema.spark_read())
        return rows_of(snapshot, checked_choice(self._source, keys))

    def changes(self, after: int | None = None, upto: int | None = None) -> DataFrame:
        """The records with after < offset <= upto, in order: offset, op, both times, and all columns, hidden or not."""
        return read_changes(self._source, after=after, upto=upto).orderBy("offset")

    def fold(self) -> FoldReport:
        """Bring the base up to the head, so that reading rows is quick again."""
        return fold_table(self._source)


def _of_columns(schema: TableSchema, rows: CheckedFrame) -> pa.Schema:
    """The Arrow types of a frame's columns; whether they hold NULLs is yet to be seen."""
    return pa.schema([pa.field(name, schema.column(name).type) for name in rows.names])


TableOrName: TypeAlias = Table | str
"""A table, or the name by which a store knows it."""
