"""Small projects to run verbs on: one that needs no Spark, and a blog with a step that has run once."""

import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.cli import TOML, open_store, surroundings_kept

import seamark
import seamark.cli
from seamark import DataStore
from seamark.clock import commit_time
from seamark.control import Position, RunRecord
from seamark.ledger import DatasetKind, ExecuteTransform, ExecuteTransformInput, SetTransform
from seamark.ledger.chain import ChainDraft
from seamark.ledger.transform import SqlQueryStep, TransformInput, TransformSql
from seamark.tables.write.publish import Progress, begin_chain, declare_schema, plan_table, publish
from seamark.tables.write.writing import writing

PIPELINE = """\
import seamark as sm

ds = sm.DataStore()

posts    = ds.table("posts",    "post_id long, user_id long, content string", key="post_id")
profiles = ds.table("profiles", "id long, name string",                       key="id")
clicks   = ds.table("clicks",   "url string, at timestamp", event_time="at")
"""


BLOG = """\
import seamark as sm

ds = sm.DataStore()

posts    = ds.table("posts",    "post_id long, user_id long, content string", key="post_id")
profiles = ds.table("profiles", "id long, name string",                       key="id")
feed     = ds.table("feed",     "post_id long, line string",                  key="post_id")


@ds.transform(inputs=[posts, sm.JoinSpec(profiles, join_keys={"user_id": "id"})], outputs=[feed])
def process_posts(posts, profiles):
    joined = posts.join(profiles, posts.user_id == profiles.id, "left")
    line = "if(content = 'boom', raise_error('no way'), concat(name, ': ', content)) AS line"
    return joined.selectExpr("post_id", line)
"""


@dataclass(frozen=True)
class Told:
    """What a command line answered."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict:
        return json.loads(self.out)

    @property
    def error(self) -> dict:
        return self.document["error"]


@pytest.fixture
def empty_project(tmp_path: Path) -> Path:
    """A project whose tables were never written."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "seamark.toml").write_text(TOML)
    (folder / "pipeline.py").write_text(PIPELINE)
    return folder


@pytest.fixture
def project(empty_project: Path) -> Path:
    """The same with data: three posts, five clicks in two commits, and `feed`, which a step derives from the posts."""
    store = open_store(empty_project)
    posts = store.table("posts", "post_id long, user_id long, content string", key="post_id")
    posts.upsert(pa.table({"post_id": [1, 2, 3], "user_id": [100, 200, None], "content": ["hello", "hi", "again"]}))
    clicks = store.table("clicks", "url string, at timestamp", event_time="at")
    for first in (0, 2):
        moments = pa.array([1_700_000_000_000_000 + first + n for n in range(first + 2)], pa.timestamp("us", tz="UTC"))
        clicks.append(pa.table({"url": [f"/{first}/{n}" for n in range(first + 2)], "at": moments}))
    derive_feed(store)
    store.close()
    return empty_project


@pytest.fixture(scope="session")
def blog_as_it_ran(tmp_path_factory: pytest.TempPathFactory, spark: object) -> Path:
    """The blog after its first run; not to be touched: `blog` is a copy."""
    folder = tmp_path_factory.mktemp("cli") / "blog"
    folder.mkdir()
    (folder / "seamark.toml").write_text(TOML)
    (folder / "pipeline.py").write_text(BLOG)
    write(folder, "posts", (1, 100, "hello"), (2, 200, "hi"), (3, 100, "again"))
    write(folder, "profiles", (100, "Alice"), (200, "Bob"))
    with surroundings_kept():
        assert seamark.cli.run(["run", "--json", "--project", str(folder)]) == 0
    return folder


@pytest.fixture
def blog(blog_as_it_ran: Path, tmp_path: Path) -> Path:
    """The blog of design 8.1, three posts of two people, settled."""
    return Path(shutil.copytree(blog_as_it_ran, tmp_path / "blog"))


@pytest.fixture(name="write")
def write_fixture(spark: object) -> Callable[..., None]:
    """Writes rows to a table of a project, as another program would."""
    return write


def write(folder: Path, name: str, *rows: tuple[object, ...]) -> None:
    schemas = {
        "posts": ("post_id long, user_id long, content string", "post_id"),
        "profiles": ("id long, name string", "id"),
    }
    with open_store(folder) as store:
        table = store.table(name, *schemas[name])
        columns = zip(*rows, strict=True)
        table.upsert(pa.table([pa.array(list(values)) for values in columns], names=list(table.schema.names)))


def derive_feed(store: DataStore) -> None:
    """What the step `process_posts` would write: a transaction that took all posts and gave no records."""
    posts = store.control.index.head("posts")
    feed = store.table("feed", "post_id long, line string", key="post_id")
    context = feed.source.context
    planned = plan_table(context, "feed")
    draft = ChainDraft(planned.state, commit_time(context.clock, None))
    begin_chain(draft, DatasetKind.DERIVATIVE)
    queries = (SqlQueryStep("process_posts", "SELECT 1"), SqlQueryStep(None, "SELECT * FROM process_posts"))
    draft.add(SetTransform((TransformInput(posts.dataset_id, "posts"),), TransformSql("seamark", queries=queries)))
    declare_schema(draft, feed.schema)
    draft.add(
        ExecuteTransform((ExecuteTransformInput(posts.dataset_id, None, posts.head_hash, None, posts.last_offset),))
    )
    with writing(context) as written:
        run = RunRecord(written.run_id, "process_posts", "changes", 1_700_000_000.0, 1_700_000_001.5, rows_in=3)
        moment = posts.system_time.timestamp()
        position = Position("process_posts", "posts", moment, posts.last_offset, posts.sequence, posts.head_hash)
        progress = Progress(positions=(position,))
        publish(context, written, run, [(planned, draft)], progress=progress)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Told]]:
    """Runs a command line in this process, in a folder, and gives what it answered."""

    def run(*arguments: str, folder: Path | None = None) -> Told:
        if folder is not None:
            os.chdir(folder)
        capsys.readouterr()
        code = seamark.cli.run(arguments)
        told = capsys.readouterr()
        return Told(code, told.out, told.err)

    with surroundings_kept():
        yield run


@pytest.fixture
def command() -> Callable[..., Told]:
    """Runs the real command in a process of its own, its output in pipes."""

    def run(*arguments: str, folder: Path, **environment: str) -> Told:
        clean = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "FORCE_COLOR")}
        told = subprocess.run(
            [Path(sys.executable).with_name("seamark"), *arguments],
            cwd=folder,
            env=clean | environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        return Told(told.returncode, told.stdout, told.stderr)

    return run


@pytest.fixture
def on_a_terminal() -> Callable[..., Told]:
    """Runs the real command with stdin and stderr on a terminal, and stdout in a pipe."""

    def run(*arguments: str, folder: Path, answer: bytes = b"") -> Told:
        ours, theirs = pty.openpty()
        environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"}
        program = [Path(sys.executable).with_name("seamark"), *arguments]
        with subprocess.Popen(
            program, cwd=folder, env=environment, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs
        ) as process:
            os.close(theirs)
            os.write(ours, answer)
            shown = b"".join(_pieces(ours))
            assert process.stdout is not None
            out = process.stdout.read().decode()
        os.close(ours)
        return Told(process.returncode, out, shown.decode())

    return run


def _pieces(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # the other side is closed
            return
        yield piece
