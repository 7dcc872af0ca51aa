"""The columns that were set aside before, joined to the visits: those of each version that their records name."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from seamark.diffs.compute.news import versions_named
from seamark.diffs.compute.visit_columns import WIDE_BY_VERSION
from seamark.diffs.declare.spec import DiffSpec
from seamark.tables.frame import quoted
from seamark.tables.read.choice import all_of


def with_wide(spec: DiffSpec, visits: DataFrame, rows: DataFrame) -> DataFrame:
    """The visits with the wide columns of each version that they name, as a map by version."""
    columns = F.struct(*[F.col(quoted(column.name)) for column in spec.wide_columns])
    entry = F.struct(F.col(quoted(spec.fast_version.name)).cast("bigint").alias("key"), columns.alias("value"))
    names = [F.col(quoted(name)).alias(f"wide {name}") for name in spec.key_names]
    maps = rows.groupBy(*names).agg(F.map_from_entries(F.collect_list(entry)).alias(WIDE_BY_VERSION))
    same = [visits[quoted(name)] == maps[quoted(f"wide {name}")] for name in spec.key_names]
    return visits.join(maps, all_of(same), "left")


def of_versions(spec: DiffSpec, rows: DataFrame, visits: DataFrame) -> DataFrame:
    """The wide rows of the versions that the visits name."""
    pairs = visits.select(
        *[F.col(quoted(name)).alias(f"its {name}") for name in spec.key_names],
        F.explode(versions_named(spec)).alias("its version"),
    )
    same = [rows[quoted(name)] == pairs[quoted(f"its {name}")] for name in spec.key_names]
    same.append(rows[quoted(spec.fast_version.name)] == pairs["its version"])
    return rows.join(pairs, all_of(same), "left_semi")
