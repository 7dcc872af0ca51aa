"""Positions of sinks: forward only, and only while the sink is ours to run."""

import pytest
from sqlalchemy import update

from seamark.control import SinkPosition
from seamark.control.schema import lease as lease_table
from seamark.errors import LeaseLost


def end(control, name):
    with control.database.write() as connection:
        connection.execute(update(lease_table).where(lease_table.c.name == name).values(expires_at=0.0))


def test_a_position_moves_forward_and_never_back(control):
    lease = control.leases.acquire("sink:out")
    assert control.sinks.position("out", "posts") is None
    for sequence, standing in ((3, 3), (5, 5), (4, 5), (5, 5)):
        control.sinks.keep(lease, "out", "posts", sequence)
        assert control.sinks.position("out", "posts") == standing
    control.sinks.keep(lease, "out", "users", 1)
    assert control.sinks.all() == [SinkPosition("out", "posts", 5), SinkPosition("out", "users", 1)]


def test_a_position_is_one_in_a_target(control):
    lease = control.leases.acquire("sink:out")
    control.sinks.keep(lease, "out", "posts", 5)  # as versions did that did not write the target down
    assert control.sinks.position("out", "posts", "here") == 5
    control.sinks.keep(lease, "out", "posts", 5, "here")
    assert control.sinks.position("out", "posts", "there") is None
    assert control.sinks.backlog("out", "posts", "there").position is None
    control.sinks.keep(lease, "out", "posts", 2, "there")
    assert control.sinks.all() == [SinkPosition("out", "posts", 2, "there")]
    control.sinks.keep(lease, "out", "posts", 1, "there")
    assert control.sinks.position("out", "posts", "there") == 2


def test_a_position_can_be_forgotten(control):
    lease = control.leases.acquire("sink:out")
    control.sinks.keep(lease, "out", "posts", 3)
    control.sinks.keep(lease, "out", "users", 1)
    control.sinks.forget(lease, "out", "posts")
    assert control.sinks.all() == [SinkPosition("out", "users", 1)]


@pytest.mark.parametrize("taken_over", [False, True])
def test_without_the_lease_nothing_moves(control, taken_over):
    lease = control.leases.acquire("sink:out")
    control.sinks.keep(lease, "out", "posts", 3)
    end(control, "sink:out")
    if taken_over:
        control.leases.acquire("sink:out", holder="you")
    with pytest.raises(LeaseLost, match="'sink:out'"):
        control.sinks.keep(lease, "out", "posts", 4)
    with pytest.raises(LeaseLost, match="'sink:out'"):
        control.sinks.forget(lease, "out", "posts")
    assert control.sinks.position("out", "posts") == 3
