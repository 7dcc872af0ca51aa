"""A process that brings a view up to date and is killed on the way: `view_program.py CONTROL WAREHOUSE WHAT POINT`.

WHAT is `run`, `scan` or `pass`. It is killed at the named point of its second commit to the view.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

import seamark as sm
from seamark.views.view import View

SELECT = """
SELECT o.id, o.note, c.name, r.title FROM orders o JOIN customer c ON c.id = o.customer_id
LEFT JOIN region r ON r.id = c.region_id
"""


def declare(store: sm.DataStore) -> View:
    """The view over orders, in small batches and pages, with regions as its dictionary."""
    store.table("orders", "id long, customer_id long, note string", key="id")
    store.table("customer", "id long, name string, region_id long", key="id")
    store.table("region", "id long, title string", key="id")
    return store.view("v", SELECT, key="id", dictionaries=["region"], batch_keys=2, batch_rows=2)


def work(store: sm.DataStore, what: str, on_batch: Callable[[Any, int], None] = lambda report, left: None) -> Any:
    """Bring the view up to date: by a run, a scan, or a pass over what waits in its dictionary."""
    view = store.view("v")
    match what:
        case "run":
            return view.run_full(on_batch=on_batch)
        case "scan":
            return view.scan(on_batch=on_batch)
        case _:
            return view.run_dictionaries(on_batch=on_batch)


def main(control: str, warehouse: str, what: str, point: str) -> None:
    def arm(report: Any, left: int) -> None:
        os.environ["SEAMARK_KILL_AT"] = point

    with sm.DataStore(control, warehouse) as store:
        declare(store)
        work(store, what, arm)


if __name__ == "__main__":
    main(*sys.argv[1:])
