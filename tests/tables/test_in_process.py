"""Few rows of a base are read inside the process, exactly as Spark reads them, or not at all."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import seamark as sm
from seamark.spark.frames import arrow_rows
from seamark.tables.frame import quoted
from seamark.tables.read import duck
from seamark.tables.read.choice import choose_values
from seamark.tables.read.delta_log import DeltaLog
from seamark.tables.read.in_process import first_base_rows, read_base_keys
from seamark.tables.read.rows import read_base

NAN = float("nan")
DAYS = [date(1, 1, 1), date(1582, 10, 4), date(1582, 10, 15), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31)]
TIMES = [
    datetime(1, 1, 1),
    datetime(1582, 10, 4, 23, 59, 59, 999_999),
    datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime(1970, 1, 1),
    datetime(2024, 3, 31, 1, 30, 0, 1),
    datetime(9999, 12, 31, 23, 59, 59, 999_999),
]
TEXTS = ["", " ", "a", "A", "ab", "a\0", "a\0b", "é", "e\u0301", "ß", "\uffff", "\U0001f469", "'; --", '"', "x" * 5_000]
BYTES = [b"", b"\0", b"\0\0", b"a", b"\x7f", b"\x80", b"\xff", b"\xff\0"]
FLOATS = [NAN, math.inf, -math.inf, 0.0, 1.5, -1.5, 5e-324, 1.7976931348623157e308]


def whole(bits: int) -> list[int]:
    return [-(2 ** (bits - 1)), -1, 0, 1, 2 ** (bits - 1) - 1]


# The values of each type that might be read, compared or ordered in another way; arrays and structs are only read.
PLAIN: dict[str, tuple[pa.DataType, list[Any]]] = {
    "yes": (pa.bool_(), [True, False]),
    "tiny": (pa.int8(), whole(8)),
    "small": (pa.int16(), whole(16)),
    "i": (pa.int32(), whole(32)),
    "l": (pa.int64(), whole(64)),
    "f": (pa.float32(), [NAN, math.inf, -math.inf, 0.0, 1.5, -1.5, 3.4028234663852886e38]),
    "d": (pa.float64(), FLOATS),
    "price": (pa.decimal128(9, 2), [Decimal("0.00"), Decimal("-9999999.99"), Decimal("9999999.99"), Decimal("0.01")]),
    "middle": (pa.decimal128(18, 0), [Decimal(-(10**18) + 1), Decimal(0), Decimal(10**18 - 1)]),
    "large": (pa.decimal128(38, 10), [Decimal("-" + "9" * 28 + "." + "9" * 10), Decimal("9" * 28), Decimal("1E-10")]),
    "text": (pa.string(), TEXTS),
    'q"q': (pa.string(), TEXTS[2:6]),
    "raw": (pa.binary(), BYTES),
    "day": (pa.date32(), DAYS),
    "at": (pa.timestamp("us", tz="UTC"), [moment.replace(tzinfo=UTC) for moment in TIMES]),
    "wall": (pa.timestamp("us"), TIMES),
    "filename": (pa.string(), ["a", "b"]),
    "rowid": (pa.int64(), [7]),
}
DEEP = pa.struct(
    [pa.field("x", pa.int32()), pa.field("y", pa.list_(pa.string())), pa.field("z", pa.struct([("w", pa.date32())]))]
)
NESTED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "tags": (pa.list_(pa.string()), [[], [None], ["a", None, ""], ["b"]]),
    "points": (pa.list_(pa.float64()), [[NAN, -0.0, None]]),
    "moments": (pa.list_(pa.timestamp("us", tz="UTC")), [[PLAIN["at"][1][2], None]]),
    "deep": (pa.list_(pa.list_(pa.int64())), [[[1], [], None, [None, 2]]]),
    "s": (DEEP, [{"x": None, "y": [None, "q"], "z": {"w": DAYS[1]}}, {"x": 1, "y": None, "z": None}]),
}
MISSES: dict[str, list[Any]] = {
    "text": ["b", "A\0"],
    "l": [12345],
    "d": [2.5],
    "day": [date(2000, 1, 1)],
    "raw": [b"b"],
}
ROWS = 60


def column(name: str, kind: pa.DataType, values: list[Any], rows: int = ROWS) -> pa.Array:
    """The values one after another, then NULLs now and then, so that every file has some of all."""
    return pa.array([None if row % 7 == 6 else values[row % len(values)] for row in range(rows)], kind)


def version_of(table: sm.Table) -> Any:
    return table.source.context.control.index.bases(table.name)[0]


def files_of(table: sm.Table) -> list[Path]:
    return list(DeltaLog(Path(table.source.base_folder)).files(version_of(table).delta_version))


def shown(rows: pa.Table) -> list[str]:
    """Rows as text, in the order of their offsets: NaN is equal to itself there, and -0.0 is not 0.0."""
    return [repr(row) for row in sorted(rows.to_pylist(), key=lambda row: row["_offset"])]


def by_spark(table: sm.Table, values: pa.Table, columns: list[str]) -> pa.Table:
    chosen = choose_values(table.source, values).of(read_base(table.source, version_of(table)))
    return arrow_rows(chosen.select("_offset", *map(quoted, columns)))


def in_here(table: sm.Table, values: pa.Table, columns: list[str]) -> pa.Table:
    found = read_base_keys(table.source, version_of(table), values, columns)
    assert found is not None
    wanted = [table.schema.arrow.field(name).type for name in columns]
    assert [field.type for field in found.schema] == [pa.int64(), *wanted]
    return found


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Any:
    """A table with a column of every type, folded into several files."""
    place = tmp_path_factory.mktemp("kinds")
    columns = {**PLAIN, **NESTED}
    url = f"sqlite:///{place / 'control.db'}"
    with sm.DataStore(url, place / "warehouse", spark=spark, block_rows=ROWS // 3) as ds:
        schema = pa.schema([("id", pa.int64()), *((name, kind) for name, (kind, _) in columns.items())])
        table = ds.table("kinds", schema, key="id")
        arrays = [column(name, kind, values) for name, (kind, values) in columns.items()]
        table.upsert(pa.Table.from_arrays([pa.array(range(ROWS)), *arrays], schema=schema))
        assert table.fold().folded
        assert len(files_of(table)) > 1
        yield table


# --- exactly as Spark -------------------------------------------------------------------------------------------------


@st.composite
def choices(draw: st.DrawFn) -> tuple[pa.Table, list[str]]:
    """Tuples of one to three columns, some of which no row has, and the columns to read."""
    names = draw(st.lists(st.sampled_from(sorted(PLAIN)), min_size=1, max_size=3, unique=True))
    pools = [st.sampled_from([None, *PLAIN[name][1], *MISSES.get(name, [])]) for name in names]
    tuples = draw(st.lists(st.tuples(*pools), max_size=12))
    arrays = [pa.array([row[place] for row in tuples], PLAIN[name][0]) for place, name in enumerate(names)]
    columns = draw(st.lists(st.sampled_from(["id", *PLAIN, *NESTED]), unique=True))
    return pa.Table.from_arrays(arrays, names=names), columns


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(chosen=choices())
def test_rows_by_value_are_sparks(kinds: sm.Table, chosen: tuple[pa.Table, list[str]]) -> None:
    values, columns = chosen
    assert shown(in_here(kinds, values, columns)) == shown(by_spark(kinds, values, columns))


@pytest.mark.parametrize("name", sorted(PLAIN))
def test_every_value_of_a_type_finds_its_rows(kinds: sm.Table, name: str) -> None:
    """Each value by itself, with what Spark has of the column read once: so that every type meets every edge."""
    kind, pool = PLAIN[name]
    everything = arrow_rows(read_base(kinds.source, version_of(kinds)).select("_offset", quoted(name))).to_pylist()
    for value in [None, *pool]:
        found = in_here(kinds, pa.table({name: pa.array([value], kind)}), [name])
        assert shown(found) == sorted(
            (repr(row) for row in everything if repr(row[name]) == repr(pa.scalar(value, kind).as_py())),
            key=lambda text: int(text.split(":")[1].split(",")[0]),
        )


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(order=st.lists(st.sampled_from(sorted(PLAIN)), max_size=3, unique=True), limit=st.integers(0, ROWS + 5))
def test_first_rows_are_in_sparks_order(kinds: sm.Table, order: list[str], limit: int) -> None:
    order = [*order, "id"]  # so that no two rows are equal in it
    columns = ["id", *PLAIN, *NESTED]
    first = read_base(kinds.source, version_of(kinds)).orderBy(*[quoted(name) for name in order]).limit(limit)

    found = first_base_rows(kinds.source, version_of(kinds), columns, order, limit)

    expected = arrow_rows(first.select("_offset", *map(quoted, columns)))
    assert found is not None
    assert [repr(row) for row in found.to_pylist()] == [repr(row) for row in expected.to_pylist()]


def test_many_values_are_found_too(kinds: sm.Table) -> None:
    values = pa.table({"id": pa.array(range(-500, 1_000, 2), pa.int64())})
    found = in_here(kinds, values, ["id"])
    assert sorted(found.column("id").to_pylist()) == list(range(0, ROWS, 2))


def test_the_zone_of_the_process_changes_nothing(kinds: sm.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    values = pa.table({"at": pa.array(PLAIN["at"][1], PLAIN["at"][0])})
    before = in_here(kinds, values, ["at", "wall", "day", "moments"])
    monkeypatch.setenv("TZ", "America/New_York")
    duck.forget(kinds.source.context.warehouse)
    assert shown(in_here(kinds, values, ["at", "wall", "day", "moments"])) == shown(before)
    assert before.num_rows > 0


def test_arrays_and_structs_are_not_compared(kinds: sm.Table) -> None:
    for name, (kind, values) in NESTED.items():
        chosen = pa.table({name: pa.array(values[:1], kind)})
        assert read_base_keys(kinds.source, version_of(kinds), chosen, ["id"]) is None
        assert first_base_rows(kinds.source, version_of(kinds), ["id"], [name], 5) is None
