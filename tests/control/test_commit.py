"""The one transaction: everything of a request becomes true, or nothing of it."""

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select, update

from seamark.control import Control, FailedKey, Lease, Position
from seamark.control.schema import lease as lease_table
from seamark.control.schema import metadata, seamark_schema, transform_input_offset
from seamark.errors import CommitConflict, LeaseHeld, LeaseLost, PositionConflict, StagedFilesGone


def everything(control):
    """All that the database holds, but leases."""
    skipped = {seamark_schema.name, lease_table.name}
    with control.database.read() as connection:
        return {
            name: sorted(map(repr, connection.execute(select(table)).all()))
            for name, table in metadata.tables.items()
            if name not in skipped
        }


@pytest.fixture
def unchanged(control):
    """Compares the database at the end of a block with that at its start."""

    class Unchanged:
        def __enter__(self):
            self.before = everything(control)

        def __exit__(self, *_):
            assert everything(control) == self.before

    return Unchanged()


def position(sequence, generation=0, step="feed", table="posts"):
    known = sequence is not None
    block_hash = f"{table}-{sequence}" if known else None
    return Position(step, table, float(sequence) if known else None, sequence, sequence, block_hash, generation)


# --- heads, index, run ------------------------------------------------------------------------------------------------


def test_a_commit_moves_head_index_and_run_together(control, commits):
    request = commits.request(commits.append("posts", blocks=3), run_id="the-run")

    control.commit(request)

    assert control.index.head("posts") == request.appends[0].new_head
    assert control.index.heads() == {"posts": request.appends[0].new_head}
    assert control.index.blocks("posts") == list(reversed(request.appends[0].blocks))
    assert control.index.runs() == [request.run]


def test_commits_follow_one_another(control, commits):
    first = commits.append("posts")
    second = commits.append("posts", after=first.new_head, blocks=2)
    control.commit(commits.request(first))
    control.commit(commits.request(second))
    assert control.index.head("posts") == second.new_head
    assert [entry.sequence for entry in control.index.blocks("posts")] == [2, 1, 0]
    assert len(control.index.runs()) == 2


@pytest.mark.scenario("L43")
@pytest.mark.scenario("T31")
def test_the_second_of_two_writers_meets_a_conflict_and_leaves_nothing(control, commits, unchanged):
    start = commits.append("posts")
    control.commit(commits.request(start))
    control.commit(commits.request(commits.append("posts", after=start.new_head, by="a")))
    control.staging.register("slow", ["posts/blocks/x"])
    slow = commits.request(
        commits.append("posts", after=start.new_head, by="b"),
        run_id="slow",
        staged=("posts/blocks/x",),
        positions=(position(7),),
        failed=(FailedKey("feed", "1", 1.0, "boom", 1),),
    )

    with unchanged, pytest.raises(CommitConflict) as conflict:
        control.commit(slow)

    assert (conflict.value.table, conflict.value.planned, conflict.value.found) == ("posts", "posts-0-a", "posts-1-a")
    assert "planned on head posts-0-a, found posts-1-a. Nothing of this change was written." in str(conflict.value)


@pytest.mark.scenario("L43")
def test_only_one_of_two_first_commits_gets_through(control, commits, unchanged):
    control.commit(commits.request(commits.append("posts", by="a")))
    with unchanged, pytest.raises(CommitConflict, match="planned on head none, found posts-0-a"):
        control.commit(commits.request(commits.append("posts", by="b")))


def test_a_commit_on_a_table_that_is_gone_is_a_conflict(control, commits, unchanged):
    with unchanged, pytest.raises(CommitConflict, match="planned on head posts-3-a, found none"):
        control.commit(commits.request(commits.append("posts", after=commits.head("posts", 3))))


@pytest.mark.parametrize("late", ["a_first", "z_last"])
def test_several_tables_move_together_or_not_at_all(control, commits, unchanged, late):
    control.commit(commits.request(commits.append("a_first"), commits.append("z_last")))
    control.commit(commits.request(commits.append(late, after=commits.head(late, 0))))
    both = [commits.append(name, after=commits.head(name, 0), by="b") for name in ("z_last", "a_first")]

    with unchanged, pytest.raises(CommitConflict) as conflict:
        control.commit(commits.request(*both))

    assert conflict.value.table == late


def test_a_run_may_commit_several_times_and_has_one_row(control, commits):
    first = commits.append("posts")
    control.commit(commits.request(first, run_id="batches"))
    later = commits.request(commits.append("posts", after=first.new_head), run_id="batches")
    control.commit(replace(later, run=replace(later.run, rows_out=2)))
    assert [(run.run_id, run.rows_out) for run in control.index.runs()] == [("batches", 2)]


def test_a_run_that_committed_nothing_can_be_recorded(control, commits):
    failed = replace(commits.request().run, outcome="failed", error="boom")
    control.record_run(failed)
    assert control.index.runs("posts") == [failed]
    assert control.index.runs("another") == []


# --- leases -----------------------------------------------------------------------------------------------------------


def expire(control, name):
    """Turn the lease's end into the past: its time is the database's, which no test can turn."""
    with control.database.write() as connection:
        now = control.database.now(connection)
        connection.execute(update(lease_table).where(lease_table.c.name == name).values(expires_at=now - 1))


def test_a_held_lease_lets_the_commit_through(control, commits):
    lease = control.leases.acquire("step:feed")
    control.commit(commits.request(commits.append("posts"), leases=(lease,)))
    assert control.index.head("posts") is not None


def test_a_lease_that_ran_out_fences_the_commit(control, commits, unchanged):
    lease = control.leases.acquire("step:feed")
    expire(control, "step:feed")
    with unchanged, pytest.raises(LeaseLost, match=r"'step:feed' \(epoch 1\) is no longer ours: nobody holds it now"):
        control.commit(commits.request(commits.append("posts"), leases=(lease,)))


def test_a_lease_that_another_took_over_fences_the_commit(control, commits, unchanged):
    lease = control.leases.acquire("step:feed")
    expire(control, "step:feed")
    assert control.leases.acquire("step:feed", holder="the other").epoch == 2
    with unchanged, pytest.raises(LeaseLost, match="the other holds it now"):
        control.commit(commits.request(commits.append("posts"), leases=(lease,)))


def test_a_released_lease_fences_the_commit(control, commits, unchanged):
    lease = control.leases.acquire("step:feed")
    control.leases.release(lease)
    with unchanged, pytest.raises(LeaseLost):
        control.commit(commits.request(commits.append("posts"), leases=(lease,)))


def test_a_lease_that_never_was_fences_the_commit(control, commits, unchanged):
    with unchanged, pytest.raises(LeaseLost):
        control.commit(commits.request(commits.append("posts"), leases=(Lease("step:feed", "me", 1),)))


@pytest.mark.parametrize("lost", ["step:feed", "step:other", "write:posts"])
def test_one_lost_lease_among_several_refuses_all(control, commits, unchanged, lost):
    leases = tuple(control.leases.acquire(name) for name in ("write:posts", "step:other", "step:feed"))
    posts = commits.append("posts")
    control.commit(commits.request(posts, leases=leases))
    expire(control, lost)
    late = commits.request(
        commits.append("posts", after=posts.new_head),
        commits.append("comments"),
        leases=leases,
        positions=(position(7),),
    )
    with unchanged, pytest.raises(LeaseLost, match=f"the lease '{lost}'") as refused:
        control.commit(late)
    assert refused.value.lease == lost


@pytest.mark.scenario("T51")
def test_a_table_that_another_reserved_takes_no_commit(control, commits, unchanged):
    control.leases.acquire("write:posts", holder="the slow one")
    with unchanged, pytest.raises(LeaseHeld, match="table 'posts' is reserved by the slow one"):
        control.commit(commits.request(commits.append("comments"), commits.append("posts")))


def test_ones_own_reservation_lets_the_commit_through(control, commits):
    ours = control.leases.acquire("write:posts")
    control.commit(commits.request(commits.append("posts"), leases=(ours,)))
    assert control.index.head("posts") is not None


def test_a_former_reservation_is_no_reservation(control, commits, unchanged):
    former = control.leases.acquire("write:posts")
    expire(control, "write:posts")
    control.leases.acquire("write:posts", holder="the other")
    with unchanged, pytest.raises(LeaseLost, match=r"'write:posts'.* the other holds it now"):
        control.commit(commits.request(commits.append("posts"), leases=(former,)))


def test_a_reservation_that_ran_out_is_in_nobodys_way(control, commits):
    control.leases.acquire("write:posts", holder="a dead one")
    expire(control, "write:posts")
    control.commit(commits.request(commits.append("posts")))
    assert control.index.head("posts") is not None


# --- staged files -----------------------------------------------------------------------------------------------------


def test_files_that_are_no_longer_registered_are_not_committed(control, commits, unchanged):
    control.staging.register("run", ["posts/data/1"])
    request = commits.request(commits.append("posts"), run_id="run", staged=("posts/data/1", "posts/data/2"))
    with unchanged, pytest.raises(StagedFilesGone, match="staged 2 files, of which 1 are still registered"):
        control.commit(request)


def test_a_registration_of_another_run_does_not_count(control, commits, unchanged):
    control.staging.register("another", ["posts/data/1"])
    with unchanged, pytest.raises(StagedFilesGone):
        control.commit(commits.request(commits.append("posts"), run_id="run", staged=("posts/data/1",)))


def test_committed_files_are_no_longer_staged(control, commits):
    control.staging.register("run", ["posts/data/1", "posts/data/2"])
    control.commit(commits.request(commits.append("posts"), run_id="run", staged=("posts/data/1",)))
    found = []
    control.staging.collect(lambda runs, objects: found.append((runs, objects)))
    assert found == [({"run"}, {"posts/data/2"})]


def test_a_commit_may_have_more_files_than_a_statement_has_parameters(control, commits):
    files = tuple(f"posts/data/{number}" for number in range(70_000))
    control.staging.register("run", files)
    control.commit(commits.request(commits.append("posts"), run_id="run", staged=files))
    assert control.index.head("posts") is not None


# --- positions --------------------------------------------------------------------------------------------------------


def test_a_position_goes_forward_and_never_back(control, commits):
    for sequence in (3, 5, 4, 5):
        control.commit(commits.request(positions=(position(sequence),)))
    assert control.index.positions("feed") == [position(5)]


def test_a_position_is_replaced_as_a_whole(control, commits):
    control.commit(commits.request(positions=(Position("feed", "posts", 9.0, 99, 1, "one"),)))
    control.commit(commits.request(positions=(Position("feed", "posts", 2.0, None, 2, "two"),)))
    assert control.index.positions("feed") == [Position("feed", "posts", 2.0, None, 2, "two")]


def test_a_tie_keeps_what_stands(control, commits):
    control.commit(commits.request(positions=(Position("feed", "posts", 1.0, 1, 5, "first"),)))
    control.commit(commits.request(positions=(Position("feed", "posts", 2.0, 2, 5, "second"),)))
    assert [found.block_hash for found in control.index.positions()] == ["first"]


def test_a_position_without_a_block_gives_way_to_any(control, commits):
    for sequence, standing in ((None, None), (None, None), (0, 0), (None, 0)):
        control.commit(commits.request(positions=(position(sequence),)))
        assert control.index.positions("feed") == [position(standing)]


def test_steps_and_inputs_have_positions_of_their_own(control, commits):
    three = (position(1), position(2, table="profiles"), position(3, step="other"))
    control.commit(commits.request(positions=three))
    assert sorted(control.index.positions(), key=lambda p: p.block_sequence) == list(three)
    assert control.index.positions("other") == [position(3, step="other")]


def reset_position(control):
    with control.database.write() as connection:
        changed = {"generation": 1, "block_sequence": None, "block_hash": None}
        connection.execute(update(transform_input_offset).values(**changed))


def test_a_position_that_was_reset_refuses_the_batch_in_flight(control, commits, unchanged):
    control.commit(commits.request(positions=(position(3),)))
    reset_position(control)
    late = commits.request(commits.append("posts"), positions=(position(4, generation=0),))
    with (
        unchanged,
        pytest.raises(PositionConflict, match="step 'feed' on 'posts' was reset while a batch"),
    ):
        control.commit(late)

    control.commit(commits.request(positions=(position(1, generation=1),)))
    assert control.index.positions("feed") == [position(1, generation=1)]


def test_a_position_planned_on_a_reset_that_is_gone_is_refused(control, commits, unchanged):
    with unchanged, pytest.raises(PositionConflict):
        control.commit(commits.request(commits.append("posts"), positions=(position(1, generation=2),)))


def furthest(standing, new):
    """The rule of the documents, as a model: GREATEST by block, where NULL is less than anything."""
    if standing is None or standing.block_sequence is None:
        return new
    return new if (new.block_sequence or 0) > standing.block_sequence else standing


sequences = st.none() | st.integers(0, 6)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(sequences, st.integers(0, 9)), min_size=1, max_size=8))
def test_whatever_order_positions_come_in_the_furthest_stands(commits, told):
    control = Control("sqlite:///:memory:")
    model = None
    for sequence, offset in told:
        new = Position("feed", "posts", float(offset), offset, sequence, f"block {sequence}")
        control.commit(commits.request(positions=(new,)))
        model = furthest(model, new)
        assert control.index.positions("feed") == [model]
    control.close()


# --- failed keys ------------------------------------------------------------------------------------------------------


def test_failed_keys_come_in_and_recovered_ones_go(control, commits):
    one, two = json.dumps({"id": 1}), json.dumps({"id": 2})
    boom = FailedKey("feed", one, 1.0, "boom", attempts=1, retry_after=9.0, read_at='{"posts": 3}')
    bang = FailedKey("feed", two, 1.0, "bang", attempts=1)
    control.commit(commits.request(failed=(boom, bang)))
    assert sorted(control.index.failed_keys("feed"), key=lambda k: k.key) == [boom, bang]

    again = replace(boom, attempts=2, error="boom again", retry_after=None)
    control.commit(commits.request(failed=(again,), recovered=(("feed", two), ("other", one))))
    assert control.index.failed_keys() == [again]


def test_a_key_that_recovered_and_failed_again_in_one_commit_has_failed(control, commits):
    boom = FailedKey("feed", "1", 1.0, "boom", attempts=1)
    control.commit(commits.request(failed=(boom,)))
    control.commit(commits.request(failed=(replace(boom, attempts=2),), recovered=(("feed", "1"),)))
    assert control.index.failed_keys() == [replace(boom, attempts=2)]
