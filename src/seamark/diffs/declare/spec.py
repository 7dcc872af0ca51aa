"""A diff as it was declared: its logs, its state, its tables, and what its records are made by. Checked once."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property
from types import CodeType, FunctionType
from typing import Any, TypeVar

import pyarrow as pa

from seamark.control import outputs_key
from seamark.diffs.compute.merge import MergeColumn
from seamark.errors import InvalidStep, SeamarkError, TableError
from seamark.steps.definition.definition import Definition, FunctionText, function_text
from seamark.steps.definition.lookup import closure_of
from seamark.steps.running.run_config import OnChange
from seamark.tables.kinds import DIFF
from seamark.tables.read.source import TableSource
from seamark.tables.schema.ddl import UTC_MICROS
from seamark.tables.schema.table_schema import Column, TableSchema

T = TypeVar("T")

SIGN, SLOW, VERSION, LOG = "Sign", "SlowVersion", "Version", "log"
REASON, AT, DELETED, EXPIRED = "reason", "at", "deleted", "expired"  # of the mark that a visit leaves when it goes
KEEP_GONE = timedelta(days=400)


def stored_wide(column: str) -> str:
    """The state's column that keeps a wide column as it was when the visit's version was written."""
    return f"_wide_{column}"


@dataclass(frozen=True)
class DiffLog:
    """One log of a diff: what brings news, in records of its own."""

    number: int  # from 1, in declared order
    source: TableSource
    deletes_by: str | None  # the column that marks a delete, "" where a retracted row is one, None where nothing is

    @property
    def name(self) -> str:
        """The log table's name."""
        return self.source.name

    @property
    def is_keyed(self) -> bool:
        """Whether its records correct and retract earlier ones."""
        return bool(self.source.schema.key)

    def has(self, column: str) -> bool:
        """Whether it has a column."""
        return column in self.source.schema.names


@dataclass(frozen=True)
class TimeToLive:
    """How long a visit stays in the state, counted from the time in one of its columns."""

    column: str
    span: timedelta


@dataclass(frozen=True)
class DiffOptions:
    """How a diff behaves, beside what its records are made of."""

    keep_intermediate: bool = False
    fail_fast: bool = False
    max_failed_keys: int = 1_000
    on_change: OnChange = "ask"
    keep_gone: timedelta = KEEP_GONE


class Expressions:
    """Spark expressions that a diff has built, by name: building them takes longer than the job of a small run."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def setdefault(self, name: str, build: Callable[[], T]) -> T:
        """What was built under a name, built now if it is the first time."""
        if name not in self._built:
            self._built[name] = build()
        found: T = self._built[name]
        return found


@dataclass(frozen=True)
class DiffSpec:
    """A diff that can be run."""

    name: str
    key: tuple[Column, ...]
    fast_version: Column
    multiplier: int
    logs: tuple[DiffLog, ...]
    columns: tuple[MergeColumn, ...]
    wide: TableSource | None = None
    ttl: TimeToLive | None = None
    fast_deletes: bool = False
    version: str | None = None
    constant: tuple[str, ...] = ()  # columns that a visit never changes
    options: DiffOptions = DiffOptions()
    expressions: Expressions = field(default_factory=Expressions, repr=False, compare=False)

    # --- its columns --------------------------------------------------------------------------------------------------

    @property
    def key_names(self) -> tuple[str, ...]:
        """The columns that tell visits apart."""
        return tuple(column.name for column in self.key)

    @property
    def key_types(self) -> dict[str, pa.DataType]:
        """The types of these columns."""
        return {column.name: column.type for column in self.key}

    @property
    def loses_visits(self) -> bool:
        """Whether visits can leave the state: by a delete, or by their age."""
        return self.ttl is not None or any(log.deletes_by is not None for log in self.logs)

    @property
    def ttl_type(self) -> pa.DataType:
        """The type of the time that visits leave the state by."""
        assert self.ttl is not None
        name = self.ttl.column
        return next(column.type for column in self.columns if column.name == name)

    def is_over(self, time: datetime | None, now: datetime) -> bool:
        """Whether a visit of a time is too old for the state at a moment. Days are compared as days."""
        if self.ttl is None or time is None:
            return False
        horizon = now - self.ttl.span
        if pa.types.is_date(self.ttl_type):  # today's midnight is not before this morning
            return time.date() < horizon.date()
        return time < horizon

    @property
    def wide_columns(self) -> tuple[Column, ...]:
        """The columns that are joined to every record, those of exactly its fast version."""
        if self.wide is None:
            return ()
        ours = (*self.key_names, self.fast_version.name)
        return tuple(column for column in self.wide.schema.columns if column.name not in ours)

    @cached_property
    def state_schema(self) -> TableSchema:
        """The state: one row per visit, with its versions, what is known of it, and the wide columns of its version."""
        own = [Column(column.name, column.type, True) for column in self.columns]
        own += [Column(stored_wide(column.name), column.type, True) for column in self.wide_columns]
        versions = [Column(self.fast_version.name, self.fast_version.type, False), Column(SLOW, pa.int64(), False)]
        return TableSchema((*_required(self.key), *versions, *own), self.key_names)

    @cached_property
    def log_schema(self) -> TableSchema:
        """The diff: one record per line, with its sign and version, the state, and the wide columns."""
        states = [Column(column.name, column.type, column.name not in self.constant) for column in self.columns]
        names = [column.name for column in self.columns]
        # Every record has the wide columns of its version: what is never NULL there is never NULL here.
        wide = [
            Column(c.name, c.type, c.nullable and c.name not in self.constant)
            for c in self.wide_columns
            if c.name not in names
        ]
        return TableSchema(
            (
                *_required(self.key),
                Column(SIGN, pa.int8(), False),
                Column(SLOW, pa.int64(), False),
                Column(self.fast_version.name, self.fast_version.type, False),
                Column(VERSION, pa.int64(), False),
                Column(LOG, pa.string(), False),
                *states,
                *wide,
            )
        )

    @cached_property
    def gone_schema(self) -> TableSchema:
        """The marks: a row per visit that has left the state, with the versions that it left at, why and when."""
        versions = [Column(self.fast_version.name, self.fast_version.type, False), Column(SLOW, pa.int64(), False)]
        why = [Column(REASON, pa.string(), False), Column(AT, UTC_MICROS, False)]
        return TableSchema((*_required(self.key), *versions, *why), self.key_names)

    @cached_property
    def times_schema(self) -> TableSchema:
        """The visits of the state by their time: read in its order, those that are too old come first."""
        assert self.ttl is not None
        return self._times_schema(self.ttl.column)

    def _times_schema(self, column: str) -> TableSchema:
        kind = next(entry.type for entry in self.columns if entry.name == column)
        return TableSchema((Column(column, kind, False), *_required(self.key)), (column, *self.key_names))

    # --- its tables ---------------------------------------------------------------------------------------------------

    @property
    def _context(self) -> Any:
        return self.logs[0].source.context

    @cached_property
    def state(self) -> TableSource:
        """The table of states."""
        return TableSource(self._context, f"{self.name}_state", self.state_schema)

    @cached_property
    def visit_log_slow(self) -> TableSource:
        """The table of the diff's records."""
        return TableSource(self._context, f"{self.name}_visit_log_slow", self.log_schema)

    @cached_property
    def gone(self) -> TableSource:
        """The table of the marks that visits leave when they go."""
        return TableSource(self._context, f"{self.name}_gone", self.gone_schema)

    @cached_property
    def times(self) -> TableSource:
        """The table of the visits by their time."""
        assert self.ttl is not None
        return self._times(self.ttl.column)

    def _times(self, column: str) -> TableSource:
        return TableSource(self._context, f"{self.name}_by_{_as_in_a_path(column)}", self._times_schema(column))

    @cached_property
    def intermediate(self) -> tuple[TableSource, ...]:
        """The tables of what a run has in its hands: the old states, then two a log. Each run replaces their rows."""
        names = [f"{self.name}_diff_log_0_state"]
        for log in self.logs:
            names += [f"{self.name}_{log.name}_visits_patched", f"{self.name}_{log.name}_visits_patched_new_only"]
        return tuple(TableSource(self._context, name, self.state_schema) for name in names)

    @property
    def sources(self) -> Mapping[str, TableSource]:
        """The tables that it reads, each once, by name."""
        tables = [log.source for log in self.logs] + ([self.wide] if self.wide else [])
        return {source.name: source for source in tables}

    @property
    def outputs(self) -> tuple[TableSource, ...]:
        """The tables that it is there for: the state and the diff."""
        return (self.state, self.visit_log_slow)

    @property
    def written(self) -> tuple[TableSource, ...]:
        """All tables that a commit of it writes."""
        marks = (self.gone,) if self.loses_visits else ()
        times = (self.times,) if self.ttl is not None else ()
        return (*self.outputs, *marks, *times, *(self.intermediate if self.options.keep_intermediate else ()))

    @property
    def may_have_written(self) -> tuple[TableSource, ...]:
        """The same with the tables that earlier commits may have written, such as those of another time to live."""
        dated = [c.name for c in self.columns if pa.types.is_timestamp(c.type) or pa.types.is_date(c.type)]
        return (*self.outputs, self.gone, *[self._times(name) for name in dated], *self.intermediate)

    @property
    def filled(self) -> tuple[str, ...]:
        """What its positions and failed visits are about: the state, whatever else it writes from now on."""
        return (self.state.name,)

    @property
    def outputs_key(self) -> str:
        """The same as the control database names it."""
        return outputs_key(self.filled)

    def explain(self, output: TableSource, error: TableError) -> SeamarkError:
        """An error about records that do not fit one of its tables, as it is: nobody's function made them."""
        return error

    # --- its definition -----------------------------------------------------------------------------------------------

    @cached_property
    def definition(self) -> Definition:
        """What its records are made by, as its chains hold it."""
        facts, sources = self._facts(), []
        digests: dict[str, str] = {}
        first: dict[str, str | None] = {}  # as they would be in a definition of the first form
        for column in self.columns:
            if callable(column.rule):
                rule = _function_text(self.name, column.rule, self.version)
                digests[column.name] = rule.digest if self.version is None else self.version
                first[column.name] = rule.first_digest if self.version is None else self.version
                sources.append(f"# {column.name}\n{rule.source}")
        lines = [f" {json.dumps(name)}: {json.dumps(fact, ensure_ascii=False)}" for name, fact in facts.items()]
        text = "\n".join(["{\n" + ",\n".join(lines) + "\n}", *sources])
        return Definition(
            step=self.name,
            kind=DIFF,
            function=self.name,
            source=text,
            digest=_digest_of(facts, digests),
            inputs=tuple((table, False, ()) for table in self.sources),
            outputs=tuple(output.name for output in self.outputs),
            keys=self.key_names,
            first_digest=_digest_of(facts, first),
        )

    def _facts(self) -> dict[str, Any]:
        constant = {"constant": list(self.constant)} if self.constant else {}
        return {
            **constant,
            "multiplier": self.multiplier,
            "fast_version": self.fast_version.name,
            "logs": [{"table": log.name, "deletes_by": log.deletes_by} for log in self.logs],
            "merge": {column.name: column.rule_name for column in self.columns},
            "wide": self.wide.name if self.wide else None,
            "wide_columns": [column.name for column in self.wide_columns],
            "ttl": [self.ttl.column, self.ttl.span.total_seconds()] if self.ttl else None,
            "fast_deletes": self.fast_deletes,
        }


def _as_in_a_path(column: str) -> str:
    """A column's name as a table's name can hold it: not every character may be in that of a folder."""
    plain = re.sub(r"[^\w-]", "_", column)
    return plain if plain == column else f"{plain}_{hashlib.sha256(column.encode()).hexdigest()[:8]}"


def _required(columns: Sequence[Column]) -> list[Column]:
    return [Column(column.name, column.type, False) for column in columns]


def _digest_of(facts: Mapping[str, Any], digests: Mapping[str, str | None]) -> str:
    text = json.dumps([facts, digests], ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _function_text(diff: str, function: Callable[..., Any], version: str | None) -> FunctionText:
    """A rule's source and its digest. Where no source is available its code decides."""
    try:
        text = function_text(diff, function, version)
    except InvalidStep:
        if not isinstance(function, FunctionType):
            raise
        text = FunctionText(f"{function.__qualname__}\n", _code_digest(function))
    if text.first_digest is None and isinstance(function, FunctionType):
        return replace(text, first_digest=_code_digest(function))
    return text


def _code_digest(function: FunctionType) -> str:
    text = repr((_code_facts(function.__code__), [repr(v) for v in closure_of(function).values() if _is_plain(v)]))
    return hashlib.sha256(text.encode()).hexdigest()


def _code_facts(code: CodeType) -> tuple[object, ...]:
    """What a piece of code does, the same in every process: no addresses, and what is inside it likewise."""
    inner = [_code_facts(const) if isinstance(const, CodeType) else repr(const) for const in code.co_consts]
    return (code.co_code, inner, code.co_names, code.co_varnames, code.co_freevars)


def _is_plain(value: object) -> bool:
    """Whether a value shows itself the same way in every process, as a function or a module does not."""
    return value is None or isinstance(value, str | bytes | int | float | bool | Decimal)
