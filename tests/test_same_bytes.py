"""The same story, told at the same time, makes the same files: blocks, slices and checkpoints, byte for byte.

Who changes how a commit is made must not change what is in it. The clock and the ids of the tables are fixed here. What
is left that can differ is the writer that Parquet files name and the form of a function, so the names of files, which
are hashes of their bytes, are compared with the versions of Python and pyarrow that they were recorded with. What the
slices hold is compared with any versions: a logical hash knows nothing of either.
"""

import sys
from datetime import UTC, datetime
from itertools import count

import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.support import SUPPORT

import seamark as sm
from seamark.control import Mode
from seamark.ledger import AddData, ExecuteTransform, SourceState
from seamark.tables.write.change import LocalChange, NoRecords, appended_rows
from seamark.tables.write.write_change import Advance, write_change

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
RECORDED_WITH = ((3, 11), "26.0.1")  # Python, pyarrow


class NumberedKeys:
    """Makes keys one after another where a chain asks for a fresh one: an id is a public key."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def generate(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(next(self._numbers).to_bytes(32, "big"))


def join_names(posts, profiles):
    return posts.join(profiles, posts.user_id == profiles.id, "left").selectExpr("post_id", "user_id", "name", "title")


def clicks_of(*numbers: int) -> pa.Table:
    moments = [datetime(2024, 1, 1, 10, number, tzinfo=UTC) for number in numbers]
    return pa.table({"number": pa.array(numbers, pa.int64()), "at": pa.array(moments, pa.timestamp("us", tz="UTC"))})


def rows(table: sm.Table, *given: tuple) -> list[dict]:
    return [dict(zip(table.schema.names, row, strict=True)) for row in given]


def declare(store: sm.DataStore, posts: str) -> dict[str, sm.Table]:
    tables = {
        "posts": store.table("posts", posts, key="post_id"),
        "profiles": store.table("profiles", "id long, name string", key="id"),
        "feed": store.table("feed", "post_id long, user_id long, name string, title string", key="post_id"),
        "clicks": store.table("clicks", "number long, at timestamp", event_time="at"),
        "log": store.table("log", "VisitID long, F int, title string"),
        "money": store.table("money", "VisitID long, F int, revenue long"),
    }
    store.add(
        sm.BatchTransform(
            join_names,
            [tables["posts"], sm.JoinSpec(tables["profiles"], join_keys={"user_id": "id"})],
            [tables["feed"]],
            track_keys=True,
        )
    )
    logs = [tables["log"], tables["money"]]
    store.diff("visits", key="VisitID", fast_version="F", multiplier=1000, logs=logs, merge={"revenue": "sum"})
    return tables


@pytest.fixture
def story(open_store, spark, clock, monkeypatch) -> sm.DataStore:
    """A store after writes of every kind, runs of a step and a diff, inputs that are empty, and columns that came."""
    monkeypatch.setattr("seamark.ledger.multiformats.Ed25519PrivateKey", NumberedKeys())
    clock.advance(seconds=(NOON - clock.now()).total_seconds())
    assert clock.now() == NOON
    options = {"spark": spark, "clock": clock, "block_rows": 2}
    store = open_store(**options)
    tables = declare(store, "post_id long, user_id long, title string")
    posts, clicks, log = tables["posts"], tables["clicks"], tables["log"]
    posts.upsert(rows(posts, (1, 100, "one"), (2, 200, "two"), (3, 100, "three")))
    clicks.append(clicks_of(1, 2, 3))
    clicks.set_watermark(datetime(2024, 1, 1, 11, tzinfo=UTC))
    read_to = SourceState("clicks", "odf/etag", "a")
    write_change(
        clicks.source, Mode.FEED, lambda _: LocalChange(appended_rows(clicks_of(4))), Advance(source_state=read_to)
    )
    write_change(
        clicks.source, Mode.FEED, lambda _: NoRecords(), Advance(source_state=SourceState("clicks", "odf/etag", "b"))
    )
    log.append(rows(log, (1, 1, "start"), (2, 1, "start"), (1, 2, "next")))
    assert store.run().ok  # `profiles` and `money` have no chains before it

    clock.advance(seconds=1)
    profiles, money = tables["profiles"], tables["money"]
    profiles.upsert(rows(profiles, (100, "Alice"), (200, "Bob")))
    posts.delete([{"post_id": 3}])
    posts.replace(rows(posts, (1, 100, "one"), (2, 100, "two"), (4, 200, "four")))
    money.append(rows(money, (1, 2, 7), (2, 1, 5)))
    assert store.run().ok

    clock.advance(seconds=-5)  # backwards: times of commits go on by a millisecond
    profiles.upsert(rows(profiles, (100, "Alicia")))
    log.append(rows(log, (1, 3, "last")))
    assert store.run().ok

    grown = open_store(**options)
    posts = declare(grown, "post_id long, user_id long, title string, likes int")["posts"]
    posts.upsert(rows(posts, (1, 100, "one", None)))  # nothing differs: only the column is added
    posts.upsert(rows(posts, (1, 100, "one", 3)))
    assert grown.run().ok
    grown_again = open_store(**options)
    declare(grown_again, "post_id long, user_id long, title string, likes int, tags string")
    grown_again.step("join_names").run_idx([{"post_id": 2}])  # a run adds columns too
    return grown_again


def told(store: sm.DataStore, *, names: bool) -> list[str]:
    """One line per block: table, number, kind and logical hash of its slice; with the names of its files, if wanted."""
    lines = []
    for table in sorted(store.control.index.heads()):
        files = store.table(table).source.context.files(table)
        for entry in reversed(store.control.index.blocks(table)):
            event = files.block(entry.hash).event
            data = event.new_data if isinstance(event, AddData | ExecuteTransform) else None
            words = [table, str(entry.sequence), entry.kind, data.logical_hash if data else "-"]
            words += [entry.hash, entry.slice_hash or "-", entry.checkpoint_hash or "-"] if names else []
            lines.append(" ".join(words))
    return lines


def test_the_same_story_makes_the_same_slices_and_blocks(story):
    recorded = (SUPPORT / "recorded_blocks.txt").read_text().splitlines()
    assert told(story, names=False) == [" ".join(line.split()[:4]) for line in recorded]
    if (sys.version_info[:2], pa.__version__) == RECORDED_WITH:
        assert told(story, names=True) == recorded
    assert story.verify().ok
