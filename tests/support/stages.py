"""Projects as the pages in docs/ show them: each stage is a folder in which the commands of a block are run."""

from __future__ import annotations

import os
import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from tests.support.cli import TOML, VISITS, append, open_store, surroundings_kept

import seamark.cli
from seamark import DataStore
from seamark.control import LiveRun
from seamark.control.leases import Leases

STRICT = "if(name IS NULL, raise_error(concat('nobody has the id ', user_id)), concat(name, ': ', content)) AS line"


def run(folder: Path, *words: str, code: int = 0) -> None:
    """Runs a verb in a folder."""
    with surroundings_kept():
        assert seamark.cli.run([*words, "--json", "--project", str(folder)]) == code


def load(folder: Path) -> None:
    """What `python load.py` does."""
    with surroundings_kept():
        sys.path.insert(0, str(folder))
        os.chdir(folder)
        runpy.run_path("load.py")


# --- a new project ----------------------------------------------------------------------------------------------------


def nothing(folder: Path) -> None:
    """A folder with nothing in it."""


def new(folder: Path) -> None:
    """Right after `seamark init`."""
    with surroundings_kept():
        os.chdir(folder)
        assert seamark.cli.run(["init", "--json"]) == 0


def loaded(folder: Path) -> None:
    """With the sample data, before the first run."""
    new(folder)
    load(folder)


def demo(folder: Path) -> None:
    """After the first run."""
    loaded(folder)
    run(folder, "run")


def renamed(folder: Path) -> None:
    """Alice has a new name, and nothing has run since."""
    demo(folder)
    file = folder / "data" / "profiles.csv"
    file.write_text(file.read_text().replace("Alice", "Alicia"))
    load(folder)


def settled(folder: Path) -> None:
    """Alice's new name has reached the feed."""
    renamed(folder)
    run(folder, "run")


VIEW = """CREATE MATERIALIZED VIEW lines PRIMARY KEY (post_id) AS
SELECT p.post_id, a.name,
       upper(p.contents) AS line
FROM posts p LEFT JOIN profiles a ON a.id = p.user_id;
"""


def viewed(folder: Path) -> None:
    """A file with a view that names a column which is not there."""
    new(folder)
    (folder / "views.sql").write_text(VIEW)


LINES = """CREATE MATERIALIZED VIEW lines AS
SELECT p.post_id, a.name, upper(p.content) AS line
FROM posts p LEFT JOIN profiles a ON a.id = p.user_id;

CREATE ASYNC HANDLER blog PROCESS lines,
  INPUT posts CHANGEFEED log AS STREAM,
  INPUT profiles CHANGEFEED log AS BATCH;
"""
WORDS = """CREATE MATERIALIZED VIEW words PRIMARY KEY (post_id, word) AS
SELECT post_id, explode(split(content, ' ')) AS word
FROM posts;
"""


def views(folder: Path) -> None:
    """Two views, one of them with a dictionary in which Alice's new name waits."""
    new(folder)
    (folder / "views").mkdir()
    (folder / "views" / "lines.sql").write_text(LINES)
    (folder / "views" / "words.sql").write_text(WORDS)
    with (folder / "seamark.toml").open("a") as file:
        file.write('\n[views]\nfiles = ["views"]\n')
    load(folder)
    run(folder, "run")
    file = folder / "data" / "profiles.csv"
    file.write_text(file.read_text().replace("Alice", "Alicia"))
    load(folder)
    run(folder, "run")


def left_out(folder: Path) -> None:
    """The same, and one of the views has a mistake."""
    views(folder)
    (folder / "views" / "words.sql").write_text(WORDS.replace("content", "contents"))


# --- trouble ----------------------------------------------------------------------------------------------------------


def stranger(folder: Path) -> None:
    """A post by somebody who has no profile, and a step that cannot make a line of it."""
    demo(folder)
    file = folder / "pipeline.py"
    program = file.read_text().replace("concat(name, ': ', content) AS line", STRICT)
    file.write_text(program.replace("outputs=[feed])", 'outputs=[feed], on_change="keep")'))
    with (folder / "data" / "posts.csv").open("a") as posts:
        posts.write("6,400,Has anybody seen my keys?\n7,100,They are on the jetty\n")
    load(folder)


def failed(folder: Path) -> None:
    """After two runs in which that post failed."""
    stranger(folder)
    run(folder, "run", code=1)
    run(folder, "run", code=1)


def changed(folder: Path) -> None:
    """The function of the step is another one than it was."""
    demo(folder)
    file = folder / "pipeline.py"
    file.write_text(file.read_text().replace("concat(name, ': ', content)", "concat(name, ' says: ', content)"))


def at_work(folder: Path) -> None:
    """Another process is in the second of three batches."""
    renamed(folder)
    with open_store(folder) as store:
        day = Leases(store.control.database, seconds=86_400)  # other blocks may be shown before this one
        lease = day.acquire("step:process_posts", "host-1:4711")
        assert lease is not None
        now = store.clock.now().timestamp()
        pins = {"posts": 4, "profiles": 4}
        store.control.live.begin(LiveRun("1", "process_posts", lease, "changes", now - 90, pins, batch=2, batches=3))


def damaged(folder: Path) -> None:
    """A bit of a slice was flipped."""
    demo(folder)
    slice_file = next((folder / "warehouse" / "posts" / "data").iterdir())
    content = bytearray(slice_file.read_bytes())
    content[len(content) // 3] ^= 1
    slice_file.write_bytes(content)


def orphan(folder: Path) -> None:
    """A file that no chain names."""
    demo(folder)
    slice_file = next((folder / "warehouse" / "posts" / "data").iterdir())
    left = folder / "warehouse" / "posts" / "data" / ("f1620" + "0" * 64)
    shutil.copy(slice_file, left)
    os.utime(left, (1_600_000_000, 1_600_000_000))


def foreign_head(folder: Path) -> None:
    """The head of a table is not in the database's chain."""
    demo(folder)
    (folder / "warehouse" / "profiles" / "refs" / "head").write_text("f1620" + "ab" * 32)


def no_database(folder: Path) -> None:
    """The control database is lost."""
    demo(folder)
    for file in folder.glob("seamark.db*"):
        file.unlink()


# --- others -----------------------------------------------------------------------------------------------------------


def ledger(folder: Path) -> None:
    """Six posts in one commit, then three records more: the chain that docs/ledger.md explains."""
    new(folder)
    rows = {"post_id": list(range(1, 7)), "user_id": [100] * 6, "content": list("abcdef")}
    with open_store(folder) as store:
        posts = store.table("posts", "post_id long, user_id long, content string", key="post_id")
        posts.upsert(pa.table(rows))
        posts.upsert(pa.table({"post_id": [1, 7], "user_id": [100, 200], "content": ["A", "g"]}))
        profiles = store.table("profiles", "id long, name string", key="id")
        profiles.upsert(pa.table({"id": [100, 200], "name": ["Alice", "Bob"]}))
    run(folder, "run")
    with open_store(folder) as store:
        posts = store.table("posts")
        posts.upsert(pa.table({"post_id": [2, 8], "user_id": [100, 100], "content": ["B", "h"]}))
    run(folder, "run")


def sink(folder: Path) -> None:
    """A sink that has not sent anything yet, and a renamed profile."""
    renamed(folder)
    with (folder / "pipeline.py").open("a") as file:
        file.write('\nds.sink("feed", sm.ClickHouseSink("chdb:///clickhouse", table="feed"))\n')


def visits(folder: Path) -> None:
    """A diff after two runs."""
    (folder / "seamark.toml").write_text(TOML)
    (folder / "pipeline.py").write_text(VISITS)
    append(folder, "joined_visits", (42, 2, "Shop"), (43, 1, "News"))
    run(folder, "run")
    append(folder, "joined_conversions", (42, 3, 20))
    run(folder, "run")


STAGES: dict[str, Callable[[Path], None]] = {
    function.__name__.replace("_", " "): function
    for function in (
        *(nothing, new, loaded, demo, renamed, settled),
        *(stranger, failed, changed, at_work, damaged, orphan, foreign_head, no_database),
        *(ledger, sink, visits, viewed, views, left_out),
    )
}


def store_at(folder: Path) -> DataStore:
    """The store that the folder's pipeline declares."""
    with surroundings_kept():
        os.chdir(folder)
        return runpy.run_path("pipeline.py")["ds"]
