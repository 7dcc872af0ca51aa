"""The types that Spark finds for the columns and units of views, over empty tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pyarrow as pa

from seamark.tables.schema.types import arrow_type
from seamark.views.analysis.scratch import Scratch, scratch_in
from seamark.views.model import MvPart, MvTarget
from seamark.views.paths.actions import paths_of
from seamark.views.paths.units import selectable
from seamark.views.spec import AnalysedView
from seamark.views.sql.queries import owner_names
from seamark.views.sql.texts import Changes, part_text, united, with_tables
from seamark.views.table_info import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def analysed_views(
    session: Callable[[], SparkSession],
    targets: Iterable[MvTarget],
    tables: Tables,
    before: Mapping[str, AnalysedView],
) -> Iterator[tuple[MvTarget, AnalysedView]]:
    """What Spark says of each view, or has said before; it is asked about a view once all that this reads is there."""
    with ExitStack() as stack:
        scratch: Scratch | None = None
        for target in targets:
            if target.name in before:
                yield target, before[target.name]
                continue
            scratch = scratch or stack.enter_context(scratch_in(session()))
            for name in target.tables:
                info = tables.find(name)
                assert info is not None, f"table '{name}' was checked"
                scratch.add(name, info.schema.spark_read())
            yield target, _analysed(target, scratch)


def _analysed(target: MvTarget, scratch: Scratch) -> AnalysedView:
    union = united([with_tables(part, scratch.relations.by_number(part)) for part in target.parts])
    units = () if target.is_full else tuple(_unit(part, scratch) for part in target.parts)
    return AnalysedView(_types(scratch.types_of(union)), units)


def _unit(part: MvPart, scratch: Scratch) -> tuple[pa.DataType, ...]:
    unit = paths_of(part).unit
    names = owner_names(len(unit.columns))
    shown = zip(selectable(part, unit), names, strict=True)
    columns = ", ".join(f"{expression} AS {name}" for expression, name in shown)
    given = scratch.types_of(part_text(part, Changes(scratch.relations.by_number(part), columns=columns)))
    types = _types(given, names)  # other columns may be only NULL, in a type that another part of the view gives them
    return tuple(types[name] for name in names)


def _types(columns: StructType, wanted: Collection[str] | None = None) -> dict[str, pa.DataType]:
    fields = [field for field in columns.fields if wanted is None or field.name in wanted]
    found = {field.name: arrow_type(field.dataType) for field in fields}
    assert None not in found.values(), "columns of types that no table holds were refused"
    return {name: kind for name, kind in found.items() if kind is not None}
