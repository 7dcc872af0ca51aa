"""What a keying settles before a commit: keys that fail beside others, and keys that must be computed with them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import seamark as sm
from seamark.errors import FunctionFailed
from seamark.steps.rows.scope import KeyValues
from seamark.tables.frame import LocalFrame
from seamark.transforms.function_keying import FunctionKeying


def ids(*values: int) -> pa.Table:
    return pa.table({"post_id": pa.array(values, pa.int64())})


@pytest.fixture
def posted(blog):
    """A blog of three posts, of which the last two are to be computed again."""
    blog.write_profiles((100, "Alice"))
    blog.write_posts((1, 100, "one"), (2, 100, "two"), (3, 100, "three"))
    blog.run()
    blog.write_posts((1, 100, "one again"), (2, 100, "two again"))
    return blog


def test_a_key_may_fail_when_it_is_settled_and_keeps_its_row(posted, monkeypatch):
    def settle(keying, gathered, results, read, stack):
        if isinstance(gathered.scope, KeyValues) and 2 in gathered.scope.values.column("post_id").to_pylist():
            results.failed.append((ids(2), "another key has its place"))
            results.causes.append(ValueError("another key has its place"))
            local = results.outputs[0][0].to_arrow()
            results.outputs[0][:] = [LocalFrame(local.filter(pc.not_equal(local.column("post_id"), 2)))]
        return gathered.scope, results

    with monkeypatch.context() as patched:
        patched.setattr(FunctionKeying, "settle", settle)
        with pytest.raises(FunctionFailed, match=r"failed on key {\"post_id\":2}: ValueError: another key has its pl"):
            posted.step.run_full(sm.RunConfig(fail_fast=True))
        report = posted.run()
        assert report.failures == (('{"post_id":2}', "another key has its place"),)
        assert posted.lines() == [(1, "Alice: one again"), (2, "Alice: two"), (3, "Alice: three")]
        assert posted.store.verify(replay=True).ok
    assert posted.run().keys == 1  # it is tried again at once
    assert posted.lines() == posted.oracle()


def test_a_key_that_is_computed_with_others_is_committed_with_them(posted, monkeypatch):
    def settle(keying, gathered, results, read, stack):
        results.add([LocalFrame(pa.table({"post_id": [3], "line": ["computed too"]}))])
        return KeyValues(pa.concat_tables([gathered.scope.values, ids(3)])), results

    monkeypatch.setattr(FunctionKeying, "settle", settle)
    report = posted.run()
    assert (report.corrected, report.appended) == (3, 0)
    assert posted.lines() == [(1, "Alice: one again"), (2, "Alice: two again"), (3, "computed too")]


def test_a_key_that_was_computed_with_others_has_failed_no_longer(posted, monkeypatch):
    """And it is not tried again."""

    def broken(keying, gathered, results, read, stack):
        results.failed.append((ids(1), "not yet"))
        results.causes.append(ValueError("not yet"))
        return gathered.scope, results

    def with_the_first(keying, gathered, results, read, stack):
        results.add([LocalFrame(pa.table({"post_id": [1], "line": ["computed too"]}))])
        return KeyValues(pa.concat_tables([gathered.scope.values, ids(1)])), results

    with monkeypatch.context() as patched:
        patched.setattr(FunctionKeying, "settle", broken)
        posted.step.run_full(sm.RunConfig(filters={"post_id": 1}))
    assert [entry.key for entry in posted.step.failed_keys()] == ['{"post_id":1}']
    monkeypatch.setattr(FunctionKeying, "settle", with_the_first)
    posted.step.run_full(sm.RunConfig(filters={"post_id": 2}))
    assert posted.step.failed_keys() == ()
    assert posted.lines()[0] == (1, "computed too")
