"""What Spark has said of views before: a project whose views are on record as analysed is opened without Spark."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version

import pyarrow as pa

from seamark.control import ViewState
from seamark.tables.schema.table_schema import TableSchema
from seamark.views.checks.check import Checked
from seamark.views.meaning import digest
from seamark.views.spec import AnalysedView
from seamark.views.table_info import MvTableInfo

ANALYSIS = 2  # raised when what is analysed of a view changes, so that all are analysed again


@dataclass(frozen=True)
class Record:
    """A view as it is analysed: what stands for its model and tables, and what Spark found, as texts to be kept."""

    digest: str
    types: str


def known_analyses(checked: Checked, states: Mapping[str, ViewState]) -> dict[str, AnalysedView]:
    """What is on record of those views that have not changed since, nor the tables that they read."""
    found = {}
    for name, current in digests(checked).items():
        state = states.get(name)
        if state is not None and state.analysed_digest == current and state.analysed_types is not None:
            found[name] = _analysed_in(state.analysed_types)
    return found


def digests(checked: Checked) -> dict[str, str]:
    """What stands for the model of each view without error, and the schemas of what it reads and writes."""
    found: dict[str, str] = {}
    for target in checked.context.in_order():
        if target.name not in checked.wrong_views:
            read = [found.get(name) or _columns(checked.tables.find(name)) for name in target.tables]
            written = _columns(checked.declared.find(target.name))
            parts = (ANALYSIS, _spark_version(), digest(target), read, written)
            found[target.name] = hashlib.sha256(repr(parts).encode()).hexdigest()
    return found


def record_of(digest: str, analysed: AnalysedView) -> Record:
    """What is to be kept of an analysis."""
    names = [[f"{place}" for place in range(len(unit))] for unit in analysed.units]
    units = [dict(zip(*pair, strict=True)) for pair in zip(names, analysed.units, strict=True)]
    return Record(digest, json.dumps({"columns": _text(analysed.columns), "units": list(map(_text, units))}))


def _analysed_in(text: str) -> AnalysedView:
    kept = json.loads(text)
    return AnalysedView(_types(kept["columns"]), tuple(tuple(_types(unit).values()) for unit in kept["units"]))


def _text(types: Mapping[str, pa.DataType]) -> str:
    return base64.b64encode(pa.schema(list(types.items())).serialize()).decode()


def _types(text: str) -> dict[str, pa.DataType]:
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
    return dict(zip(schema.names, schema.types, strict=True))


def _columns(info: MvTableInfo | None) -> str:
    """All that a query can see of a table."""
    schema = TableSchema(()) if info is None else info.schema.visible
    return repr([(column.name, str(column.type), column.nullable) for column in schema.columns] + [schema.key])


@cache
def _spark_version() -> str:
    return version("pyspark")
