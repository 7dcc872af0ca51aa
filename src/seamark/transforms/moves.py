"""What a step does next, decided from its backlog alone: no Spark, no database, no clock."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from seamark.control import Mode
from seamark.errors import DefinitionChanged
from seamark.steps.running.run_config import OnChange, RunConfig
from seamark.steps.standing.known import definition_changed
from seamark.steps.standing.moves import NOTHING_NEW, Move, changes_move, retry_move
from seamark.transforms.backlog import Backlog

EVERYTHING = RunConfig()


def next_move(
    backlog: Backlog, policy: OnChange, tried: Set[str] = frozenset(), config: RunConfig = EVERYTHING
) -> Move:
    """What a run does next; `tried` are the failed keys that it has tried already.

    Planning and running both call this, so that they cannot disagree. A run makes one move after another until it is
    settled, each decided from the backlog that the previous one left. One that takes only a part makes a single move.
    """
    if backlog.outgrown is not None and not backlog.is_settled:
        return Move.refused(backlog.outgrown)
    if (refusal := _unanswered_change(backlog, policy)) is not None:
        return Move.refused(refusal)
    if config.is_partial:
        return Move(Mode.FILTER if config.limit is None else Mode.LIMIT, "only some of the keys that wait are taken")
    if _starts_over(backlog, policy):
        return Move(Mode.RECOMPUTE, _why_start_over(backlog))
    if backlog.unfinished is not None:
        return Move(backlog.unfinished.mode, "a pass over all keys continues where it was cut off")
    if backlog.has_records:
        because = backlog.all_keys_because()
        if because is not None:
            return Move(Mode.ALL_KEYS, because)
        move = changes_move(backlog.waiting)
        return replace(move, mode=Mode.V1) if backlog.spec.options.algorithm == "v1" else move
    if due := backlog.due_except(tried):
        return retry_move(len(due), "key")
    if backlog.older is not None:
        return Move(Mode.DEFINITION, "its definition changed; the current rows are kept")
    if backlog.watermark_waits:
        return Move(Mode.WATERMARK, "the inputs' watermarks moved")
    if all(offset is None for offset in backlog.read.values()):
        return Move(Mode.SETTLED, f"no records yet in {', '.join(backlog.read)}")
    return NOTHING_NEW


def decided(backlog: Backlog, policy: OnChange) -> Backlog:
    """The backlog with a pass over all keys ahead, if a changed definition needs one.

    Raises what a run is refused with: `DefinitionChanged` if a person has to choose and has not, for instance.
    """
    if backlog.outgrown is not None:
        raise backlog.outgrown
    if (refusal := _unanswered_change(backlog, policy)) is not None:
        raise refusal
    return backlog.to_recompute() if _starts_over(backlog, policy) else backlog


def _unanswered_change(backlog: Backlog, policy: OnChange) -> DefinitionChanged | None:
    """The refusal of a changed definition that is neither kept nor recomputed yet; None if a run may continue.

    Rows that cannot be kept are not, even if that is asked for.
    """
    older = backlog.older
    if policy == "recompute" or older is None or _leaves_no_choice(backlog):
        return None
    if policy == "keep" and backlog.unkeepable is None:
        return None
    return definition_changed(backlog.spec.name, older, backlog.spec.definition, backlog.unkeepable)


def _starts_over(backlog: Backlog, policy: OnChange) -> bool:
    """Whether all keys must be computed again because the definition, or what it writes to, changed."""
    if backlog.older is None:
        return bool(backlog.new_outputs)
    return _leaves_no_choice(backlog) if policy == "ask" else policy == "recompute" or _must_start_over(backlog)


def _leaves_no_choice(backlog: Backlog) -> bool:
    """Whether nobody needs to be asked: the rows cannot be kept, or there are none."""
    return _must_start_over(backlog) or not backlog.has_made_rows


def _must_start_over(backlog: Backlog) -> bool:
    """Whether the current rows cannot be kept: an output is new, or an input's table was created again."""
    older, newer = backlog.older, backlog.spec.definition
    assert older is not None
    return newer.adds_outputs_to(older) or bool(backlog.new_outputs) or newer.agrees_with(older)


def _why_start_over(backlog: Backlog) -> str:
    if backlog.new_outputs:
        return f"new output {', '.join(backlog.new_outputs)}"
    return f"its definition changed{'' if backlog.has_made_rows else ' before it made any row'}"
