"""The search for failing keys, with a function that only counts: no Spark, and the numbers of calls are exact."""

from __future__ import annotations

from contextlib import ExitStack

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from seamark.errors import FunctionFailed
from seamark.steps.rows.scope import KeyValues
from seamark.steps.running.blame import KeyTrouble
from seamark.tables.frame import LocalFrame
from seamark.tables.read.source import TableSource
from seamark.tables.schema.table_schema import declare
from seamark.transforms.compute.gather import Gathered
from seamark.transforms.compute.isolate import MOST_CALLS, compute_isolating
from seamark.transforms.declare.shape import Input, make_shape
from seamark.transforms.function_keying import FunctionKeying


class Search:
    """A search among the keys 0, 1, … of which some are bad."""

    def __init__(self, count: int, bad: set[int]) -> None:
        self.bad = pa.array(sorted(bad), pa.int64())
        self.calls: list[int] = []  # how many keys each call was given
        numbers = TableSource(None, "numbers", declare("numbers", "id long", "id", None))
        results = TableSource(None, "results", declare("results", "id long", "id", None))
        shape = make_shape("count", [Input(numbers)], [results], None)
        keys = pa.table({"id": pa.array(range(count), pa.int64())})
        offsets = pa.table({"_offset": pa.array(range(count), pa.int64()), "id": keys.column("id")})
        self.keying = FunctionKeying(shape, self.function)
        self.gathered = Gathered(shape, KeyValues(keys), (LocalFrame(offsets),), {})

    def function(self, part: Gathered) -> list[LocalFrame]:
        keys = part.frames[0].rows.select(["id"])
        self.calls.append(keys.num_rows)
        found = pc.filter(keys.column("id"), pc.is_in(keys.column("id"), self.bad))
        if len(found):
            raise KeyTrouble(ValueError(f"{found[0]} is bad"))
        return [LocalFrame(keys)]

    def run(self, *, fail_fast: bool = False) -> tuple[list[int], dict[int, str]]:
        """The keys that were computed, and the failed ones with their errors."""
        with ExitStack() as stack:
            results = compute_isolating(self.keying, self.gathered, self.function, stack, fail_fast=fail_fast)
        computed = [key for piece in results.outputs[0] for key in piece.rows.column("id").to_pylist()]
        failed = {key: text for keys, text in results.failed for key in keys.column("id").to_pylist()}
        return computed, failed


@pytest.mark.scenario("X47")
def test_without_a_failure_one_call_does_all():
    search = Search(1000, set())
    assert search.run() == (list(range(1000)), {})
    assert search.calls == [1000]


@pytest.mark.scenario("X47")
def test_one_bad_key_of_a_thousand_costs_few_calls():
    search = Search(1000, {13})
    computed, failed = search.run()
    assert failed == {13: "ValueError: 13 is bad"}
    assert sorted(computed) == [key for key in range(1000) if key != 13]
    assert len(search.calls) <= 20


@pytest.mark.scenario("X47")
def test_three_bad_keys_of_a_hundred_thousand_cost_at_most_a_hundred_calls():
    search = Search(100_000, {7, 50_123, 99_999})
    computed, failed = search.run()
    assert failed == {key: f"ValueError: {key} is bad" for key in (7, 50_123, 99_999)}
    assert sorted(computed) == [key for key in range(100_000) if key not in failed]
    assert len(search.calls) <= 100


@pytest.mark.scenario("X47")
@pytest.mark.parametrize("bad", [set(range(0, 4096, 3)), set(range(4096)), set(range(2000, 4096)), set(range(2000))])
def test_many_bad_keys_cost_two_hundred_calls_and_those_not_apart_share_an_error(bad):
    search = Search(4096, bad)
    computed, failed = search.run()
    assert len(search.calls) <= MOST_CALLS == 200
    assert bad <= failed.keys()
    assert sorted([*computed, *failed]) == list(range(4096))  # each key once: computed or failed
    shared = [key for key, text in failed.items() if text != f"ValueError: {key} is bad"]
    assert shared
    assert all(failed[key].endswith("is bad") for key in shared)
    if bad == set(range(2000)):
        assert set(range(2048, 4096)) <= set(computed)  # the second half was looked at, though the calls ran out


@pytest.mark.scenario("X47")
def test_keys_that_fail_only_together_all_succeed_alone():
    search = Search(8, set())
    innocent = search.function

    def fails_on_more_than_two(part):
        if part.frames[0].rows.num_rows > 2:
            raise KeyTrouble(MemoryError("too many"))
        return innocent(part)

    search.function = fails_on_more_than_two
    computed, failed = search.run()
    assert (sorted(computed), failed) == (list(range(8)), {})


@pytest.mark.scenario("X50")
def test_fail_fast_names_the_first_bad_key():
    search = Search(100, {40, 60})
    with pytest.raises(FunctionFailed, match=r'step \'count\' failed on key {"id":40}: ValueError: 40 is bad'):
        search.run(fail_fast=True)
