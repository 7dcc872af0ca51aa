"""What goes wrong after a commit does not make the commit look as if it had failed."""

import pyarrow as pa
import pytest

from seamark.errors import ControlUnavailable
from seamark.ledger.objects import ChainFiles


def row(number):
    return pa.table({"number": [number]})


def gone(*_):
    raise ControlUnavailable("the control database is gone. Nothing was changed.")


@pytest.mark.scenario("L42")
def test_a_head_that_cannot_be_mirrored_is_mirrored_by_the_next_open(open_store, warehouse, monkeypatch, caplog):
    clicks = open_store().table("clicks", "number long")
    clicks.append(row(1))
    with monkeypatch.context() as patched:
        patched.setattr(ChainFiles, "set_head", gone)
        commit = clicks.append(row(2))

    assert commit.last_offset == 1
    assert "could not be mirrored" in caplog.text
    assert ChainFiles(warehouse / "clicks").head() != clicks.head.block_hash
    assert [healed.table for healed in open_store().healed] == ["clicks"]
    assert ChainFiles(warehouse / "clicks").head() == clicks.head.block_hash


def test_a_lease_that_cannot_be_given_back_does_not_undo_what_was_done(control, monkeypatch, caplog):
    with control.leases.held("step:x"):
        monkeypatch.setattr(control.leases, "release", gone)

    assert "could not be given back" in caplog.text
    assert control.leases.holder("step:x") is not None
