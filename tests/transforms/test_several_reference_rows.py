"""Keys found through a reference with several rows for a value: a row of the primary belongs to each of them."""

from __future__ import annotations

from typing import Any

import pytest

import seamark as sm

pytestmark = pytest.mark.scenario("X91")


class Clubs:
    """Posts of users, who are members of any number of regions; each region has the sum of its members' posts."""

    def __init__(self, store: sm.DataStore, **options: Any) -> None:
        self.store = store
        self.posts = store.table("posts", "post_id long, user_id long, amount long", key="post_id")
        self.members = store.table("members", "user_id long, region string", key=["user_id", "region"])
        self.sums = store.table("sums", "region string, total long, share double", key="region")
        reference = sm.JoinSpec(self.members, join_keys={"user_id": "user_id"})
        options = {"transform_keys": ["region"], **options}

        @store.transform(inputs=[self.posts, reference], outputs=[self.sums], **options)
        def add_up(posts, members):
            from pyspark.sql import functions as F

            regions = members.groupBy("user_id").agg(F.count("*").alias("regions"))  # what a user has elsewhere counts
            joined = posts.join(members, "user_id").join(regions, "user_id").where("amount <> 13 OR raise_error('bad')")
            shared = F.sum(F.col("amount") / F.col("regions"))
            return joined.groupBy("region").agg(F.sum("amount").alias("total"), shared.alias("share"))

    def write(self, *posts: tuple[int, int, int]) -> None:
        self.posts.upsert([{"post_id": p, "user_id": u, "amount": a} for p, u, a in posts])

    def join(self, *members: tuple[int, str]) -> None:
        self.members.upsert([{"user_id": u, "region": r} for u, r in members])

    def leave(self, *members: tuple[int, str]) -> None:
        self.members.delete([{"user_id": u, "region": r} for u, r in members])

    def keys_of_a_run(self) -> int:
        report = self.store.run()
        assert report.ok, report.steps["add_up"].error
        return report.steps["add_up"].keys

    def wanted(self) -> list[tuple[Any, ...]]:
        """What comes out from scratch."""
        posts = [row.asDict() for row in self.posts.rows().collect()]
        members = [row.asDict() for row in self.members.rows().collect()]
        regions = {m["user_id"]: sum(o["user_id"] == m["user_id"] for o in members) for m in members}
        sums: dict[str, list[float]] = {}
        for member in members:
            for post in posts:
                if post["user_id"] == member["user_id"]:
                    total = sums.setdefault(member["region"], [0, 0.0])
                    total[0] += post["amount"]
                    total[1] += post["amount"] / regions[member["user_id"]]
        return sorted((region, *total) for region, total in sums.items())


@pytest.fixture
def clubs(ds: sm.DataStore) -> Clubs:
    return Clubs(ds)


def test_sums_are_as_from_scratch_by_changes_of_either_side(clubs: Clubs, rows: Any) -> None:
    clubs.write((1, 1, 10), (2, 2, 5), (3, 3, 7))
    clubs.join((1, "n"), (1, "s"), (2, "s"), (3, "w"))
    clubs.keys_of_a_run()
    assert rows(clubs.sums) == [("n", 10, 5.0), ("s", 15, 10.0), ("w", 7, 7.0)]

    clubs.write((1, 1, 11))
    assert clubs.keys_of_a_run() == 2  # both regions of user 1, each with all its posts
    assert rows(clubs.sums) == [("n", 11, 5.5), ("s", 16, 10.5), ("w", 7, 7.0)]
    clubs.write((2, 2, 6))
    assert clubs.keys_of_a_run() == 1  # one of the regions of user 1, whose other one is left alone
    assert rows(clubs.sums) == clubs.wanted()
    clubs.join((3, "s"))
    assert clubs.keys_of_a_run() == 2
    assert rows(clubs.sums) == clubs.wanted()
    clubs.leave((1, "n"))
    clubs.keys_of_a_run()
    assert rows(clubs.sums) == clubs.wanted() == [("s", 24, 20.5), ("w", 7, 3.5)]

    clubs.store.offset_table.reset_offset("add_up")
    report = clubs.store.run().steps["add_up"]
    assert (report.mode, report.appended, report.corrected, report.retracted) == ("all keys", 0, 0, 0)
    assert not clubs.store.run().did_something
    assert clubs.store.verify(replay=True).ok


def test_parts_of_the_work_and_failing_keys_come_out_as_from_scratch(clubs: Clubs, rows: Any) -> None:
    clubs.write((1, 1, 10), (2, 2, 5))
    clubs.join((1, "n"), (1, "s"), (2, "s"), (2, "w"))
    clubs.keys_of_a_run()
    before = rows(clubs.sums)
    step = clubs.store.step("add_up")

    clubs.write((2, 2, 13))  # the function fails on it: both regions of user 2 do
    assert clubs.store.run().steps["add_up"].failed == 2
    assert step.failures().region.tolist() == ["s", "w"]
    assert rows(clubs.sums) == before
    clubs.write((2, 2, 6), (1, 1, 9))
    assert sorted(row.region for row in step.get_changed_idx().collect()) == ["n", "s", "w"]
    assert step.run_full(sm.RunConfig(limit=1)).keys == 1
    assert step.run_full(sm.RunConfig(filters={"region": "s"})).keys <= 1
    clubs.keys_of_a_run()
    assert rows(clubs.sums) == clubs.wanted()
    clubs.join((3, "n"))
    assert step.run_changelist(sm.ChangeList({"members": [{"user_id": 1, "region": "n"}]})).ok
    assert rows(clubs.sums) == clubs.wanted()
    assert step.failures().empty


def test_a_large_change_comes_out_the_same(
    clubs: Clubs, rows: Any, set_small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_small(monkeypatch, 0)
    clubs.write((1, 1, 10), (2, 2, 5))
    clubs.join((1, "n"), (1, "s"), (2, "s"))
    clubs.keys_of_a_run()
    clubs.write((1, 1, 11))
    clubs.keys_of_a_run()
    clubs.join((2, "n"))
    clubs.keys_of_a_run()
    assert rows(clubs.sums) == clubs.wanted()


def test_an_append_only_reference_has_several_rows_for_a_value(ds: sm.DataStore, rows: Any) -> None:
    posts = ds.table("posts", "post_id long, user_id long", key="post_id")
    visits = ds.table("visits", "user_id long, region string")
    counts = ds.table("counts", "region string, posts long", key="region")
    reference = sm.JoinSpec(visits, join_keys={"user_id": "user_id"})

    @ds.transform(inputs=[posts, reference], outputs=[counts], transform_keys=["region"])
    def count(posts, visits):
        return posts.join(visits, "user_id").groupBy("region").count().toDF("region", "posts")

    posts.upsert([{"post_id": 1, "user_id": 1}, {"post_id": 2, "user_id": 1}])
    visits.append([{"user_id": 1, "region": "n"}, {"user_id": 1, "region": "n"}, {"user_id": 1, "region": "s"}])
    ds.run()
    assert rows(counts) == [("n", 4), ("s", 2)]
    visits.append([{"user_id": 1, "region": "s"}])
    posts.upsert([{"post_id": 3, "user_id": 1}])
    ds.run()
    assert rows(counts) == [("n", 6), ("s", 6)]
