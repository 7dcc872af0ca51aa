"""Opening a store: database and warehouse must belong together, and what lags behind is brought up."""

import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import delete, insert, select

from seamark import DataStore
from seamark.control import Control
from seamark.control.schema import metadata, seamark_schema
from seamark.errors import HeadMismatch


class Copy:
    """What a control database holds at some moment, to be put back later."""

    def __init__(self, url: str) -> None:
        self._url = url
        control = Control(url)
        with control.database.read() as connection:
            self._rows = {
                table: [dict(row._mapping) for row in connection.execute(select(table))]
                for table in metadata.sorted_tables
                if table is not seamark_schema
            }
        control.close()

    def put_back(self) -> None:
        control = Control(self._url)
        with control.database.write() as connection:
            for table, rows in self._rows.items():
                connection.execute(delete(table))
                if rows:
                    connection.execute(insert(table), rows)
        control.close()


def files_in(warehouse):
    """Every file with its bytes and the time of its last change."""
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(warehouse.rglob("*")) if path.is_file()
    }


def refs_head(warehouse, table):
    return (warehouse / table / "refs" / "head").read_text()


def test_opening_an_empty_store_makes_no_tables(open_store):
    store = open_store()
    assert (store.tables(), store.healed, store.verify().ok, store.gc().count) == ({}, (), True, 0)


@pytest.mark.scenario("T46")
@pytest.mark.parametrize("lost", [False, True])
def test_a_mirrored_head_that_lags_behind_is_healed(open_store, warehouse, clicks_of, lost):
    clicks = open_store().table("clicks", "number long")
    clicks.append(clicks_of(1))
    older = refs_head(warehouse, "clicks")
    clicks.append(clicks_of(2))
    newest = refs_head(warehouse, "clicks")
    mirror = warehouse / "clicks" / "refs" / "head"
    mirror.unlink() if lost else mirror.write_text(older)

    store = open_store()

    assert [(h.table, h.found, h.head) for h in store.healed] == [("clicks", None if lost else older, newest)]
    assert refs_head(warehouse, "clicks") == newest == store.table("clicks").head.block_hash
    assert open_store().healed == ()
    assert store.table("clicks").append(clicks_of(3)).first_offset == 2


@pytest.mark.scenario("T49")
def test_yesterdays_database_beside_todays_warehouse_is_refused(control_url, open_store, warehouse, clicks_of):
    store = open_store()
    clicks = store.table("clicks", "number long")
    clicks.append(clicks_of(1))
    yesterday, old_head = Copy(control_url), clicks.head.block_hash
    clicks.append(clicks_of(2))
    new_head = clicks.head.block_hash
    store.close()
    yesterday.put_back()
    before = files_in(warehouse)

    with pytest.raises(HeadMismatch) as refused:
        open_store()

    assert refused.value.message.startswith(f"table 'clicks': refs/head in {warehouse} is {new_head}")
    assert f"has {old_head}, whose chain does not hold it" in refused.value.message
    assert "seamark doctor --rebuild" in refused.value.hint
    assert "seamark@" not in str(refused.value)
    assert files_in(warehouse) == before


@pytest.mark.scenario("T49")
def test_an_empty_database_beside_a_full_warehouse_is_refused(control_url, open_store, warehouse, clicks_of):
    empty = Copy(control_url)
    store = open_store()
    clicks = store.table("clicks", "number long")
    clicks.append(clicks_of(1))
    head = clicks.head.block_hash
    store.close()
    empty.put_back()
    before = files_in(warehouse)

    with pytest.raises(HeadMismatch) as refused:
        open_store()

    assert f"is {head}, and the control database" in refused.value.message
    assert "has no such table" in refused.value.message
    assert "seamark doctor --rebuild" in refused.value.hint
    assert files_in(warehouse) == before


@pytest.mark.parametrize(
    ("column", "value"),
    [("head_hash", b"\x80"), ("sequence", "none"), ("last_offset", 1.5), ("system_time", b"x"), ("system_time", 2**62)],
)
def test_a_head_that_no_commit_has_written_is_refused_by_name(tmp_path, clicks_of, column, value):
    file = tmp_path / "control.db"  # PostgreSQL would not take such a value
    with DataStore(f"sqlite:///{file}", tmp_path / "warehouse") as store:
        store.table("clicks", "number long").append(clicks_of(1))
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"UPDATE table_head SET {column} = ?", (value,))
    with pytest.raises(
        HeadMismatch, match=rf"^table 'clicks': the control database has .* as the {column} of its head"
    ):
        DataStore(f"sqlite:///{file}", tmp_path / "warehouse")


@pytest.mark.scenario("T49")
def test_nothing_is_healed_in_a_store_that_is_refused(control_url, open_store, warehouse, clicks_of):
    store = open_store()
    behind, ahead = (store.table(name, "number long") for name in ("behind", "wide_ahead"))
    behind.append(clicks_of(1))
    older = refs_head(warehouse, "behind")
    behind.append(clicks_of(2))
    ahead.append(clicks_of(1))
    yesterday = Copy(control_url)
    ahead.append(clicks_of(2))
    store.close()
    yesterday.put_back()
    (warehouse / "behind" / "refs" / "head").write_text(older)
    before = files_in(warehouse)

    with pytest.raises(HeadMismatch, match="wide_ahead"):
        open_store()

    assert files_in(warehouse) == before


@pytest.mark.scenario("T49")
def test_a_refused_store_opens_again_after_a_rebuild(control_url, open_store, warehouse, clicks_of):
    store = open_store()
    clicks = store.table("clicks", "number long")
    clicks.append(clicks_of(1))
    yesterday = Copy(control_url)
    clicks.append(clicks_of(2))
    head, blocks = store.control.index.head("clicks"), store.control.index.blocks("clicks")
    store.close()
    yesterday.put_back()

    DataStore.rebuild(control_url, warehouse)

    opened = open_store()
    assert (opened.control.index.head("clicks"), opened.control.index.blocks("clicks")) == (head, blocks)
    assert opened.table("clicks").append(clicks_of(3)).first_offset == 2
    assert opened.verify().ok
