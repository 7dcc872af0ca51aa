"""Views in texts, files, folders and tables of statements; and checking them through a store."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import seamark as sm
from seamark.errors import UnreadableSource
from seamark.views.meaning import meaning
from seamark.views.sources import read_views

A = "CREATE MATERIALIZED VIEW a PRIMARY KEY (id) AS SELECT id, note FROM orders;"
B = "CREATE MATERIALIZED VIEW b PRIMARY KEY (id) AS SELECT id FROM a;"
WRONG = "CREATE MATERIALIZED VIEW c AS SELECT id, nope FROM orders;"


@pytest.fixture
def shop(open_store, no_spark):
    """A store with one table of orders; Spark is not asked."""
    store = open_store(spark=no_spark)
    store.table("orders", "id long, customer_id long, note string", key="id")
    return store


def statements(store: sm.DataStore, *rows: tuple[int | None, str | None]) -> sm.Table:
    table = store.table("statements", "place long, statement_no int, statement_text string", key="place")
    named = [{"place": n, "statement_no": no, "statement_text": text} for n, (no, text) in enumerate(rows)]
    if named:
        table.upsert(named)
    return table


@pytest.mark.scenario("V8")
@pytest.mark.scenario("V51")
def test_a_text_a_file_a_folder_and_a_table_say_the_same(shop, tmp_path):
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "2.sql").write_text(B)
    (tmp_path / "views" / "1.SQL").write_text(A)
    (tmp_path / "views" / "notes.txt").write_text("no view")
    whole = tmp_path / "all.sql"
    whole.write_text(A + "\n" + B)
    table = statements(shop, (20, B), (10, A), (30, None), (None, WRONG))

    sources = [
        A + B,
        whole,
        str(whole),
        tmp_path / "views",
        str(tmp_path / "views"),
        table,
        [A, whole.with_name("x.sql")],
    ]
    whole.with_name("x.sql").write_text(B)
    meanings = [[meaning(target) for target in read_views(source).targets] for source in sources]
    assert all(found == meanings[0] for found in meanings)
    assert len(meanings[0]) == 2


@pytest.mark.scenario("V8")
@pytest.mark.scenario("V51")
def test_issues_name_the_file_or_statement(shop, tmp_path):
    heads = shop.heads()
    file = tmp_path / "views.sql"
    file.write_text("\ufeff" + A + "\r\n" + WRONG, newline="")
    (found,) = shop.check_views(file, analyse=False)
    assert (found.kind, found.source, found.line, found.column) == ("IllegalOutputReference", str(file), 2, 42)
    assert str(found).startswith(f"{file}:2:42: error IllegalOutputReference: ")
    table = statements(shop, (1, A), (7, WRONG))
    (found,) = shop.check_views(table, analyse=False)
    assert (found.source, found.line, found.column) == ("statements[7]", 1, 42)
    (found,) = shop.check_views(WRONG, analyse=False)
    assert (found.source, found.line, found.column) == (None, 1, 42)
    assert shop.heads() == heads | {"statements": table.head}


@pytest.mark.scenario("V79")
def test_a_view_that_two_files_define_names_both_places(shop, tmp_path):
    for name in ("one.sql", "two.sql"):
        (tmp_path / name).write_text(A)
    (found,) = shop.check_views(tmp_path, analyse=False)
    assert (found.kind, found.source) == ("DuplicateView", str(tmp_path / "two.sql"))
    assert str(tmp_path / "one.sql") in found.message
    assert found.phase == "parse"


@pytest.mark.scenario("V52")
def test_the_phases_that_were_not_gone_through(shop):
    assert shop.check_views(A, analyse=False).skipped == ("analysis",)
    found = shop.check_views("CREATE VIEW", analyse=False)
    assert (found.ok, found.skipped) == (False, ("link", "metadata", "feeds", "analysis"))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("missing.sql", "missing.sql cannot be read: no such file"),
        ("empty", r"no file \*.sql in the folder"),
        ("bytes.sql", "bytes.sql is not UTF-8: byte 3"),
        ("folder.sql", r"no file \*.sql in the folder"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_names_it(tmp_path, source, message):
    for folder in ("empty", "folder.sql"):
        (tmp_path / folder).mkdir()
    (tmp_path / "bytes.sql").write_bytes(b"SEL\xff")
    with pytest.raises(UnreadableSource, match=message):
        read_views(tmp_path / source)


def test_a_table_without_statements_is_refused_and_an_empty_one_is_fine(shop):
    with pytest.raises(UnreadableSource, match="'orders' has no column statement_no, statement_text"):
        shop.check_views(shop.table("orders"))
    assert shop.check_views(statements(shop), analyse=False) == []


@pytest.mark.parametrize("text", ["", ";", "SELECT 1", "x" * 5000, "a\0b", "no such file", "~", "-- only a comment"])
def test_any_text_is_read_as_a_text(shop, text):
    assert not shop.check_views(text, analyse=False).ok


@pytest.mark.scenario("V8")
@pytest.mark.scenario("V54")
def test_with_spark_every_query_is_analysed(open_store, spark: SparkSession):
    store = open_store()
    store.table("orders", "id long, customer_id long, note string", key="id")
    assert store.check_views(A + B) == []
    (found,) = store.check_views(A.replace("note", "nope(note) AS n"))
    assert (found.kind, found.phase) == ("SqlCustomColumnError", "analysis")
    assert store.heads()["orders"].offset is None
