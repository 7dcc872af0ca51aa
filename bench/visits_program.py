"""The first two small runs of examples/visits: `python visits_program.py`, in a copy of that folder.

Prints one line of JSON: the seconds of each run, from the call to the last record in ClickHouse.
"""

from __future__ import annotations

import json
import sys
import time
from decimal import Decimal

sys.path.insert(0, "")

from pipeline import ds, joined_conversions, joined_visits, visits_wide


def run_seconds() -> float:
    """How long a run of everything takes."""
    begun = time.perf_counter()
    ds.run(fail_fast=True)
    return time.perf_counter() - begun


def main() -> None:
    for sink in ds.sinks().values():
        sink.prepare()
    versions = [(41, 1), (42, 2), (43, 1)]
    rows = [{"VisitID": visit, "y_VisitVersion": version} for visit, version in versions]
    visits_wide.upsert([row | {"pages": 3} for row in rows])
    joined_visits.append([row | {"title": "Home"} for row in rows])
    first = run_seconds()
    visits_wide.upsert([{"VisitID": 42, "y_VisitVersion": 3, "pages": 9}])
    joined_conversions.append([{"VisitID": 42, "y_VisitVersion": 3, "goals": 1, "revenue": Decimal("19.90")}])
    print(json.dumps([first, run_seconds()]))


if __name__ == "__main__":
    main()
