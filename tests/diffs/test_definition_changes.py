"""A diff is a fold: what another definition would have made of it cannot be known, so it asks, or is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import seamark as sm
from seamark.errors import DefinitionChanged, FrameMismatch, InvalidStep, SchemaChangeRefused


def test_a_changed_merge_rule_asks_and_goes_on_from_the_state_that_stands(make_visits):
    visits = make_visits(merge={"revenue": "sum"})
    visits.visits((1, 2, "X"))
    visits.conversions((1, 2, 10))
    visits.run()

    visits = make_visits(merge={"revenue": "max"})
    visits.conversions((1, 2, 7))
    visits.told()
    heads = visits.store.heads()
    plan = visits.store.plan()["visits"]
    assert (plan.mode, plan.batches, plan.keys) == ("refused", 0, 0)
    with pytest.raises(DefinitionChanged, match=r'(?s)definition of diff .visits..*"revenue": "max".*on_change="keep"'):
        visits.run()
    assert visits.store.heads() == heads

    visits.run(on_change="keep")
    assert visits.told() == {}  # 7 is not more than 10
    assert visits.state() == {1: (2, 2, "X", 10)}
    visits.conversions((1, 2, 12))
    visits.run()  # asked once
    assert visits.state() == {1: (2, 3, "X", 12)}
    report = visits.store.verify(replay=True)
    assert report.ok, report.findings
    assert report.not_replayable > 0  # what the older definition wrote cannot be made again


def test_without_new_records_keeping_is_a_run_of_its_own(make_visits):
    make_visits(merge={"title": "keep"}).visits((1, 2, "X"))
    make_visits(merge={"title": "keep"}).run()
    visits = make_visits(merge={"title": "overwrite"}, on_change="keep")
    assert visits.store.plan()["visits"].mode == "definition"
    assert visits.run().mode == "definition"
    assert visits.told() == {1: "-2 +1002"}
    assert not visits.run().did_something


def test_a_rule_without_source_of_its_own_is_known_again_in_another_process(make_visits):
    rules = {}
    for place in ("here", "there"):  # each time another function object, as in another process
        exec(  # a function that has no source, with one inside it and a helper that it closes over
            "def make(add, helper):\n"
            "    return lambda older, newer: helper(F.concat(older, F.lit(add)), (lambda c: F.upper(c))(newer))",
            scope := {"F": F},
        )
        rules[place] = scope["make"]
    helpers = [lambda one, other: F.concat(one, other) for _ in range(2)]

    def digest(rule):
        return make_visits(merge={"title": rule}).diff.spec.definition.digest

    here, there = rules["here"]("+", helpers[0]), rules["there"]("+", helpers[1])
    assert digest(here) == digest(there)
    assert digest(here) != digest(rules["there"]("-", helpers[1]))


def test_a_changed_function_is_another_definition(make_visits):
    def longer(older, newer):
        return F.when(F.length(newer) > F.length(older), newer).otherwise(older)

    def shorter(older, newer):
        return F.when(F.length(newer) < F.length(older), newer).otherwise(older)

    definitions = [make_visits(merge={"title": rule}).diff.spec.definition.digest for rule in (longer, shorter, longer)]
    assert definitions[0] == definitions[2] != definitions[1]


@pytest.mark.parametrize("policy", ["ask", "keep"])
def test_another_multiplier_is_refused(make_visits, policy):
    visits = make_visits()
    visits.visits((1, 2, "X"))
    visits.run()

    other = make_visits(multiplier=100)
    with pytest.raises(InvalidStep, match=r"(?s)multiplier was 1000 and is 100 now.*Nothing was run.*back to 1000"):
        other.run(on_change=policy)
    assert other.store.plan()["visits"].mode == "refused"
    assert not make_visits().run().did_something


def test_its_offsets_cannot_be_moved_by_hand(diffed):
    diffed.visits((1, 2, "X"))
    diffed.run()
    offsets = diffed.store.offset_table
    before = offsets.get_record_offsets("visits")
    for move in (
        lambda: offsets.reset_offset("visits"),
        lambda: offsets.reset_offset("visits", "joined_visits"),
        lambda: offsets.initialize_offsets_from_transform_meta("visits", ["joined_visits"]),
    ):
        with pytest.raises(InvalidStep, match=r"(?s)offsets of diff 'visits' cannot be .*Nothing was changed"):
            move()
    assert offsets.get_record_offsets("visits") == before


def test_it_is_never_run_in_part(diffed):
    diffed.visits((1, 2, "X"), (2, 2, "X"))
    for part in (
        lambda: diffed.run(limit=1),
        lambda: diffed.run(filters={"VisitID": 1}),
        lambda: diffed.diff.run_full(sm.RunConfig(limit=1)),
        lambda: diffed.diff.run_changelist(sm.ChangeList({"joined_visits": pa.table({"VisitID": [1]})})),
    ):
        with pytest.raises(InvalidStep, match=r"(?s)diff 'visits' cannot be run with .*Nothing was run"):
            part()
    assert diffed.told() == {}


def test_the_plan_says_what_a_run_would_do(diffed, clock):
    assert diffed.store.plan()["visits"].mode == "settled"
    diffed.visits((1, 2, "X"), (2, 1000, "X"))
    diffed.conversions((1, 2, 10))
    plan = diffed.store.plan()["visits"]
    assert (plan.mode, plan.keys, plan.keys_are_exact, plan.batches) == ("changes", 3, False, 1)
    assert plan.reason == "records wait: 2 in 'joined_visits', 1 in 'joined_conversions'"
    assert [(entry.table, entry.pending_records) for entry in plan.inputs] == [
        ("joined_visits", 2),
        ("joined_conversions", 1),
    ]

    diffed.run()
    plan = diffed.store.plan()["visits"]
    assert (plan.mode, plan.failed_due, plan.keys) == ("retry", 1, 1)  # the next run tries again at once
    assert diffed.run().mode == "retry"
    plan = diffed.store.plan()["visits"]
    assert (plan.mode, plan.failed_due, plan.failed_waiting) == ("settled", 0, 1)
    assert not diffed.run().did_something
    clock.advance(minutes=2)
    assert diffed.store.plan()["visits"].mode == "retry"
    assert diffed.diff.retry().failed == 1
    assert diffed.told() == {1: "-2 +1002 -1002 +2002"}


def test_a_history_is_asked_for_by_the_whole_key(diffed):
    with pytest.raises(FrameMismatch, match=r"key of diff 'visits' is \(VisitID\), not \(Visit\)"):
        diffed.diff.history({"Visit": 1})
    assert diffed.diff.history({"VisitID": 1}) == []


def test_the_watermark_follows_the_least_of_the_logs(make_visits, clock):
    visits = make_visits()
    visits.visits((1, 2, "X"))
    visits.conversions((1, 2, 10))
    visits.run()
    for log in visits.logs.values():
        log.set_watermark(clock.now())
    assert visits.store.plan()["visits"].mode == "watermark"
    report = visits.run()
    assert (report.mode, report.appended, report.corrected) == ("watermark", 0, 0)
    assert not visits.run().did_something


def test_intermediate_tables_of_an_older_definition_ask_nobody(make_visits):
    """They only tell of the last run: the state was taken over when the definition changed."""
    logs = {"joined_visits": "VisitID long, y_VisitVersion int, t string, n long"}
    visits = make_visits(logs=logs, keep_intermediate=True)
    visits.visits((1, 1, "a", 1))
    visits.run()
    visits = make_visits(logs=logs, merge={"n": "sum"}, on_change="keep").following(visits)
    visits.visits((1, 1, "b", 1))
    visits.run()

    visits = make_visits(logs=logs, merge={"n": "sum"}, keep_intermediate=True).following(visits)
    visits.visits((2, 1, "b", 1))
    visits.run()
    assert visits.state() == {1: (1, 2, "b", 2), 2: (1, 1, "b", 1)}
    assert [row["VisitID"] for row in visits.rows("visits_joined_visits_visits_patched_new_only")] == [2]
    assert visits.store.verify(replay=True).ok


@pytest.mark.scenario("X93")
def test_a_program_from_before_the_state_grew_is_refused_by_plan_and_run_alike(make_visits):
    old = make_visits(on_change="keep")
    old.visits((1, 2, "X"))
    old.run()
    wider = make_visits(wide="VisitID long, y_VisitVersion int, age int", on_change="keep")
    wider.widen((2, 2, 30))
    wider.visits((2, 2, "Y"))
    wider.run()
    heads = wider.store.heads()
    wider.visits((3, 2, "Z"))

    plan = old.store.plan()["visits"]
    assert (plan.mode, plan.batches) == ("refused", 0)
    assert "was declared before a table of it grew" in plan.reason
    with pytest.raises(SchemaChangeRefused, match=r"column '(_wide_)?age'"):
        old.run()
    assert {name: head for name, head in old.store.heads().items() if name.startswith("visits_")} == {
        name: head for name, head in heads.items() if name.startswith("visits_")
    }
    assert wider.run().keys == 1
