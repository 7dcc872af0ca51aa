"""Few rows of a snapshot are read inside the process: base and tail together give exactly the rows that Spark gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import seamark as sm
from seamark.facts.rows import read_rows
from seamark.spark.frames import arrow_rows
from seamark.tables.frame import quoted
from seamark.tables.read import few_rows
from seamark.tables.read.choice import EVERYTHING, choose_values
from seamark.tables.read.delta_log import DeltaLog
from seamark.tables.read.few_rows import read_few, read_first
from seamark.tables.read.rows import images_of
from seamark.tables.read.snapshot import snapshot_at

NAN = float("nan")
TIMES = [datetime(1582, 10, 4), datetime(1970, 1, 1), datetime(2024, 3, 31, 1, 30, 0, 1)]
# One key column of every type that a key may have. A row's place makes its key the only one.
KEY: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "yes": ("boolean", pa.bool_(), [True, False]),
    "tiny": ("tinyint", pa.int8(), [-128, 0, 127]),
    "small": ("smallint", pa.int16(), [-1, 0]),
    "i": ("int", pa.int32(), [2**31 - 1, 0]),
    "f": ("float", pa.float32(), [NAN, math.inf, 0.0, 1.5]),
    "d": ("double", pa.float64(), [0.0, NAN, -math.inf, 5e-324]),
    "price": ("decimal(9,2)", pa.decimal128(9, 2), [Decimal("0.01"), Decimal("-9999999.99")]),
    "large": ("decimal(38,10)", pa.decimal128(38, 10), [Decimal("9" * 28), Decimal("1E-10")]),
    "text": ("string", pa.string(), ["", "a", "A", "a\0", "é", "e\u0301", "\U0001f469"]),
    "raw": ("binary", pa.binary(), [b"", b"\0", b"\xff"]),
    "day": ("date", pa.date32(), [date(1, 1, 1), date(1582, 10, 4), date(2024, 2, 29)]),
    "at": ("timestamp", pa.timestamp("us", tz="UTC"), [moment.replace(tzinfo=UTC) for moment in TIMES]),
    "wall": ("timestamp_ntz", pa.timestamp("us"), TIMES),
    "place": ("long", pa.int64(), []),
}
VALUES: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "number": ("double", pa.float64(), [0.0, -0.0, NAN, 1.5, None]),
    "note": ("string", pa.string(), ["x", None, "y"]),
    "tags": ("array<string>", pa.list_(pa.string()), [[], None, ["a", None]]),
}
LATER = ("later", "string", pa.string())
ROWS = 60
COLUMNS = [*KEY, *VALUES, "later"]


def of_rows(places: list[int], turn: int, *, later: bool) -> pa.Table:
    """Rows with these places; `turn` gives the same keys other values."""
    keys = [
        pa.array(places if name == "place" else [pool[place % len(pool)] for place in places], kind)
        for name, (_, kind, pool) in KEY.items()
    ]
    values = [
        pa.array([pool[(place + turn) % len(pool)] for place in places], kind) for _, kind, pool in VALUES.values()
    ]
    more = [pa.array([f"at turn {turn}" if place % 2 else None for place in places], pa.string())] if later else []
    return pa.Table.from_arrays([*keys, *values, *more], names=[*KEY, *VALUES, *([LATER[0]] if later else [])])


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Any:
    """A table folded in the middle of its life: columns came, rows were corrected, deleted and came back after it."""
    folder = tmp_path_factory.mktemp("told")
    columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in {**KEY, **VALUES}.items())
    with sm.DataStore(f"sqlite:///{folder / 'control.db'}", folder / "warehouse", spark=spark) as ds:
        first = ds.table("told", columns, key=list(KEY))
        first.upsert(of_rows(list(range(ROWS)), 0, later=False))
        assert first.fold().folded
        table = ds.table("told", f"{columns}, {LATER[0]} {LATER[1]}", key=list(KEY))
        table.upsert(of_rows([place for place in range(ROWS) if place % 5 == 0], 1, later=True))
        table.delete(of_rows([place for place in range(ROWS) if place % 7 == 0], 0, later=True).select(list(KEY)))
        table.upsert(of_rows([0, 35, *range(ROWS, ROWS + 9)], 2, later=True))
        table.delete(of_rows([35, ROWS + 1], 0, later=True).select(list(KEY)))
        yield table


def shown(rows: pa.Table) -> list[str]:
    """Rows as text, in the order of their offsets: NaN is equal to itself there, and -0.0 is not 0.0."""
    return [repr(row) for row in sorted(rows.to_pylist(), key=lambda row: row["_offset"])]


def by_spark(table: sm.Table, upto: int, values: pa.Table | None, columns: list[str]) -> pa.Table:
    choice = EVERYTHING if values is None else choose_values(table.source, values)
    images = images_of(snapshot_at(table.source, upto), choice)
    return arrow_rows(images.select("_offset", *map(quoted, columns)))


def in_here(table: sm.Table, upto: int | None, values: pa.Table | None, columns: list[str]) -> pa.Table:
    found = read_few(snapshot_at(table.source, upto), values, columns)
    assert found is not None
    return found


# --- exactly as Spark -------------------------------------------------------------------------------------------------


@st.composite
def choices(draw: st.DrawFn) -> tuple[pa.Table | None, list[str]]:
    """Keys that are there, were there or never were, whole or in part, or values of other columns; what to read."""
    columns = draw(st.lists(st.sampled_from(COLUMNS), unique=True))
    kind = draw(st.sampled_from(["everything", "keys", "part", "values"]))
    if kind == "everything":
        return None, columns
    places = draw(st.lists(st.integers(0, ROWS + 15), max_size=12))
    rows = of_rows(places, draw(st.integers(0, 2)), later=True)
    if kind == "keys":
        return rows.select(list(KEY)), columns
    pool = list(KEY) if kind == "part" else ["place", "number", "note", "later"]
    names = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3, unique=True))
    return rows.select(names), columns


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(chosen=choices(), when=st.sampled_from([ROWS - 1, None]))
def test_rows_of_a_snapshot_are_sparks(told: sm.Table, chosen: tuple[Any, list[str]], when: int | None) -> None:
    values, columns = chosen
    upto = told.head.offset if when is None else when
    assert upto is not None
    assert shown(in_here(told, upto, values, columns)) == shown(by_spark(told, upto, values, columns))


@pytest.mark.parametrize("limit", [0, 1, 5, 40, 200])
def test_first_rows_are_sparks(told: sm.Table, limit: int) -> None:
    """However many of the first rows of the base the tail took away."""
    snapshot = snapshot_at(told.source, told.head.offset)
    found = read_first(snapshot, limit)
    assert found is not None
    first = images_of(snapshot).orderBy(*map(quoted, KEY)).limit(limit).select("_offset", *map(quoted, COLUMNS))
    assert [repr(row) for row in found.to_pylist()] == [repr(row) for row in arrow_rows(first).to_pylist()]


def test_before_the_first_record_there_is_nothing(told: sm.Table) -> None:
    assert in_here(told, None, None, ["place"]).num_rows == 0
    assert in_here(told, None, of_rows([1], 0, later=True).select(list(KEY)), ["place"]).num_rows == 0


def test_a_frame_of_few_keys_is_like_any_other(told: sm.Table, count_jobs: Callable[[], Any]) -> None:
    keys = of_rows([0, 1, 2, 7, 35, ROWS + 2], 0, later=True).select(list(KEY))
    with count_jobs() as counted:
        frame = told.get_data(keys)
        found = frame.select("place").collect()
    assert counted.jobs == 0
    assert frame.schema == told.rows().schema
    assert sorted(row.place for row in found) == [0, 1, 2, ROWS + 2]
    both = frame.unionByName(told.rows()).groupBy(*map(quoted, KEY)).count()
    assert both.where("count = 2").count() == 4


# --- without Spark ----------------------------------------------------------------------------------------------------


@pytest.fixture
def folded(ds: sm.DataStore, open_store: Callable[..., sm.DataStore], no_spark: Any) -> sm.Table:
    """A folded table with a tail, in a store for which there is no Spark."""
    posts = ds.table("posts", "post_id long, content string", key="post_id")
    posts.upsert(pa.table({"post_id": list(range(1_000)), "content": [f"c{i}" for i in range(1_000)]}))
    assert posts.fold().folded
    posts.upsert(pa.table({"post_id": [0, 5], "content": ["new", "new"]}))
    posts.delete([{"post_id": 1}])
    return open_store(spark=no_spark).table("posts", "post_id long, content string", key="post_id")


def test_small_writes_need_no_spark(folded: sm.Table, ds: sm.DataStore) -> None:
    commit = folded.upsert(pa.table({"post_id": [0, 2, 3, 5_000], "content": ["new", "new", "c3", "new"]}))
    assert commit is not None
    assert (commit.appended, commit.corrected, commit.retracted) == (1, 1, 0)
    assert folded.upsert(pa.table({"post_id": [5, 6], "content": ["new", "c6"]})) is None
    commit = folded.delete([{"post_id": 1}, {"post_id": 7}])
    assert commit is not None
    assert commit.retracted == 1
    commit = folded.replace(pa.table({"post_id": [3, 9_999], "content": ["c3", "new"]}))
    assert commit is not None
    assert (commit.appended, commit.corrected, commit.retracted) == (1, 0, 998)
    rows = ds.table("posts").rows().orderBy("post_id").collect()
    assert [tuple(row) for row in rows] == [(3, "c3"), (9_999, "new")]


def test_first_rows_and_one_row_need_no_spark(
    folded: sm.Table, open_store: Callable[..., sm.DataStore], no_spark: Any
) -> None:
    store = open_store(spark=no_spark)
    first = read_rows(store, "posts", limit=3, as_of=None)
    assert [dict(row) for row in first.rows] == [
        {"post_id": 0, "content": "new"},
        {"post_id": 2, "content": "c2"},
        {"post_id": 3, "content": "c3"},
    ]
    assert first.more
    earlier = read_rows(store, "posts", limit=2, as_of=999)
    assert [row["content"] for row in earlier.rows] == ["c0", "c1"]
    for key, found in [("5", ["new"]), ("1", []), ("6", ["c6"])]:
        assert [row["content"] for row in read_rows(store, "posts", limit=5, as_of=None, key=[key]).rows] == found


def test_an_append_only_table_is_shown_without_spark(
    ds: sm.DataStore, open_store: Callable[..., sm.DataStore], no_spark: Any
) -> None:
    clicks = ds.table("clicks", "url string")
    clicks.append(pa.table({"url": ["a", "b", "a"]}))
    assert clicks.fold().folded
    clicks.append(pa.table({"url": ["c", "a"]}))
    found = read_rows(open_store(spark=no_spark), "clicks", limit=4, as_of=None)
    assert ([row["url"] for row in found.rows], found.more) == (["a", "b", "a", "c"], True)


# --- what is left to Spark --------------------------------------------------------------------------------------------


def keys_of(*places: int) -> pa.Table:
    return pa.table({"post_id": pa.array(places, pa.int64())})


def test_many_keys_and_many_rows_are_left_to_spark(folded: sm.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = snapshot_at(folded.source, folded.head.offset)
    assert read_few(snapshot, keys_of(*range(20)), ["content"]) is not None
    monkeypatch.setattr(few_rows, "FEW_ROWS", 10)
    assert read_few(snapshot, keys_of(*range(20)), ["content"]) is None
    assert read_few(snapshot, None, ["content"]) is None
    assert read_few(snapshot, keys_of(*range(10)), ["content"]) is not None


def test_a_base_in_sparks_cache_is_read_there(
    folded: sm.Table, open_store: Callable[..., sm.DataStore], spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEAMARK_ROWS_CACHE_ROWS", "5000")
    posts = open_store(spark=spark).table("posts")
    snapshot = snapshot_at(posts.source, posts.head.offset)
    assert read_few(snapshot, keys_of(0, 2), ["content"]) is not None
    assert posts.rows().count() == 999
    assert read_few(snapshot, keys_of(0, 2), ["content"]) is None
    assert sorted(row.content for row in posts.get_data(keys_of(0, 2)).collect()) == ["c2", "new"]


def test_a_damaged_base_is_for_spark_to_explain(folded: sm.Table, ds: sm.DataStore) -> None:
    snapshot = snapshot_at(folded.source, folded.head.offset)
    assert snapshot.base is not None
    for path in DeltaLog(Path(folded.source.base_folder)).files(snapshot.base.delta_version):
        path.write_bytes(b"PAR1 this is no file of ours PAR1")
    assert read_few(snapshot, keys_of(2), ["content"]) is None
    with pytest.raises(sm.SeamarkError, match="Spark failed while it read the current rows"):
        ds.table("posts").upsert(pa.table({"post_id": [2], "content": ["other"]}))


def test_a_damaged_tail_is_named(folded: sm.Table) -> None:
    snapshot = snapshot_at(folded.source, folded.head.offset)
    path = folded.source.context.files("posts").data.path(snapshot.tail[0].slice_hash or "")
    path.chmod(0o644)
    path.write_bytes(b"PAR1 this is no slice of ours PAR1")
    with pytest.raises(sm.SeamarkError, match=snapshot.tail[0].slice_hash or "a slice"):
        folded.upsert(pa.table({"post_id": [2], "content": ["other"]}))
