"""A process that runs a step and may be killed on the way: `step_program.py CONTROL WAREHOUSE CALLS OPTIONS [KILL]`.

It is killed at the point that SEAMARK_KILL_AT names, or, with KILL, when its function is called for that time. OPTIONS
are those of the step, as JSON. Every call of the function adds a line with its keys to the file CALLS.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import seamark as sm


def declare(store: sm.DataStore, calls: Path, kill: int = 0, **options: Any) -> sm.Step:
    """The step of the blog, with a second output that holds the length of each line."""
    posts = store.table("posts", "post_id long, user_id long, content string", key="post_id")
    profiles = store.table("profiles", "id long, name string", key="id")
    feed = store.table("feed", "post_id long, line string", key="post_id")
    sizes = store.table("sizes", "post_id long, size int", key="post_id")
    made = 0

    def process_posts(posts: Any, profiles: Any) -> Any:
        nonlocal made
        made += 1
        if made == kill:
            os.kill(os.getpid(), signal.SIGKILL)
        keys = sorted(row.post_id for row in posts.select("post_id").collect())
        with calls.open("a") as file:
            file.write(" ".join(map(str, keys)) + "\n")
        joined = posts.join(profiles, posts.user_id == profiles.id, "left")
        lines = joined.selectExpr("post_id", "concat(coalesce(name, '?'), ': ', content) AS line")
        return lines, lines.selectExpr("post_id", "length(line) AS size")

    reference = sm.JoinSpec(profiles, join_keys={"user_id": "id"})
    return store.add(sm.BatchTransform(process_posts, [posts, reference], [feed, sizes], version="1", **options))


def main(control: str, warehouse: str, calls: str, options: str, kill: str = "0") -> None:
    with sm.DataStore(control, warehouse) as store:
        declare(store, Path(calls), int(kill), **json.loads(options))
        report = store.run(fail_fast=True)
        store.fold()
    print(report.steps["process_posts"].batches)


if __name__ == "__main__":
    main(*sys.argv[1:])
