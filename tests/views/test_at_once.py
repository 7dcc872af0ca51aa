"""A scan, passes over a dictionary, runs and writers at once: nothing is lost, and all ends equal to the query."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest
from tests.support.view_world import ViewWorld

import seamark as sm

ORDER_V = """
SELECT o.id, o.note, c.name, r.title FROM orders o JOIN customer c ON c.id = o.customer_id
LEFT JOIN region r ON r.id = c.region_id
"""
PER_REGION = """
SELECT coalesce(r.title, '-') AS title, count(*) AS n FROM orders o JOIN customer c ON c.id = o.customer_id
LEFT JOIN region r ON r.id = c.region_id GROUP BY coalesce(r.title, '-')
"""


def opened(spark, folder) -> ViewWorld:
    """A program of its own over the same store."""
    shop = ViewWorld(sm.DataStore(f"sqlite:///{folder}/control.db", warehouse=folder / "warehouse", spark=spark))
    shop.view("v", ORDER_V, key="id", dictionaries=["region"], batch_keys=7)
    shop.view("g", PER_REGION, key="title", dictionaries=["region"])
    return shop


@pytest.mark.scenario("V43")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 21))])
def test_all_at_once_ends_equal_to_the_query(spark, tmp_path, seed):
    shop = opened(spark, tmp_path)
    shop.put("region", (1, "north", None), (2, "south", None))
    shop.put("customer", (1, "x", 1), (2, "y", 2), (3, "z", None))
    shop.put("orders", *[(number, 1 + number % 3, "n") for number in range(20)])
    shop.run()
    chance, written, troubles = random.Random(seed), threading.Event(), []

    def write() -> None:
        program = opened(spark, tmp_path)
        for step in range(5):
            program.put("orders", (chance.randrange(25), chance.choice([1, 2, 3]), f"note {step}"))
            program.put("region", (chance.choice([1, 2]), f"title {step}", None))
            program.put("customer", (chance.choice([1, 2]), f"name {step}", chance.choice([1, 2, None])))
            program.drop("orders", chance.randrange(20))
        written.set()

    def again(do: Callable[[ViewWorld], object]) -> Callable[[], None]:
        def loop() -> None:
            program = opened(spark, tmp_path)
            while not written.is_set():
                do(program)

        return loop

    def guarded(work: Callable[[], None]) -> Callable[[], None]:
        def safe() -> None:
            try:
                work()
            except BaseException as error:
                troubles.append(error)
                written.set()

        return safe

    workers = [
        write,
        again(lambda program: program.run()),
        again(lambda program: program.run(dictionaries="now")),
        again(lambda program: program.store.view("v").scan(rate=1_000)),
    ]
    threads = [threading.Thread(target=guarded(work)) for work in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert troubles == []

    shop.run(dictionaries="now")
    shop.assert_equal()
    shop.assert_settled()
    found = shop.store.verify(replay=True)
    assert (found.ok, found.not_replayable) == (True, 0), found.findings
