"""What is wrong with a diff, found when it is declared: before anything is read or written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from seamark.diffs.compute.merge import DEFAULT_RULE, NEVER_UNDONE, RULES, MergeColumn, Rule
from seamark.diffs.declare.complaints import DiffWarning as DiffWarning
from seamark.diffs.declare.complaints import refused, warn_of_sums, warn_of_timeless_logs
from seamark.diffs.declare.declaration import DiffDeclaration
from seamark.diffs.declare.spans import kept_marks, time_to_live
from seamark.diffs.declare.spec import (
    AT,
    LOG,
    REASON,
    SIGN,
    SLOW,
    VERSION,
    DiffLog,
    DiffOptions,
    DiffSpec,
)
from seamark.errors import UnknownColumn, did_you_mean
from seamark.steps.definition.signature import call_misfit
from seamark.tables.read.source import TableSource
from seamark.tables.schema.table_schema import Column, check_table_name
from seamark.tables.schema.types import spark_name
from seamark.tables.table import Table, TableOrName

FindTable = Callable[[str], Table]


def resolve_diff(declared: DiffDeclaration, find: FindTable) -> DiffSpec:
    """The diff that a declaration describes, or an error that names what is wrong with it; then nothing was added."""
    name, fast_version, deleted = declared.name, declared.fast_version, declared.deleted
    options = DiffOptions(declared.keep_intermediate, declared.fail_fast, declared.max_failed_keys, declared.on_change)
    check_table_name(name)
    _check_multiplier(name, declared.multiplier)
    _check_options(name, options)
    keys = _names(declared.key)
    tables = [_source(name, given, find) for given in declared.logs]
    _check_logs(name, tables, keys, fast_version)
    sources = _logs(name, tables, keys, deleted)
    set_aside = {*keys, fast_version, *([deleted] if deleted else [])}
    columns = _columns(name, sources, set_aside, dict(declared.merge or {}))
    wide = None
    if declared.wide is not None:
        wide = _wide(name, declared.wide, find, keys, fast_version, columns, tables[0])
    _check_names(name, [*keys, fast_version, *(c.name for c in columns)], wide)
    spec = DiffSpec(
        name=name,
        key=tuple(tables[0].schema.column(entry) for entry in keys),
        fast_version=tables[0].schema.column(fast_version),
        multiplier=declared.multiplier,
        logs=sources,
        columns=columns,
        wide=wide,
        ttl=time_to_live(name, declared.ttl, columns) if declared.ttl is not None else None,
        fast_deletes=declared.fast_deletes,
        version=declared.version,
        constant=_names(declared.constant),
        options=replace(options, keep_gone=kept_marks(name, declared.keep_gone)),
    )
    _check_constant(spec)
    _check_mark_names(spec)
    warn_of_sums(spec)
    warn_of_timeless_logs(spec)
    return spec


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


MOST_MULTIPLIER = 1 << 60  # leaves room for six slow versions


def _check_multiplier(name: str, multiplier: object) -> None:
    if not isinstance(multiplier, int) or isinstance(multiplier, bool) or multiplier <= 1:
        raise refused(
            name,
            f"multiplier={multiplier!r} leaves no room for fast versions.",
            "a version is multiplier * S + F with 0 <= F < multiplier: give a number greater than every F, such as "
            "1000.",
        )
    if multiplier > MOST_MULTIPLIER:
        raise refused(
            name,
            f"multiplier={multiplier} leaves no room for slow versions: multiplier * S + F must fit a long.",
            "give a number that is a little greater than every F, such as 1000.",
        )


def _check_options(name: str, options: DiffOptions) -> None:
    if options.on_change not in ("ask", "keep"):
        raise refused(
            name,
            f"on_change={options.on_change!r} is neither 'ask' nor 'keep'.",
            "a diff adds each record of its logs once and cannot be computed again; under another name it starts over.",
        )
    most = options.max_failed_keys
    if not isinstance(most, int) or isinstance(most, bool) or most < 0:
        raise refused(name, f"max_failed_keys={most!r} is not a number from 0 on.")


def _source(name: str, given: TableOrName, find: FindTable) -> TableSource:
    if isinstance(given, str):
        return find(given).source.visible
    if not isinstance(given, Table):
        raise refused(name, f"{given!r} is not a table.", "give a table or its name.")
    return given.source.visible


# --- logs -------------------------------------------------------------------------------------------------------------


def _check_logs(name: str, tables: Sequence[TableSource], keys: Sequence[str], fast_version: str) -> None:
    if not tables:
        raise refused(name, "it has no logs.", "give logs=[…], the joined visits first.")
    if not keys:
        raise refused(name, "it has no key.", 'give key="…", the column that tells visits apart.')
    names = [table.name for table in tables]
    doubled = next((entry for entry in names if names.count(entry) > 1), None)
    if doubled is not None:
        raise refused(name, f"log '{doubled}' is there twice.")
    first = tables[0].schema
    for table in tables:
        for column in (*keys, fast_version):
            _check_column(name, table, column, "its fast version" if column == fast_version else "its key")
            found, wanted = table.schema.column(column).type, first.column(column).type
            if found != wanted:
                raise refused(
                    name,
                    f"column '{column}' is {spark_name(wanted)} in log '{names[0]}' and {spark_name(found)} in log "
                    f"'{table.name}'.",
                )
    for column in keys:
        if pa.types.is_nested(first.column(column).type):
            raise refused(name, f"key column '{column}' is {first.column(column).shown}, which has no order.")
    if not pa.types.is_integer(first.column(fast_version).type):
        raise refused(name, f"its fast version '{fast_version}' is {first.column(fast_version).shown}, not a number.")


def _check_column(name: str, table: TableSource, column: str, what: str) -> None:
    if column not in table.schema.names:
        raise UnknownColumn(
            f"diff '{name}': {what} is column '{column}', which log '{table.name}' does not have. It was not added.",
            hint=did_you_mean(column, list(table.schema.names), f"Columns of '{table.name}'"),
        )


def _logs(name: str, tables: Sequence[TableSource], keys: Sequence[str], deleted: str | None) -> tuple[DiffLog, ...]:
    marked = [table.name for table in tables if deleted in table.schema.names and not table.schema.key]
    if deleted is not None and not marked:
        columns = [column for table in tables for column in table.schema.names]
        raise UnknownColumn(
            f"diff '{name}': deleted='{deleted}' is a column of none of its append-only logs. It was not added.",
            hint=did_you_mean(deleted, list(dict.fromkeys(columns)), "Columns of its logs"),
        )
    found = []
    for number, table in enumerate(tables, start=1):
        deletes_by = deleted if table.name in marked else None
        if number == 1 and set(table.schema.key) == set(keys):
            deletes_by = ""
        if deletes_by and not pa.types.is_boolean(table.schema.column(deletes_by).type):
            raise refused(
                name,
                f"deleted='{deletes_by}' is {table.schema.column(deletes_by).shown} in log '{table.name}'.",
                "a column that marks deletes is boolean.",
            )
        found.append(DiffLog(number, table, deletes_by))
    return tuple(found)


# --- columns ----------------------------------------------------------------------------------------------------------


def _columns(
    name: str, logs: Sequence[DiffLog], set_aside: set[str], merge: dict[str, Rule]
) -> tuple[MergeColumn, ...]:
    first_in: dict[str, tuple[DiffLog, Column]] = {}
    for entry in logs:
        for column in entry.source.schema.columns:
            if column.name in set_aside:
                continue
            known = first_in.setdefault(column.name, (entry, column))
            if known[1].type != column.type:
                raise refused(
                    name,
                    f"column '{column.name}' is {spark_name(known[1].type)} in log '{known[0].name}' and "
                    f"{spark_name(column.type)} in log '{entry.name}'.",
                )
    for column_name in merge:
        if column_name not in first_in:
            what = "is set aside before the merge" if column_name in set_aside else "none of its logs has"
            raise UnknownColumn(
                f"diff '{name}': merge names column '{column_name}', which {what}. It was not added.",
                hint=did_you_mean(column_name, list(first_in), "Columns of its logs"),
            )
    found = [MergeColumn(c.name, c.type, merge.get(c.name, DEFAULT_RULE)) for _, c in first_in.values()]
    for merged in found:
        _check_rule(name, merged, [entry for entry in logs if entry.has(merged.name)])
    return tuple(found)


def _check_rule(name: str, column: MergeColumn, logs: Sequence[DiffLog]) -> None:
    rule, kind = column.rule, column.type
    if callable(rule):
        misfit = call_misfit(rule, 2)
        if misfit is not None:
            raise refused(
                name,
                f"the merge rule of column '{column.name}' is a function that {misfit}.",
                "it is called with the older and the newer value, in this order.",
            )
        return
    if rule not in RULES:
        raise refused(
            name,
            f"the merge rule of column '{column.name}' is {rule!r}.",
            f"rules are {', '.join(RULES)}, or a function of the older and the newer value.",
        )
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    fits = {"sum": number, "append": pa.types.is_list(kind), "min": not pa.types.is_nested(kind)}
    fits["max"] = fits["min"]
    if not fits.get(rule, True):
        raise refused(
            name, f"column '{column.name}' is {column.spark_type}, which the merge rule '{rule}' cannot take."
        )
    keyed = next((entry for entry in logs if entry.is_keyed), None)
    if rule in NEVER_UNDONE and keyed is not None:
        raise refused(
            name,
            f"the merge rule of column '{column.name}' is '{rule}', and log '{keyed.name}' is keyed: what a corrected "
            f"row brought cannot be taken out of a '{rule}' again.",
            "use keep, overwrite, sum or a function, or bring the column in an append-only log.",
        )


def _wide(
    name: str,
    given: TableOrName,
    find: FindTable,
    keys: Sequence[str],
    fast_version: str,
    columns: Sequence[MergeColumn],
    first: TableSource,
) -> TableSource:
    wide = _source(name, given, find)
    if set(wide.schema.key) != {*keys, fast_version}:
        raise refused(
            name,
            f"the wide table '{wide.name}' has the key ({', '.join(wide.schema.key) or 'none'}).",
            f"its key must be ({', '.join([*keys, fast_version])}): one row per version of the fast supplier's.",
        )
    for name_of_key in (*keys, fast_version):
        found, wanted = wide.schema.column(name_of_key).type, first.schema.column(name_of_key).type
        if found != wanted:
            raise refused(
                name,
                f"column '{name_of_key}' is {spark_name(wanted)} in its logs and {spark_name(found)} in the wide table "
                f"'{wide.name}'.",
            )
    for column in columns:
        if column.name in wide.schema.names and wide.schema.column(column.name).type != column.type:
            raise refused(
                name,
                f"column '{column.name}' is {column.spark_type} in its logs and "
                f"{spark_name(wide.schema.column(column.name).type)} in the wide table '{wide.name}'.",
            )
    return wide


def _check_names(name: str, ours: Sequence[str], wide: TableSource | None) -> None:
    names = [*ours, *(n for n in (wide.schema.names if wide else ()) if n not in ours)]
    alike: dict[str, str] = {}
    for column in names:  # Spark does not tell names apart by their case
        if column in alike.values():
            continue
        other = alike.setdefault(column.lower(), column)
        if other != column:
            raise refused(name, f"its columns '{other}' and '{column}' differ only by case.", "rename one of them.")
    reserved = [entry.lower() for entry in (SIGN, SLOW, VERSION, LOG)]
    found = [column for column in names if column.lower() in reserved or column.lower().startswith("_wide_")]
    if found:
        raise refused(
            name, f"one of its columns is called '{found[0]}', as a column of the diff itself is.", "rename the column."
        )


def _check_constant(spec: DiffSpec) -> None:
    """Refuse constant columns that the diff does not have, or whose rule changes them."""
    rules = {column.name: column.rule for column in spec.columns}
    types = {column.name: column.type for column in spec.columns}
    types |= {column.name: column.type for column in spec.wide_columns}
    for name in spec.constant:
        if name not in types:
            raise UnknownColumn(
                f"diff '{spec.name}': constant names column '{name}', which neither its logs nor its wide table have "
                "beside the key. It was not added.",
                hint=did_you_mean(name, list(types), "Columns"),
            )
        if rules.get(name, "keep") not in ("keep", "overwrite") or pa.types.is_nested(types[name]):
            raise refused(
                spec.name,
                f"column '{name}' cannot be constant: its rule or its type changes it.",
                'a constant column is a plain value with the rule "overwrite" or "keep".',
            )


def _check_mark_names(spec: DiffSpec) -> None:
    """Refuse a key or fast version that is called as a column of the marks is, where visits leave marks."""
    for column in (*spec.key_names, spec.fast_version.name) if spec.loses_visits else ():
        if column.lower() in (REASON, AT):
            what = f"one of its key columns is called '{column}', as a column of '{spec.gone.name}' itself is."
            raise refused(spec.name, what, "rename the column.")
