"""How many rows a table has, without Spark."""

import pyarrow as pa
import pytest

from seamark.tables.read import row_counts
from seamark.tables.read.row_counts import RowCount, count_rows


def counted(store, name):
    head, bases = store.control.index.head(name), store.control.index.bases(name)
    table = store.table(name)
    return count_rows(table.source.context, head, bases[0] if bases else None, keyed=bool(table.key))


@pytest.mark.scenario("C45")
def test_rows_are_counted_from_the_ops_of_what_was_written(ds):
    posts = ds.table("posts", "post_id long, content string", key="post_id")
    posts.upsert(pa.table({"post_id": [1, 2, 3], "content": ["a", "b", "c"]}))
    assert counted(ds, "posts") == RowCount(3, is_exact=True)
    posts.upsert(pa.table({"post_id": [1, 4], "content": ["A", "d"]}))
    posts.delete(pa.table({"post_id": [2, 3]}))
    assert counted(ds, "posts") == RowCount(2, is_exact=True)

    clicks = ds.table("clicks", "url string")
    clicks.append(pa.table({"url": ["/", "/"]}))
    assert counted(ds, "clicks") == RowCount(2, is_exact=True)


@pytest.mark.scenario("C45")
def test_after_a_fold_only_the_tail_is_looked_through(ds):
    posts = ds.table("posts", "post_id long, content string", key="post_id")
    posts.upsert(pa.table({"post_id": [1, 2, 3], "content": ["a", "b", "c"]}))
    posts.fold()
    assert counted(ds, "posts") == RowCount(3, is_exact=True)
    posts.upsert(pa.table({"post_id": [1, 4], "content": ["A", "d"]}))
    assert counted(ds, "posts") == RowCount(4, is_exact=True)


@pytest.mark.scenario("C45")
def test_a_long_tail_or_a_lost_slice_gives_a_bound_instead(ds, monkeypatch):
    posts = ds.table("posts", "post_id long, content string", key="post_id")
    posts.upsert(pa.table({"post_id": [1, 2], "content": ["a", "b"]}))
    posts.upsert(pa.table({"post_id": [1], "content": ["A"]}))
    monkeypatch.setattr(row_counts, "MOST_RECORDS_READ", 3)
    assert counted(ds, "posts") == RowCount(4, is_exact=False)
    monkeypatch.undo()
    (ds.warehouse / "posts" / "data" / ds.control.index.blocks("posts")[0].slice_hash).unlink()
    assert counted(ds, "posts") == RowCount(4, is_exact=False)
