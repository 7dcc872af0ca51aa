"""One slice: whether its bytes are those that its block names, and whether its records are what the block declares."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]

from seamark.ledger.events import Block, DataSlice
from seamark.ledger.logical_hash import LogicalHasher
from seamark.ledger.verify.columns import SliceColumns
from seamark.ledger.verify.files import FileBytes, Seen, look
from seamark.ledger.verify.records import RecordRules, Trouble
from seamark.ledger.verify.unpacking import TooLarge, check_footer, rows_at_a_time

# A footer with more text or longer lists than this is not one of a slice.
_FOOTER_LIMITS = {"thrift_string_size_limit": 16 << 20, "thrift_container_size_limit": 1_000_000}

_WORTH_THREADS = 50_000  # below so many records threads wait for one another longer than they help


@dataclass(slots=True)
class SliceVerifier:
    """Verifies the slices of one chain, oldest first: the keys of a commit continue from one slice to the next."""

    columns: SliceColumns
    _block: Block | None = None
    _last_key: pa.RecordBatch | None = None

    def trouble(self, path: Path, piece: DataSlice, block: Block) -> Trouble | None:
        """The first thing that is wrong with a slice, which explains what else may be, or None."""
        seen = look(path)
        if seen.instead is not None:
            kind = "missing data" if seen.instead == "nothing" else "unreadable data"
            return Trouble(kind, piece.physical_hash, seen.instead, f"slice {piece.physical_hash} is not there")
        within = self._within(path, seen, piece, block)
        if seen.hash != piece.physical_hash:
            return _changed(piece, seen, within)
        if within is None and seen.size != piece.size:
            what = f"slice {piece.physical_hash} has another size than its block says"
            return Trouble("size", str(piece.size), str(seen.size), what)
        return within

    def _within(self, path: Path, seen: Seen, piece: DataSlice, block: Block) -> Trouble | None:
        """What is wrong with the records. Whatever a strange file makes of its reader is trouble with the file."""
        try:
            return self._first_within(path, seen, piece, block)
        except TooLarge as error:
            what = f"slice {piece.physical_hash} was not read, for it would unfold beyond measure"
            return Trouble("unreadable data", "a slice that its size explains", str(error), what)
        except Exception as error:
            # Not a swallowed error: it is what this slice is reported for, and the others are verified all the same.
            reason = (str(error).strip().splitlines() or [""])[0]
            what = f"slice {piece.physical_hash} cannot be read"
            return Trouble("unreadable data", "a slice", f"{type(error).__name__}: {reason}", what)

    def _first_within(self, path: Path, seen: Seen, piece: DataSlice, block: Block) -> Trouble | None:
        if seen.data is not None:
            return self._first_in_records(seen.data, pa.BufferReader(seen.data), piece, block)
        with path.open("rb") as opened:
            return self._first_in_records(FileBytes(opened, seen.size), path, piece, block)

    def _first_in_records(
        self, data: bytes | FileBytes, source: Path | pa.BufferReader, piece: DataSlice, block: Block
    ) -> Trouble | None:
        """Columns, count, rules and logical hash of the records, reading the slice once."""
        check_footer(data)
        opened = pq.ParquetFile(source, **_FOOTER_LIMITS)
        schema = opened.schema_arrow
        misfit = self.columns.first_misfit(schema)
        if misfit is not None:
            return Trouble("columns", *misfit, "its slice has other columns than the table")
        interval = piece.offset_interval
        wanted = interval.end - interval.start + 1
        if opened.metadata.num_rows != wanted:
            return _miscounted(wanted, opened.metadata.num_rows)
        rules, hasher = self._rules(piece, block), LogicalHasher(schema)
        rows = rows_at_a_time(data, opened)
        for batch in opened.iter_batches(rows, use_threads=wanted > _WORTH_THREADS):
            trouble = rules.check(batch)
            if trouble is not None:
                return trouble
            hasher.update(batch)
        counted = rules.next_offset - interval.start
        if counted != wanted:
            return _miscounted(wanted, counted)
        self._block, self._last_key = block, rules.last_key
        found = hasher.text()
        if found != piece.logical_hash:
            what = f"the records of slice {piece.physical_hash} are not those that were committed"
            return Trouble("logical hash", piece.logical_hash, found, what)
        return rules.end()

    def _rules(self, piece: DataSlice, block: Block) -> RecordRules:
        same_commit = self._block is not None and self._block.system_time == block.system_time
        last_key = self._last_key if same_commit else None
        return RecordRules(self.columns, block.system_time, piece.offset_interval.start, last_key)


def _miscounted(wanted: int, counted: int) -> Trouble:
    return Trouble("records", str(wanted), str(counted), "its slice has another number of records")


def _changed(piece: DataSlice, seen: Seen, within: Trouble | None) -> Trouble:
    """A slice with other bytes than its block names. Whether its records differ as well is worth knowing, no more."""
    name = piece.physical_hash
    if within is None:
        # The logical hash writes a NULL as a zero byte, so that it does not tell all places of NULLs apart.
        what = f"slice {name} was changed; by their logical hash its records are the same, encoded again"
    else:
        what = (
            f"slice {name} was changed: {within.what}: {within.kind} expected {within.expected}, found {within.found}"
        )
    return Trouble("physical hash", name, str(seen.hash), what)
