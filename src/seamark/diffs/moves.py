"""What a diff does next, decided from its backlog alone: no Spark, no database, no clock."""

from __future__ import annotations

import json

from seamark.control import Mode
from seamark.diffs.backlog import DiffBacklog
from seamark.errors import DefinitionChanged, InvalidStep, SeamarkError
from seamark.steps.definition.definition import Definition, difference
from seamark.steps.running.run_config import OnChange
from seamark.steps.standing.moves import NOTHING_NEW, Move, changes_move, retry_move
from seamark.tables.kinds import DIFF


def next_move(backlog: DiffBacklog, policy: OnChange) -> Move:
    """What a run does: all of it in one commit. Planning and running both ask here."""
    if (refusal := refusal_of(backlog, policy)) is not None:
        return Move.refused(refusal)
    if backlog.has_records:
        return changes_move(backlog.pending)
    if backlog.due:
        return retry_move(len(backlog.due), "visit")
    if backlog.expires:
        return Move(Mode.EXPIRE, "visits are too old for the state")
    if backlog.older is not None:
        return Move(Mode.DEFINITION, "its definition changed; the current state is kept")
    if backlog.watermark_waits:
        return Move(Mode.WATERMARK, "the logs' watermarks moved")
    return NOTHING_NEW


def refusal_of(backlog: DiffBacklog, policy: OnChange) -> SeamarkError | None:
    """Why the diff cannot be run as it is declared, or None.

    It adds each record of its logs once and cannot be computed again, so where the definition is not the one that the
    state was made by, the current rows are kept, if that was allowed, or nothing is done.
    """
    if backlog.outgrown is not None:
        return backlog.outgrown
    return _changed_definition(backlog, policy) or _moved_position(backlog)


def _changed_definition(backlog: DiffBacklog, policy: OnChange) -> SeamarkError | None:
    older, spec = backlog.older, backlog.spec
    if older is None:
        return None
    if spec.definition.agrees_with(older):
        return InvalidStep(
            f"diff '{spec.name}': the chain of one of its logs is not the one that its state was made from. "
            "Nothing was run.",
            hint="a diff adds each record of its logs once: declare it under another name to start over.",
        )
    if all(entry.after is None for entry in backlog.pending):
        return None  # nothing was read by the older one
    multiplier = _multiplier(older)
    if multiplier is not None and multiplier != spec.multiplier:
        return InvalidStep(
            f"diff '{spec.name}': its multiplier was {multiplier} and is {spec.multiplier} now, so that it could not "
            "take back the versions that it has written. Nothing was run.",
            hint=f"set it back to {multiplier}, or declare the diff under another name.",
        )
    if policy == "keep":
        return None
    return DefinitionChanged(
        f"the definition of diff '{spec.name}' is not the one that its state was made by. Nothing was run.\n"
        f"{difference(older, spec.definition)}\n",
        hint='on_change="keep" continues from the current state '
        f"(`seamark run {spec.name} --on-change keep`); under another name the diff starts over.",
    )


def _moved_position(backlog: DiffBacklog) -> InvalidStep | None:
    """The refusal to add records to the state once more, or to pass over some: somebody has moved a position."""
    for entry, upto in backlog.moved:
        return InvalidStep(
            f"diff '{backlog.spec.name}': its state has the records of log '{entry.table}' up to {_record(upto)}, and "
            f"the control database says up to {_record(entry.after)}: the position was changed there. Nothing was run.",
            hint="a diff adds each record once, so its offsets cannot be reset. `seamark verify` shows what else was "
            "changed, and `seamark doctor --rebuild` makes the control database again from the chains.",
        )
    return None


def _record(offset: int | None) -> str:
    return "none" if offset is None else f"record {offset}"


def _multiplier(definition: Definition) -> int | None:
    if definition.kind != DIFF:
        return None
    facts, _ = json.JSONDecoder().raw_decode(definition.source)
    return int(facts["multiplier"])
