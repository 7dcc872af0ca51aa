"""A blog with a step, written as small literal rows; a recorder that says which keys a function was given;
and programs of a few lines, for what counts as a change of a function."""

from __future__ import annotations

import importlib
import itertools
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import seamark as sm
from seamark.steps.definition.definition import source_and_digest

Row = tuple[Any, ...]


def frame_of(table: sm.Table, rows: Sequence[Row], *, only_key: bool = False) -> pa.Table:
    """Literal rows as a frame with the table's columns, or its key columns."""
    names = table.key if only_key else table.schema.names
    columns = list(zip(*[row if isinstance(row, tuple) else (row,) for row in rows], strict=True)) or [()] * len(names)
    types = [table.schema.column(name).type for name in names]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
    return pa.Table.from_arrays(arrays, names=list(names))


def rows_of(table: sm.Table) -> list[Row]:
    """The current rows, sorted."""
    found = table.rows().toArrow().select(list(table.schema.names))
    return sorted(
        (tuple(row.values()) for row in found.to_pylist()),
        key=lambda row: [(v is not None, str(type(v)), v) for v in row],
    )


class Blog:
    """The store of design 8.1: posts and profiles in, feed out, and the step between them."""

    def __init__(self, store: sm.DataStore, calls: Path, **options: Any) -> None:
        self.store = store
        self.posts = store.table("posts", "post_id long, user_id long, content string", key="post_id")
        self.profiles = store.table("profiles", "id long, name string", key="id")
        self.feed = store.table("feed", "post_id long, line string", key="post_id")
        self._calls = calls
        self.broken: set[int] = set()  # posts that the function fails on
        self.meanwhile: Callable[[], Any] | None = None  # what happens, once, while the function computes
        reference = sm.JoinSpec(self.profiles, join_keys={"user_id": "id"})
        store.transform(inputs=[self.posts, reference], outputs=[self.feed], **options)(self.function())

    def function(self) -> Callable[..., Any]:
        calls = self._calls

        def process_posts(posts: Any, profiles: Any) -> Any:
            keys = sorted(row.post_id for row in posts.select("post_id").collect())
            with calls.open("a") as file:
                file.write(" ".join(map(str, keys)) + "\n")
            meanwhile, self.meanwhile = self.meanwhile, None
            if meanwhile is not None:
                meanwhile()
            if wrong := self.broken & set(keys):
                raise ValueError(f"post {min(wrong)} is broken")
            joined = posts.join(profiles, posts.user_id == profiles.id, "left")
            return joined.selectExpr("post_id", "concat(coalesce(name, '?'), ': ', content) AS line")

        return process_posts

    def calls(self) -> list[list[int]]:
        """The keys of each call of the function since this was last asked."""
        if not self._calls.exists():
            return []
        told = [[int(word) for word in line.split()] for line in self._calls.read_text().splitlines()]
        self._calls.unlink()
        return told

    def write_posts(self, *rows: Row) -> None:
        self.posts.upsert(frame_of(self.posts, rows))

    def write_profiles(self, *rows: Row) -> None:
        self.profiles.upsert(frame_of(self.profiles, rows))

    def delete_posts(self, *keys: int) -> None:
        self.posts.delete(frame_of(self.posts, [(key,) for key in keys], only_key=True))

    def delete_profiles(self, *keys: int) -> None:
        self.profiles.delete(frame_of(self.profiles, [(key,) for key in keys], only_key=True))

    def run(self, **options: Any) -> sm.StepReport:
        report = self.store.run(**options)
        step = report.steps["process_posts"]
        if step.error is not None:
            raise step.error
        return step

    @property
    def step(self) -> sm.Step:
        return self.store.step("process_posts")

    def lines(self) -> list[Row]:
        return rows_of(self.feed)

    def oracle(self) -> list[Row]:
        """What the function gives over all current rows."""
        names = dict(rows_of(self.profiles))
        return sorted(
            (post, None if content is None else f"{names.get(user) or '?'}: {content}")
            for post, user, content in rows_of(self.posts)
        )

    def is_settled(self) -> bool:
        """Whether a further run does nothing, and the output is right."""
        head = self.feed.head
        report = self.store.run()
        return not report.did_something and self.feed.head == head and self.lines() == self.oracle()


@pytest.fixture
def open_store(open_store: Callable[..., sm.DataStore], spark: Any, clock: Any) -> Callable[..., sm.DataStore]:
    """Opens the store of this test with Spark and a clock to turn."""
    return lambda **options: open_store(**{"spark": spark, "clock": clock, **options})


@pytest.fixture
def make_blog(open_store: Callable[..., sm.DataStore], tmp_path: Path) -> Callable[..., Blog]:
    """The blog of this test with other options of its step; called again, as another process would open it."""
    return lambda **options: Blog(open_store(), tmp_path / "calls", **options)


@pytest.fixture
def blog(make_blog: Callable[..., Blog]) -> Blog:
    return make_blog()


@pytest.fixture
def rows() -> Callable[[sm.Table], list[Row]]:
    """The current rows of a table, sorted."""
    return rows_of


@pytest.fixture
def frame() -> Callable[..., pa.Table]:
    """Literal rows as a frame for a table: `frame(posts, [(1, 100, "hello")])`."""
    return frame_of


class Project:
    """A folder with the file `steps` and beside it a package `pk`; each program takes the place of the one before."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self._monkeypatch = folder, monkeypatch
        self._number = itertools.count()

    def step(self, steps: str, helper: str = "", **more: str) -> Any:
        """The function `step` of a program; `more` are files of the package `pk`."""
        self.forget()
        folder = self._folder / f"program_{next(self._number)}"
        (folder / "pk" / "deep").mkdir(parents=True)
        for package in ("pk", "pk/deep"):
            (folder / package / "__init__.py").write_text("")
        (folder / "pk" / "deep" / "text.py").write_text(textwrap.dedent(helper))
        for name, text in more.items():
            (folder / "pk" / f"{name}.py").write_text(textwrap.dedent(text))
        (folder / "steps.py").write_text(textwrap.dedent(steps))
        self._monkeypatch.syspath_prepend(str(folder))
        importlib.invalidate_caches()
        return importlib.import_module("steps").step

    def digest(self, steps: str, helper: str = "", **more: str) -> str:
        """The digest of the function `step` of a program."""
        return source_and_digest("step", self.step(steps, helper, **more), None)[1]

    @staticmethod
    def forget() -> None:
        """Unload the program."""
        for name in [name for name in sys.modules if name.partition(".")[0] in ("steps", "pk")]:
            del sys.modules[name]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A folder for programs whose function `step` is looked at."""
    yield Project(tmp_path / "project", monkeypatch)
    Project.forget()
