"""Datapipe's side of the comparison: run by the Python of its own virtual environment, where Seamark is not installed.

`python datapipe_program.py URL ROWS CHUNK…` fills a table, runs a BatchTransform over it for each chunk size, each time
into a new output, and prints one line of JSON: the seconds that each run took.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings

import pandas as pd
from datapipe.compute import Catalog, Pipeline, Table, build_compute, run_steps
from datapipe.datatable import DataStore
from datapipe.step.batch_transform import BatchTransform
from datapipe.store.database import DBConn, TableStoreDB
from sqlalchemy import Column, text
from sqlalchemy.types import BigInteger, String

FILL_ROWS = 10_000


def shout(posts: pd.DataFrame) -> pd.DataFrame:
    """The same map as Seamark's and Spark's."""
    return posts.assign(content=posts["content"].str.upper())[["post_id", "content"]]


def main(url: str, rows: int, chunks: list[int]) -> None:
    database = DBConn(url)
    ds = DataStore(database, create_meta_table=True)
    fill(ds, database, rows)
    print(json.dumps({chunk: first_run(ds, database, rows, chunk) for chunk in chunks}))


def fill(ds: DataStore, database: DBConn, rows: int) -> None:
    key = Column("post_id", BigInteger, primary_key=True)
    columns = [key, Column("user_id", BigInteger), Column("content", String)]
    posts = ds.create_table("posts", TableStoreDB(database, "posts", columns, True))
    for begin in range(0, rows, FILL_ROWS):
        ids = pd.Series(range(begin, min(begin + FILL_ROWS, rows)))
        content = "post number " + ids.astype(str)
        posts.store_chunk(pd.DataFrame({"post_id": ids, "user_id": ids % 1000, "content": content}))
    with database.con.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))


def first_run(ds: DataStore, database: DBConn, rows: int, chunk: int) -> float:
    """Seconds of a first run; all that is declared and created before it is not counted."""
    output = f"loud_{chunk}"
    columns = [Column("post_id", BigInteger, primary_key=True), Column("content", String)]
    catalog = Catalog(
        {
            "posts": Table(store=ds.get_table("posts").table_store),
            output: Table(store=TableStoreDB(database, output, columns, True)),
        }
    )
    transform = BatchTransform(shout, inputs=["posts"], outputs=[output], chunk_size=chunk, name=f"shout_{chunk}")
    steps = build_compute(ds, catalog, Pipeline([transform]))
    begun = time.perf_counter()
    run_steps(ds, steps)
    took = time.perf_counter() - begun
    assert ds.get_table(output).get_size() == rows
    return took


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    main(sys.argv[1], int(sys.argv[2]), [int(chunk) for chunk in sys.argv[3:]])
