"""A process of its own that appends to a table: `append_worker.py CONTROL WAREHOUSE FIRST COUNT`.

It says "ready", waits for a line, and prints the offsets it was given as JSON.
"""

import json
import sys

import pyarrow as pa

from seamark import DataStore


def main(control: str, warehouse: str, first: int, count: int) -> None:
    with DataStore(control, warehouse) as store:
        clicks = store.table("clicks", "number long")
        print("ready", flush=True)
        sys.stdin.readline()
        commits = [clicks.append(pa.table({"number": [number]})) for number in range(first, first + count)]
        print(json.dumps([commit.last_offset for commit in commits]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
