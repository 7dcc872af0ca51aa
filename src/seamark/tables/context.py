"""What every table of a store shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.clock import Clock
from seamark.config import RowSettings
from seamark.control import Control
from seamark.ledger.objects import ChainFiles
from seamark.tables.write.cuts import CutPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from seamark.tables.read.cache import BaseCache

STAGING_FOLDER = ".staging"


@dataclass(frozen=True)
class TableContext:
    """The rooms that a table lives in: control database, warehouse, clock and Spark, which starts when it is needed."""

    control: Control
    warehouse: Path
    clock: Clock
    session: Callable[[], SparkSession]
    cache: BaseCache
    cut: CutPlan = field(default_factory=CutPlan)
    rows: RowSettings = field(default_factory=RowSettings)
    write_wait: float = 600.0
    makers: dict[str, str] = field(default_factory=dict)  # the step that writes each derived table of this program
    _files: dict[str, ChainFiles] = field(default_factory=dict, repr=False, compare=False)

    def files(self, table: str) -> ChainFiles:
        """The files of a table's chain; asked for again, the same object with the blocks that it remembers."""
        return self._files.setdefault(table, ChainFiles(self.warehouse / table))

    def staging_folder(self, run_id: str) -> Path:
        """Where a run puts what it has written and not yet registered."""
        return self.warehouse / STAGING_FOLDER / run_id
