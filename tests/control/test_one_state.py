"""Answers that take several questions to the database are true of one moment."""

from sqlalchemy import event

from seamark.control import Control, RunRecord


def test_a_run_that_ends_while_totals_are_read_is_in_all_of_them_or_in_none(control_url):
    looks, writes = Control(control_url), Control(control_url)
    writes.record_run(RunRecord("r-1", "feed", "changes", started=1.0, outcome="done"))
    later = iter([RunRecord("r-2", "feed", "changes", started=2.0, outcome="failed")])
    looks.leases.live()

    @event.listens_for(looks.database._engine, "after_cursor_execute")
    def _end_a_run(_connection, _cursor, statement, *_):
        if "count(*)" in statement:
            for record in later:
                writes.record_run(record)

    (totals,) = looks.index.run_totals(["feed"])
    assert (totals.runs, totals.newest.run_id) == ({"done": 1}, "r-1")
    (totals,) = looks.index.run_totals(["feed"])
    assert (totals.runs, totals.newest.run_id) == ({"done": 1, "failed": 1}, "r-2")
    looks.close()
    writes.close()
