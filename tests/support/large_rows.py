"""Rows of a megabyte each through every verb, in a process of its own whose driver has no room for them.

    python large_rows.py <folder> <rows> [<bytes of a row>]

Ends with 1 and says what went wrong, or prints the most memory that the driver's Python ever held, in MiB.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

import seamark as sm
from seamark.config import SparkSettings
from seamark.spark import spark_session

COUNT, SIZE = int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1_000_000
conf = {"spark.driver.maxResultSize": "40m"}
spark = spark_session(SparkSettings(master="local[2]", driver_memory="1500m", shuffle_partitions=2, conf=conf))
ds = sm.DataStore(f"sqlite:///{sys.argv[1]}/control.db", Path(sys.argv[1]) / "warehouse", spark=spark)

docs = ds.table("docs", "id long, body string", key="id")
lengths = ds.table("lengths", "id long, n long", key="id")
copies = ds.table("copies", "id long, body string", key="id")
halves = ds.table("halves", "id long, body string", key="id")
visits = ds.table("visits", "VisitID long, y_VisitVersion long, title string")


@ds.transform(inputs=[docs], outputs=[lengths])
def measure(docs: Any) -> Any:
    return docs.selectExpr("id", "length(body) AS n")


@ds.transform(inputs=[docs], outputs=[copies])
def copy(docs: Any) -> Any:
    return docs


@ds.transform(inputs=[docs], outputs=[halves], pandas=True)
def halve(docs: Any) -> Any:
    return docs.assign(body=docs.body.str[: SIZE // 2])


diff = ds.diff("sessions", key="VisitID", fast_version="y_VisitVersion", multiplier=1000, logs=[visits])


def large(letter: str) -> Any:
    """A frame of documents, each of its own; all of them compress well, so that their files say little of them."""
    return spark.range(0, COUNT, 1, 4).selectExpr(
        "id", f"substr(repeat(concat('{letter}', id), {SIZE}), 1, {SIZE}) AS body"
    )


def small(count: int) -> pa.Table:
    return pa.table({"id": range(count), "body": [f"small {n}" for n in range(count)]})


def expect(what: str, found: object, wanted: object) -> None:
    print(what, found, flush=True)
    if found != wanted:
        sys.exit(f"{what}: {found}, expected {wanted}")


def run(what: str) -> None:
    report = ds.run()
    expect(f"run {what}", {name: str(s.error or s.failed) for name, s in report.steps.items() if not s.ok}, {})
    for table, size in ((copies, SIZE), (halves, SIZE // 2)):
        rows = table.rows().selectExpr("count(1)", "sum(CASE WHEN length(body) > 100 THEN length(body) END)").collect()
        there = docs.rows().selectExpr("count(1)", "sum(CASE WHEN length(body) > 100 THEN 1 END)").collect()[0]
        expect(f"{table.name} after {what}", tuple(rows[0]), (there[0], None if there[1] is None else there[1] * size))
    same = lengths.rows().alias("l").join(docs.rows().alias("d"), "id").where("l.n <> length(d.body)").count()
    expect(f"lengths after {what}", (same, lengths.rows().count()), (0, docs.rows().count()))


docs.upsert(large("a"))
run("a first write")
ds.fold()
expect("upsert of equal rows", docs.upsert(large("a")), None)
expect("small over large", docs.upsert(small(COUNT // 2)).corrected, COUNT // 2)
run("small rows over large ones")
expect("large over small and large", docs.upsert(large("b")).corrected, COUNT)
run("large rows over large ones")
expect("replace by small ones", docs.replace(small(COUNT)).corrected, COUNT)
expect("replace by large ones", docs.replace(large("c")).corrected, COUNT)
ds.fold()
some = pa.table({"id": range(0, COUNT, 2)})
got = docs.get_data(some).selectExpr("count(1)", "sum(length(body))").collect()[0]
expect("get_data", tuple(got), (-(-COUNT // 2), -(-COUNT // 2) * SIZE))
in_memory = pa.concat_tables(large("d").where(f"id % 4 = {part}").limit(9).toArrow() for part in range(4))
expect("upsert of large rows in memory", docs.upsert(in_memory).corrected, in_memory.num_rows)
expect("delete", docs.delete(some).retracted, -(-COUNT // 2))
run("a delete")
for version in (1, 2):
    visits.append(large("v").selectExpr("id AS VisitID", f"{version}L AS y_VisitVersion", "body AS title"))
    expect("diff", ds.run("sessions").steps["sessions"].error, None)
    rows = diff.state.rows().selectExpr("count(1)", "min(length(title))", "max(y_VisitVersion)").collect()[0]
    expect("state", tuple(rows), (COUNT, SIZE, version))
expect("verify", ds.verify().findings, ())
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
