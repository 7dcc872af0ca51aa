"""A process that runs the sinks of a store and may be killed on the way: `sink_program.py CONTROL WAREHOUSE URL`.

It is killed at the point that SEAMARK_KILL_AT names, or by whoever started it: it says a word when it begins, and after
each block that it has sent.
"""

import sys

import seamark as sm


def declare(store: sm.DataStore, url: str) -> None:
    """A keyed table and a log of signs and versions, each with its copy."""
    store.table("users", "id long, name string", key="id")
    store.table("visits_log", "VisitID long, Sign tinyint, Version long")
    store.sink("users", sm.ClickHouseSink(url, table="users"), name="users")
    store.sink("visits_log", sm.ClickHouseSink(url, table="visits", collapse_by="VisitID"), name="visits")


def main(control: str, warehouse: str, url: str) -> None:
    with sm.DataStore(control, warehouse, spark=object()) as store:
        declare(store, url)
        print("begins", flush=True)
        store.run(fail_fast=True, on_block=lambda report, _: print(report.sink, flush=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
