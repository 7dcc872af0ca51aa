"""A process that runs a diff and may be killed on the way: `diff_program.py CONTROL WAREHOUSE`.

It is killed at the point that SEAMARK_KILL_AT names.
"""

import sys

import seamark as sm

LOGS = {
    "joined_visits": "VisitID long, y_VisitVersion int, title string",
    "joined_conversions": "VisitID long, y_VisitVersion int, revenue long",
}


def declare(store: sm.DataStore) -> sm.Diff:
    """The diff of the design: titles from the visits, revenue from the conversions."""
    store.table("joined_visits", LOGS["joined_visits"], key="VisitID")
    store.table("joined_conversions", LOGS["joined_conversions"])
    return store.diff(
        "visits",
        key="VisitID",
        fast_version="y_VisitVersion",
        multiplier=1000,
        logs=["joined_visits", "joined_conversions"],
        merge={"revenue": "sum"},
    )


def main(control: str, warehouse: str) -> None:
    with sm.DataStore(control, warehouse) as store:
        declare(store)
        report = store.run(fail_fast=False)
        store.fold()
    print(report.steps["visits"])


if __name__ == "__main__":
    main(*sys.argv[1:])
