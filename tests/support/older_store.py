"""A store as an earlier version of Seamark left it: the program that made it, and the rows that it holds.

The program runs on that version and on this one. Functions are part of a step's definition, so whoever changes one here
makes a different program, and the stores in `stores/` do not fit any more. They were made by

    PYTHONPATH=<sources of the version>:. python -c "from tests.support.older_store import *; make(Path('NAME'))"
    tar -C NAME -czf tests/support/stores/NAME.tar.gz --exclude='*.crc' control.db warehouse
"""

from __future__ import annotations

import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

import seamark as sm

STORES = {path.name.partition(".")[0]: path for path in (Path(__file__).parent / "stores").glob("*.tar.gz")}
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
LEFT_AT = BEGIN + timedelta(days=15)  # when the store was closed

POSTS = "post_id long, user_id long, content string"
PROFILES = "id long, name string"
FEED = "post_id long, line string"
LOUD = "post_id long, content string"
VISITS = "VisitID long, y_VisitVersion int, title string, start_time timestamp"
CONVERSIONS = "VisitID long, y_VisitVersion int, revenue long"


class SetClock:
    """Shows what it was set to: a store that keeps rows for some days must not depend on the day of the test."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self) -> datetime:
        """The time that was set, in UTC."""
        return self._now

    def now_is(self, now: datetime) -> None:
        """Set it."""
        self._now = now

    def sleep(self, seconds: float) -> None:
        """Move it on."""
        self._now += timedelta(seconds=max(seconds, 0.0))


def lines(posts: Any, profiles: Any) -> Any:
    """The feed: each post with its user's name before it."""
    joined = posts.join(profiles, posts.user_id == profiles.id, "left")
    return joined.selectExpr("post_id", "concat(name, ': ', content) AS line")


def shout(posts: pd.DataFrame) -> pd.DataFrame:
    """The content in capitals; a post that has none fails."""
    if posts["content"].str.startswith("bad").any():
        raise ValueError("a bad post")
    return pd.DataFrame({"post_id": posts["post_id"], "content": posts["content"].str.upper()})


class OlderStore:
    """The store with its steps declared, opened by whatever version of Seamark is imported."""

    def __init__(self, folder: Path, clock: SetClock, spark: Any = None) -> None:
        self.clock = clock
        self.ds = sm.DataStore(f"sqlite:///{folder}/control.db", folder / "warehouse", spark=spark, clock=clock)
        self.posts = self.ds.table("posts", POSTS, key="post_id")
        self.profiles = self.ds.table("profiles", PROFILES, key="id")
        self.feed = self.ds.table("feed", FEED, key="post_id")
        self.loud = self.ds.table("loud", LOUD, key="post_id")
        self.visits = self.ds.table("joined_visits", VISITS)
        self.conversions = self.ds.table("joined_conversions", CONVERSIONS)
        reference = sm.JoinSpec(self.profiles, join_keys={"user_id": "id"})
        self.ds.add(sm.BatchTransform(lines, [self.posts, reference], [self.feed], name="process_posts"))
        self.ds.add(sm.BatchTransform(shout, [self.posts], [self.loud], name="shout", pandas=True))
        self.diff = self.ds.diff(
            "visits",
            key="VisitID",
            fast_version="y_VisitVersion",
            multiplier=1000,
            logs=[self.visits, self.conversions],
            merge={"revenue": "sum"},
            ttl=("start_time", "30 days"),
        )

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        """The rows of a table, sorted."""
        return sorted(tuple(row) for row in self.ds.table(name).rows().collect())

    def versions(self, visit: int) -> list[int]:
        """The signed versions that the diff has written of a visit, sorted."""
        written = self.diff.visit_log_slow.rows().where(f"VisitID = {visit}").collect()
        return sorted(row.Sign * row.Version for row in written)


def frame(**columns: list[Any]) -> pa.Table:
    """A small frame of columns."""
    return pa.table(columns)


def make(folder: Path) -> None:
    """Write the store into a new folder."""
    folder.mkdir(parents=True)
    clock = SetClock(BEGIN)
    store = OlderStore(folder.absolute(), clock)
    store.profiles.upsert(frame(id=[100, 200], name=["Alice", "Bob"]))
    store.posts.upsert(
        frame(
            post_id=[1, 2, 3, 4],
            user_id=[100, 200, 100, 200],
            content=["hello", "hi", "bad words", "a post that goes"],
        )
    )
    long_ago, lately = BEGIN - timedelta(days=20), BEGIN - timedelta(days=1)
    store.visits.append(
        frame(
            VisitID=[41, 42, 43],
            y_VisitVersion=[1, 2, 1],
            title=["Home", "Shop", "News"],
            start_time=[long_ago, lately, lately],
        )
    )
    store.ds.run()
    store.ds.fold()

    clock.now_is(LEFT_AT)  # visit 41 is more than 30 days old by now
    store.posts.upsert(frame(post_id=[2], user_id=[200], content=["hi again"]))
    store.posts.delete(frame(post_id=[4]))
    store.profiles.upsert(frame(id=[100], name=["Alicia"]))
    store.conversions.append(frame(VisitID=[42], y_VisitVersion=[3], revenue=[5]))
    store.ds.run()
    store.posts.upsert(frame(post_id=[1, 5], user_id=[100, 300], content=["hello, all", "not computed yet"]))
    store.ds.close()


def unpacked(archive: Path, folder: Path) -> Path:
    """A packed store in a folder of its own."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder
