"""How a run finds the keys that it computes: by changes, or all of them in ranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import replace

import pyarrow as pa

from seamark.control import CoveredKey, FailedKey, Mode
from seamark.steps.past.checkpoint import RangeMark, ReadAt
from seamark.steps.rows.fetch import small_last_images
from seamark.steps.rows.keys import columns_of, key_from_json, keys_of, plain
from seamark.steps.rows.scope import AllKeys, KeyFrame, KeyRange, KeyValues, Scope, rest_of_ranges
from seamark.steps.running.commit import Covered
from seamark.steps.standing.pins import Taken
from seamark.tables.frame import CheckedFrame, LocalFrame, SparkFrame
from seamark.tables.ordering import comparable
from seamark.transforms.backlog import Backlog
from seamark.transforms.keying import ChangedBlocks, Found, Keying, LoadedRows, Read, no_keys
from seamark.transforms.keys.batches import cut_batches
from seamark.transforms.keys.candidates import computed_ahead, without_covered
from seamark.transforms.keys.ranges import rows_at_most
from seamark.transforms.keys.scopes import joined_scope
from seamark.transforms.keys.select import joined_keys
from seamark.transforms.run import StepRun, Work

Columns = tuple[str, ...]


# --- by changes -------------------------------------------------------------------------------------------------------


def by_changes(run: StepRun, backlog: Backlog) -> None:
    """Compute the keys that pending records lead to, and failed keys that are due, batch after batch."""
    due = backlog.due_except(run.tried)
    batches = cut_batches(backlog.waiting, run.spec.options.batch_rows) or [()]
    if run.spec.options.commit == "run":
        _changes_together(run, backlog, batches, due)
        return
    for number, taken in enumerate(batches):
        left = len(batches) - number - 1
        with ExitStack() as stack:
            retried = due if number == 0 else ()
            # A key that was computed ahead may be left out if all that waits is known to hold nothing newer of it.
            ahead = computed_ahead(run.context, backlog, only_failed=len(batches) > 1)
            for work in _parts(run, backlog, taken, retried, ahead, stack, is_last=left == 0):
                run.do(backlog, work, batches_left=left)


def _parts(
    run: StepRun,
    backlog: Backlog,
    taken: Sequence[Taken],
    due: Sequence[FailedKey],
    ahead: Sequence[CoveredKey],
    stack: ExitStack,
    *,
    is_last: bool,
) -> Iterator[Work]:
    """The keys of a batch, in parts by the columns that they have; usually these are the same for all inputs.

    A part's commit moves the positions of the inputs whose keys are all in it or in parts before it.
    """
    changes = [ChangedBlocks(piece.table, piece.blocks) for piece in taken]
    found = list(run.keying.changed_keys(changes, backlog.read, backlog.before))
    if len({entry.columns for entry in found}) > 1:
        # Keys with different columns overlap: a later part may compute what this one skips, and replay could not tell.
        ahead = computed_ahead(run.context, backlog, only_failed=True)
    found = without_covered(found, ahead, run.keying)
    retried = by_columns(run.keying, due, run.tried)
    kinds: list[Columns] = list(dict.fromkeys([*(entry.columns for entry in found), *retried])) or [run.keying.group]
    loaded = _loaded_rows(run, backlog, taken)
    left = list(taken)
    for place, columns in enumerate(kinds):
        later = {entry.table for entry in found if entry.columns in kinds[place + 1 :]}
        mine = [entry for entry in found if entry.columns == columns]
        moved = [piece for piece in left if piece.table not in later]
        left = [piece for piece in left if piece.table in later]
        yield Work(
            scope=scope_of(run, columns, mine, retried.get(columns, ()), stack),
            mode=Mode.CHANGES if taken else Mode.RETRY,
            taken=tuple(piece for piece in taken if any(entry.table == piece.table for entry in mine)),
            covers=tuple(covers(backlog, piece) for piece in moved),
            keys=tuple(retried.get(columns, ())),
            loaded=loaded,
            completes=is_last and place == len(kinds) - 1,
            rows_in=sum(piece.records for piece in moved),
        )


def by_columns(keying: Keying, failed: Sequence[FailedKey], tried: Set[str] = frozenset()) -> dict[Columns, list[str]]:
    """Failed keys that a run has not tried yet, by the columns that they have."""
    grouped: dict[Columns, list[str]] = {}
    for entry in failed:
        columns = columns_of(entry.key)
        if set(columns) <= set(keying.keys) and entry.key not in tried:
            grouped.setdefault(columns, []).append(entry.key)
    return grouped


def _loaded_rows(run: StepRun, backlog: Backlog, taken: Sequence[Taken]) -> dict[str, LoadedRows]:
    """Rows at the pins that the batch's own records already contain, so that they need not be read again."""
    loaded = {}
    for piece in taken:
        source = run.spec.sources[piece.table]
        reaches_pin = piece.upto == backlog.pins[piece.table].offset
        images = (
            small_last_images(source, piece.blocks) if source.schema.key and reaches_pin and piece.records else None
        )
        if images is not None:
            loaded[piece.table] = LoadedRows(images)
    return loaded


def covers(backlog: Backlog, piece: Taken) -> Covered:
    """What a commit covers that incorporates some blocks of an input."""
    dataset_id = backlog.pins[piece.table].dataset_id
    return Covered(piece.table, dataset_id, piece.end_hash, piece.end_sequence, piece.upto)


def covers_pins(backlog: Backlog) -> tuple[Covered, ...]:
    """What a commit covers that incorporates all that waits: the inputs up to their pins, except deferred ones."""
    return tuple(_covered(backlog, entry.table, ReadAt.of(entry.pin)) for entry in backlog.waiting)


def _covered(backlog: Backlog, table: str, at: ReadAt) -> Covered:
    return Covered(table, backlog.pins[table].dataset_id, at.block, at.sequence, at.offset)


# --- all keys ---------------------------------------------------------------------------------------------------------


def through_all_keys(run: StepRun, backlog: Backlog, mode: Mode) -> None:
    """Compute every key there is, range after range; the positions move with the last one, to where the first began.

    An interrupted pass continues with the first range that did not commit.
    """
    works = list(_ranges(run, backlog, mode))
    if run.spec.options.commit == "run" and len(works) > 1:
        mark, first = works[0].range, works[0].scope
        first_read = mark.first_read if mark else {}
        # A pass that continues leaves alone the keys before its first range: an earlier run has committed them.
        after = first.after if isinstance(first, KeyRange) else None
        whole = replace(
            works[-1],
            scope=AllKeys(run.keying.group) if after is None else KeyRange(run.keying.group, after, None),
            range=RangeMark(run.keying.group, _plain(after), None, first_read, True),
            rows_in=works[0].rows_in,
        )
        run.do_together(backlog, works, whole)
        return
    for place, work in enumerate(works):
        run.do(backlog, work, batches_left=len(works) - place - 1)


def _ranges(run: StepRun, backlog: Backlog, mode: Mode) -> Iterator[Work]:
    keying, read = run.keying, backlog.read
    ranges = keying.ranges(read)
    first_read: Mapping[str, ReadAt] = {table: ReadAt.of(pin) for table, pin in backlog.pins.items()}
    generations: Mapping[str, int] = {table: backlog.generation(table) for table in backlog.pins}
    number, resumed = 0, backlog.unfinished.mark if backlog.unfinished else None
    if resumed is not None and resumed.upto is not None and resumed.columns == keying.group:
        ranges = rest_of_ranges(ranges, key_from_json(resumed.columns, resumed.upto, keying.key_types))
        first_read, number, generations = resumed.first_read, resumed.number + 1, resumed.generations
    read_first = {table: at for table, at in first_read.items() if table in backlog.pins}  # an input may be gone
    for place, scope in enumerate(ranges):
        is_last = place == len(ranges) - 1
        after, upto = (scope.after, scope.upto) if isinstance(scope, KeyRange) else (None, None)
        yield Work(
            scope=scope,
            mode=mode,
            covers=tuple(_covered(backlog, table, at) for table, at in read_first.items()) if is_last else (),
            range=RangeMark(
                keying.group, _plain(after), _plain(upto), first_read, is_last, number + place, generations
            ),
            completes=is_last,
            rows_in=_rows_in(run, read) if place == 0 else 0,
        )


def _plain(values: tuple[object, ...] | None) -> tuple[object, ...] | None:
    return None if values is None else tuple(plain(value) for value in values)


def _rows_in(run: StepRun, read: Read) -> int:
    return sum(rows_at_most(source, read) for source in run.spec.sources.values())


# --- scopes -----------------------------------------------------------------------------------------------------------


def scope_of(run: StepRun, columns: Columns, found: Sequence[Found], texts: Sequence[str], stack: ExitStack) -> Scope:
    """Keys from several `Found`, and listed ones, as one scope."""
    frames = [joined_keys(found, run.context.session)] if found else []
    if not columns:
        any_there = bool(texts) or any(not frame.is_known_empty for frame in frames)
        return AllKeys() if any_there else no_keys(run.keying)
    given = LocalFrame(keys_of(texts, columns, run.keying.key_types))
    return joined_scope(run.keying, columns, [*frames, given], stack)


# --- all batches in one commit ----------------------------------------------------------------------------------------


def _changes_together(
    run: StepRun, backlog: Backlog, batches: Sequence[tuple[Taken, ...]], due: Sequence[FailedKey]
) -> None:
    with ExitStack() as stack:
        works: list[Work] = []
        ahead = computed_ahead(run.context, backlog)
        for number, taken in enumerate(batches):
            works += _parts(run, backlog, taken, due if number == 0 else (), ahead, stack, is_last=False)
        if len({work.scope.columns for work in works}) > 1:
            through_all_keys(run, backlog, Mode.ALL_KEYS)  # groups with different columns overlap
            return
        covers = {entry.table: entry for work in works for entry in work.covers}
        whole = Work(
            scope=_union(run, [work.scope for work in works], stack),
            mode=Mode.CHANGES if any(batches) else Mode.RETRY,
            taken=_joined([piece for work in works for piece in work.taken]),
            covers=tuple(covers.values()),
            keys=tuple(key for work in works for key in work.keys),
            completes=True,
            rows_in=sum(work.rows_in for work in works),
        )
        run.do_together(backlog, _each_key_once(works, whole), whole)


def _each_key_once(works: Sequence[Work], whole: Work) -> list[Work]:
    """The batches without the keys that an earlier one has. Keys that are not in memory are taken in one batch."""
    if any(not isinstance(work.scope, KeyValues) for work in works):
        return [whole]
    seen: set[tuple[object, ...]] = set()
    once = []
    for work in works:
        assert isinstance(work.scope, KeyValues)
        keys = comparable(work.scope.values)
        fresh = pa.array([key not in seen for key in keys], pa.bool_())
        seen.update(keys)
        once.append(replace(work, scope=KeyValues(work.scope.values.filter(fresh))))
    return once


def _union(run: StepRun, scopes: Sequence[Scope], stack: ExitStack) -> Scope:
    frames: list[CheckedFrame] = []
    for scope in scopes:
        if isinstance(scope, KeyValues):
            frames.append(LocalFrame(scope.values))
        elif isinstance(scope, KeyFrame):
            frames.append(SparkFrame(scope.frame))
        else:
            return AllKeys(scope.columns)
    if not scopes[0].columns:
        return scopes[0]
    return joined_scope(run.keying, scopes[0].columns, frames, stack)


def _joined(taken: Sequence[Taken]) -> tuple[Taken, ...]:
    """Pieces of each input that follow one another, as one piece."""
    joined: dict[str, Taken] = {}
    for piece in taken:
        first = joined.get(piece.table)
        if first is not None:
            piece = replace(piece, after=first.after, blocks=(*first.blocks, *piece.blocks))
        joined[piece.table] = piece
    return tuple(joined.values())
