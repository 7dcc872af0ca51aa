"""The units that rows belong to, where that takes the part's own joins."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from seamark.spark.frames import arrow_rows
from seamark.tables.frame import CheckedFrame, LocalFrame, SparkFrame
from seamark.views.refresh.query import over_frames
from seamark.views.refresh.rows import ViewTables
from seamark.views.refresh.units import PartUnits
from seamark.views.sql.units import units_query


def units_by_query(
    part: PartUnits, frames: Mapping[int, CheckedFrame], waiting: Collection[int], tables: ViewTables
) -> CheckedFrame:
    """The units of a part's left-most rows, each once: found are enough, and perhaps more.

    `frames` are rows of the part's tables by their numbers, `waiting` those whose rows are versions of which some are
    gone.
    """
    found = over_frames(
        tables.session,
        lambda names: units_query(part.paths, names, waiting, keys=None),
        frames,
        part.part.text.text,
        tables.schemas(part.part),
    )
    if all(frame.in_memory is not None for frame in frames.values()):
        return LocalFrame(arrow_rows(found))
    return SparkFrame(found)


def tables_of_units(part: PartUnits) -> frozenset[int]:
    """The tables that decide what unit a left-most row belongs to: those of FROM, without SEMI and ANTI joins."""
    query, lineage = part.unit.query, part.paths.facts.lineage
    if query is None:
        return frozenset()
    seen = frozenset[int]()
    for source in query.sources:
        if source.kind.is_seen:
            seen |= {source.number} if source.query is None else lineage.in_from(source.query)
    return seen
