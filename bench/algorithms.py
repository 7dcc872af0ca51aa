"""The two ways to select keys: `v1` compares with all keys that were processed, `v2` goes by offsets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import seamark as sm
from bench import blog
from bench.blog import Blog, ran
from bench.measure import Figure, best_of, seconds, shown
from bench.stores import Bench

CHANGED = 100
ROUNDS = 2


def algorithms(bench: Bench, folder: Path) -> Iterator[Figure]:
    """100 changed posts, where 100 000 and where 10 M keys were processed: `v1` against `v2`."""
    for which in (bench.small, bench.large):
        by_keys, by_offsets = both_times(which)
        work = f"{CHANGED} changed of {shown(which.posts_count)} processed keys: v1 against v2"
        yield Figure(work, f"{by_keys:.2f} s", f"{by_offsets:.2f} s", by_keys / by_offsets, None)


def both_times(which: Blog) -> list[float]:
    """How long a run takes by either, of one step: two programs declare it, each with its own algorithm."""
    programs = [tracked(which, algorithm) for algorithm in ("v1", "v2")]
    ran(programs[1], "tracked")
    programs[1].fold("tracked", "tracked__keys")

    def one_run(program: sm.DataStore) -> float:
        which.edit_posts(CHANGED)
        return seconds(lambda: ran(program, "tracked"))

    times = best_of([tuple(one_run(program) for program in programs) for _ in range(ROUNDS)])
    for program in programs:
        program.close()
    which.run()  # the feed follows, so that other figures find it settled
    return times


def tracked(which: Blog, algorithm: str) -> sm.DataStore:
    """Another program on the same store, with a simple map that remembers which keys it has processed."""
    ds = which.opened_again()
    output = ds.table("tracked", "post_id long, content string", key="post_id")
    step = sm.BatchTransform(
        blog.loud, [ds.table("posts")], [output], name="tracked", track_keys=True, algorithm=algorithm
    )
    ds.add(step)
    return ds
