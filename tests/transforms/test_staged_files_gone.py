"""Somebody takes a run for dead and its files for orphans, as a host with a wrong clock may: the run stages anew."""

from __future__ import annotations

import shutil

import pytest
from sqlalchemy import text

from seamark import faults
from seamark.errors import StagedFilesGone


class Collector:
    """Takes away what live runs have staged, at one point of a commit, so many times."""

    def __init__(self, store, point: str, times: int, *, files: bool) -> None:
        self._store, self._point, self.left, self._files = store, point, times, files

    def reached(self, point: str) -> None:
        if point == self._point and self.left:
            self.left -= 1
            self.collect()

    def collect(self) -> None:
        with self._store.control.database.write() as connection:
            staged = list(connection.execute(text("SELECT object FROM staged WHERE object <> ''")).scalars())
            connection.execute(text("DELETE FROM staged"))
        if self._files:
            for name in staged:
                (self._store.warehouse / name).unlink(missing_ok=True)
            shutil.rmtree(self._store.warehouse / ".staging", ignore_errors=True)


@pytest.fixture
def collect_at(blog, monkeypatch):
    def at(point: str, *, times: int = 1, files: bool = True) -> Collector:
        collector = Collector(blog.store, point, times, files=files)
        monkeypatch.setattr(faults, "reached", collector.reached)
        return collector

    return at


@pytest.mark.scenario("X101")
@pytest.mark.parametrize("files", [False, True], ids=["registrations", "files too"])
@pytest.mark.parametrize("point", ["slices-staged", "blocks-staged"])
def test_a_step_stages_anew_what_was_taken_away(blog, collect_at, point, files):
    blog.write_posts((1, 100, "hello"), (2, 100, "hi"))
    collector = collect_at(point, files=files)

    report = blog.run()

    assert collector.left == 0
    assert (report.error, report.batches, report.appended) == (None, 1, 2)
    assert blog.lines() == blog.oracle()
    assert blog.is_settled()
    assert blog.store.verify().ok
    with blog.store.control.database.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM staged")).scalar_one() == 0


@pytest.mark.scenario("X101")
def test_a_step_whose_own_folder_goes_while_it_computes_begins_anew(blog, collect_at):
    blog.write_posts((1, 100, "hello"))
    collector = collect_at("never")
    blog.meanwhile = collector.collect

    report = blog.run()

    assert (report.error, report.failed, report.appended) == (None, 0, 1)
    assert blog.lines() == blog.oracle()
    assert blog.store.verify().ok


@pytest.mark.scenario("X101")
def test_a_step_that_is_robbed_again_and_again_says_so(blog, collect_at):
    blog.write_posts((1, 100, "hello"))
    collect_at("blocks-staged", times=99, files=False)

    report = blog.store.run("process_posts").steps["process_posts"]

    assert isinstance(report.error, StagedFilesGone)
    assert blog.feed.head.offset is None


@pytest.mark.scenario("X101")
@pytest.mark.parametrize("point", ["slices-staged", "blocks-staged"])
def test_a_write_stages_anew_what_was_taken_away(blog, collect_at, point):
    blog.write_posts((1, 100, "hello"))
    collector = collect_at(point)

    blog.write_posts((1, 100, "hello!"))

    assert collector.left == 0
    assert [row.content for row in blog.posts.rows().collect()] == ["hello!"]
    assert blog.store.verify().ok
