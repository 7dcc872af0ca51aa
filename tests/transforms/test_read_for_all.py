"""Several tables are read at once: the rows that Spark gives for each by itself, brought here by one job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import seamark as sm
from seamark.errors import ComputeFailed
from seamark.spark.frames import arrow_rows
from seamark.steps.rows.fetch import Reading, read_for_all
from seamark.steps.rows.scope import AllKeys, KeyFrame, KeyRange, KeyValues
from seamark.tables.frame import quoted
from seamark.tables.read import few_rows
from seamark.tables.read.delta_log import DeltaLog
from seamark.tables.read.rows import images_of
from seamark.tables.read.snapshot import snapshot_at

NAMES = ["Ann", "Bo", "Cy", "Di", "é", ""]
TYPES = {"id": pa.int64(), "name": pa.string(), "customer": pa.string(), "region": pa.int32(), "number": pa.float64()}


def orders(*ids: int, turn: int = 0) -> pa.Table:
    customers = [None if n % 11 == 0 else NAMES[(n + turn) % len(NAMES)] for n in ids]
    return pa.table({"id": pa.array(ids, pa.int64()), "customer": customers})


def customers(*names: str, turn: int = 0) -> pa.Table:
    regions = pa.array([len(name) + turn for name in names], pa.int32())
    return pa.table({"name": pa.array(names, pa.string()), "region": regions, "number": [0.5 * turn] * len(names)})


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Any:
    """Tables with a base and a tail, with a base only, without a key, and one that was never folded."""
    folder = tmp_path_factory.mktemp("shop")
    with sm.DataStore(f"sqlite:///{folder / 'control.db'}", folder / "warehouse", spark=spark) as ds:
        declared = {
            "orders": ds.table("orders", "id long, customer string", key="id"),
            "customers": ds.table("customers", "name string, region int, number double", key="name"),
            "clicks": ds.table("clicks", "id long, name string"),
            "notes": ds.table("notes", "id long, customer string", key="id"),
        }
        declared["orders"].upsert(orders(*range(60)))
        declared["customers"].upsert(customers(*NAMES))
        declared["clicks"].append(pa.table({"id": list(range(40)), "name": [NAMES[n % 6] for n in range(40)]}))
        for name in ("orders", "customers", "clicks"):
            assert declared[name].fold().folded
        declared["orders"].upsert(orders(3, 7, 61, 62, turn=1))
        declared["orders"].delete([{"id": 5}])
        declared["clicks"].append(pa.table({"id": [1, 50], "name": ["Ann", "Bo"]}))
        declared["notes"].upsert(orders(1, 2, 3))
        yield ds


def reading(ds: sm.DataStore, table: str, scope: Any, columns: list[str] | None = None) -> Reading:
    source = ds.table(table).source
    return source, scope, ds.table(table).head.offset, columns


def values(name: str, *wanted: Any) -> KeyValues:
    return KeyValues(pa.table({name: pa.array(wanted, TYPES[name])}))


def by_spark(one: Reading) -> list[str]:
    """The rows that Spark gives for one reading by itself."""
    source, scope, upto, columns = one
    needed = source.schema.names if columns is None else {*columns, *scope.columns, *source.schema.key}
    names = [name for name in source.schema.names if name in needed]
    images = images_of(snapshot_at(source, upto), scope.choice(source))
    return shown(arrow_rows(images.select("_offset", *map(quoted, names))))


def shown(rows: pa.Table) -> list[str]:
    return [repr(row) for row in sorted(rows.to_pylist(), key=lambda row: row["_offset"])]


KEYS = {"orders": "id", "customers": "name", "clicks": "id", "notes": "id"}
OTHERS = {"orders": "customer", "customers": "region", "clicks": "name", "notes": "customer"}
POOLS: dict[str, list[Any]] = {
    "id": [0, 3, 5, 7, 33, 61, 99],
    "name": NAMES,
    "customer": [*NAMES, None],
    "region": [0, 1, 2, 3],
}


@st.composite
def readings(draw: st.DrawFn) -> tuple[str, str, list[Any], list[str] | None]:
    table = draw(st.sampled_from(list(KEYS)))
    kind = draw(st.sampled_from(["values", "others", "range", "frame", "all"]))
    name = OTHERS[table] if kind == "others" else KEYS[table]
    wanted = draw(st.lists(st.sampled_from(POOLS[name]), max_size=3, unique=True))
    return table, kind, wanted, draw(st.sampled_from([None, [], [OTHERS[table]]]))


def made(ds: sm.DataStore, drawn: tuple[str, str, list[Any], list[str] | None]) -> Reading:
    table, kind, wanted, columns = drawn
    name = OTHERS[table] if kind == "others" else KEYS[table]
    match kind:
        case "all":
            return reading(ds, table, AllKeys(), columns)
        case "range":
            bounds = sorted(wanted)
            after, upto = ((bounds[0],) if bounds else None), ((bounds[-1],) if len(bounds) > 1 else None)
            return reading(ds, table, KeyRange((name,), after, upto), columns)
        case "frame":
            schema = f"{name} {'long' if name == 'id' else 'string'}"
            keys = ds.spark.createDataFrame([(value,) for value in wanted], schema)
            return reading(ds, table, KeyFrame((name,), keys), columns)
    return reading(ds, table, values(name, *wanted), columns)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=st.lists(readings(), min_size=1, max_size=4), few=st.sampled_from([0, few_rows.FEW_ROWS]))
def test_each_is_read_as_by_itself(shop: sm.DataStore, drawn: list[Any], few: int) -> None:
    asked = [made(shop, one) for one in drawn]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(few_rows, "FEW_ROWS", few)
        found = read_for_all(asked)
    session = shop.table("orders").source.context.session
    for one, frame in zip(asked, found, strict=True):
        rows = frame.in_memory if frame.in_memory is not None else arrow_rows(frame.to_spark(session))
        assert shown(rows) == by_spark(one)


def test_what_spark_must_bring_comes_with_one_job(
    shop: sm.DataStore, count_jobs: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [
        reading(shop, "orders", values("id", 3, 5, 33), ["customer"]),
        reading(shop, "customers", values("region", 2), ["region"]),
        reading(shop, "clicks", KeyRange(("id",), (10,), None)),
        reading(shop, "notes", AllKeys()),
    ]
    with count_jobs() as in_process:
        few = read_for_all(asked)
    monkeypatch.setattr(few_rows, "FEW_ROWS", 0)  # all bases are too large to be read in this process
    with count_jobs() as together:
        many = read_for_all(asked)
    with count_jobs() as one_by_one:
        for one in asked:
            read_for_all([one])

    assert (in_process.jobs, together.jobs, one_by_one.jobs) == (0, 1, 3)
    for one, frames in zip(asked, zip(few, many, strict=True), strict=True):
        assert [shown(frame.in_memory) for frame in frames] == [by_spark(one)] * 2


def test_what_is_too_large_together_is_asked_for_one_by_one(
    shop: sm.DataStore, set_small: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [reading(shop, "orders", values("customer", "Ann")), reading(shop, "clicks", values("name", *NAMES))]
    counts = [len(by_spark(one)) for one in asked]
    monkeypatch.setattr(few_rows, "FEW_ROWS", 0)
    set_small(monkeypatch, max(counts))  # each fits, and not both

    found = read_for_all(asked)

    assert [frame.in_memory.num_rows for frame in found] == counts
    set_small(monkeypatch, min(counts))
    first, second = read_for_all(asked)
    assert (first.in_memory is not None, second.in_memory is None) == (True, True)


def test_a_file_that_is_gone_is_blamed_on_its_own_table(
    shop: sm.DataStore, monkeypatch: pytest.MonkeyPatch, open_store: Callable[..., sm.DataStore]
) -> None:
    store = open_store()
    tables = [store.table(name, "id long", key="id") for name in ("whole", "damaged")]
    for table in tables:
        table.upsert([{"id": n} for n in range(5)])
        assert table.fold().folded
    monkeypatch.setattr(few_rows, "FEW_ROWS", 0)
    asked = [(table.source, values("id", 1, 2), table.head.offset, None) for table in tables]
    version = store.control.index.bases("damaged")[0].delta_version
    for path in DeltaLog(Path(tables[1].source.base_folder)).files(version):
        path.unlink()

    with pytest.raises(ComputeFailed, match="table 'damaged': Spark failed while it read rows"):
        read_for_all(asked)
