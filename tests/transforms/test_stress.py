"""Several writers beside a runner that never rests: when they stop, one more run makes the output right."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

import seamark as sm
from seamark.clock import SystemClock

WRITERS, WRITES = 4, 12
USERS, POSTS = range(100, 106), range(40)


def write_at_random(store: sm.DataStore, frame: Callable[..., Any], chance: random.Random, number: int) -> None:
    """Upserts and deletes of posts and profiles, a few rows each; the text says who wrote it and when."""
    posts, profiles = store.table("posts"), store.table("profiles")
    for turn in range(WRITES):
        keys = chance.sample(POSTS, chance.randint(1, 4))
        users = chance.sample(USERS, chance.randint(1, 2))
        match chance.choice(["posts", "posts", "posts", "profiles", "no posts", "no profiles"]):
            case "posts":
                rows = [(key, chance.choice([*USERS, None]), f"{turn} of writer {number}") for key in keys]
                posts.upsert(frame(posts, rows))
            case "profiles":
                profiles.upsert(frame(profiles, [(user, f"user {turn} of writer {number}") for user in users]))
            case "no posts":
                posts.delete(frame(posts, [(key,) for key in keys], only_key=True))
            case "no profiles":
                profiles.delete(frame(profiles, [(user,) for user in users], only_key=True))


def stress(blog: Any, open_store: Callable[..., sm.DataStore], frame: Callable[..., Any], seed: int) -> int:
    """Let the writers and the runner loose, then settle; how many runs there were that did something."""
    blog.write_posts((0, 100, "first"))
    blog.write_profiles((100, "Alice"))
    chance = random.Random(seed)
    trouble: list[BaseException] = []

    def work(store: sm.DataStore, mine: random.Random, number: int) -> None:
        try:
            write_at_random(store, frame, mine, number)
        except BaseException as error:
            trouble.append(error)

    stores = [open_store(clock=SystemClock()) for _ in range(WRITERS)]
    threads = [
        threading.Thread(target=work, args=(store, random.Random(chance.random()), number))
        for number, store in enumerate(stores)
    ]
    for thread in threads:
        thread.start()
    runs = 0
    while any(thread.is_alive() for thread in threads):
        runs += blog.run().did_something
    for thread in threads:
        thread.join()
    assert trouble == []

    blog.run()
    assert blog.lines() == blog.oracle()
    assert blog.is_settled()
    assert blog.store.verify().ok
    return runs


@pytest.mark.scenario("X21")
@pytest.mark.hazard("H1")
@pytest.mark.timeout(600)
def test_nothing_is_lost_beside_several_writers(make_blog, open_store, frame):
    blog = make_blog(batch_rows=7)
    assert stress(blog, open_store, frame, seed=1) >= 2  # the runner did work beside them


@pytest.mark.long
@pytest.mark.scenario("X21")
@pytest.mark.hazard("H1")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost_beside_several_writers_again_and_again(make_blog, open_store, frame, seed):
    options = [{}, {"batch_rows": 3}, {"commit": "run", "batch_rows": 7}, {"track_keys": True, "algorithm": "v1"}]
    stress(make_blog(**options[seed % len(options)]), open_store, frame, seed)
