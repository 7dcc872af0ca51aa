"""Long chains, made quickly: thousands of blocks in few transactions, each one a block like any other."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import seamark as sm
from seamark.control import CommitRequest, RunRecord
from seamark.ledger.chain import ChainDraft
from seamark.tables.write.publish import add_data, mirror_head, plan_table, table_append

BLOCKS_AT_ONCE = 10_000


def add_watermark_blocks(ds: sm.DataStore, name: str, blocks: int, begin: datetime, step: timedelta) -> None:
    """Append blocks that each move the watermark, writing their files without waiting for the disk."""
    context = ds.table(name).source.context
    for start in range(0, blocks, BLOCKS_AT_ONCE):
        planned = plan_table(context, name)
        assert planned.state is not None
        draft = ChainDraft(planned.state, planned.state.system_time + timedelta(milliseconds=1))
        for number in range(start, min(start + BLOCKS_AT_ONCE, blocks)):
            add_data(draft, (), watermark=begin + number * step)
        for entry in draft.blocks:
            _write(planned.files.blocks.path(entry.hash), entry.data)
        run = RunRecord(f"{name}-{start}", name, "watermark", 0.0)
        ds.control.commit(CommitRequest(run=run, appends=(table_append(planned, draft),)))
        mirror_head(context, planned.files, name)


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
