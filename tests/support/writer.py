"""A process that appends once and may be killed on the way: `writer.py CONTROL WAREHOUSE FIRST COUNT [KILL_AFTER]`.

Without arguments it reads them from its input, a line at a time, and starts a process of its own for each line, which
spares all but the first the time to import; it prints how each has ended.

It is killed at the point that SEAMARK_KILL_AT names, or, with KILL_AFTER, at that many steps: a step is a statement
that is sent to the database, a transaction that ends, and a file that is moved into place or made safe. Without a kill
it prints how many steps it took.
"""

import itertools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from sqlalchemy import Engine, event

from seamark import DataStore

steps = itertools.count(1)


def count_steps(kill_after: int) -> None:
    def step(*_: Any) -> None:
        if next(steps) == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            step()
            result = function(*args, **options)
            step()
            return result

        return call

    os.replace, os.fsync, os.unlink = counted(os.replace), counted(os.fsync), counted(os.unlink)
    for moment in ("before_cursor_execute", "after_cursor_execute", "commit", "rollback"):
        event.listen(Engine, moment, step)


def append(control: str, warehouse: str, first: int, count: int, kill_after: int = 0) -> int:
    with DataStore(control, warehouse, block_rows=1000) as store:
        clicks = store.table("clicks", "number long")
        count_steps(kill_after)
        clicks.append(pa.table({"number": pa.array(range(first, first + count), pa.int64())}))
    return next(steps) - 1


def serve() -> None:
    for line in sys.stdin:
        control, warehouse, *numbers = line.split()
        if not (child := os.fork()):
            append(control, warehouse, *map(int, numbers))
            sys.exit()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(append(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])))
    else:
        serve()
