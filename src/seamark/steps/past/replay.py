"""Replay: the commits of derived tables made again from what they read, and compared with what they wrote."""

from __future__ import annotations

import heapq
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from functools import reduce
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

from seamark.control import TableHead
from seamark.errors import SeamarkError
from seamark.ledger.events import ExecuteTransform
from seamark.ledger.verify import Finding, VerifyReport
from seamark.steps.past.checkpoint import Checkpoint
from seamark.steps.past.history import PastCommit, past_commits, stored_source
from seamark.steps.past.replay_compare import Difference, Skipped, first_difference
from seamark.tables.context import TableContext
from seamark.tables.read.source import TableSource
from seamark.tables.write.stage import SliceTarget, StagedChange
from seamark.tables.write.writing import writing

T = TypeVar("T")


class NotReplayed(Exception):
    """A commit that is not made again, for a reason that a report can name."""


class Shared:
    """What the tables of one commit share while they are compared: computed for the first, and there for the others."""

    def __init__(self, stack: ExitStack) -> None:
        self.stack = stack
        self._made: list[tuple[Checkpoint, Any, Any]] = []

    def once(self, checkpoint: Checkpoint, also: Any, make: Callable[[], T]) -> T:
        """What is made of a checkpoint, and of something else that it depends on.

        Each table has a checkpoint of its own. One that says something else than the others' is made for itself.
        """
        whole = checkpoint.as_part(1, 1)
        for known, beside, made in self._made:
            if (known, beside) == (whole, also):
                found: T = made
                return found
        made = make()
        self._made.append((whole, also, made))
        return made


Again = Callable[[TableSource, PastCommit, SliceTarget, Shared], StagedChange | None]
"""Makes a table's part of a commit again, up to its staged slices; None if what it was made by is no longer there."""


def replay_commits(
    context: TableContext, outputs: Iterable[TableSource], heads: Mapping[str, TableHead], again: Again
) -> VerifyReport:
    """Make the commits of tables again, oldest first, of each table until one gives other records than it wrote.

    The tables of one commit have one system time, and are compared side by side.
    """
    replays = [_Replay(context, output, heads[output.name]) for output in outputs if output.name in heads]
    by_time = heapq.merge(*[replay.commits() for replay in replays], key=_time_of)
    for _, together in groupby(by_time, key=_time_of):
        with ExitStack() as stack:
            shared = Shared(stack)
            for commit, replay in together:
                replay.compare(commit, again, shared)
    return reduce(operator.add, (replay.report() for replay in replays), VerifyReport(0))


def _time_of(entry: tuple[PastCommit, _Replay]) -> datetime:
    return entry[0].blocks[0].system_time


class _Replay:
    """The commits of one table, made again until one gives other records than it wrote."""

    def __init__(self, context: TableContext, output: TableSource, head: TableHead) -> None:
        self._context = context
        self._output = output
        self._head = head
        self._replayed = 0
        self._skipped = Skipped(output.name)
        self._findings: list[Finding] = []

    def commits(self) -> Iterator[tuple[PastCommit, _Replay]]:
        """The commits up to the head, oldest first, each with this; none after one that was found to differ."""
        for commit in past_commits(self._context, self._output.name):
            if self._findings or commit.blocks[-1].sequence > self._head.sequence:
                return
            yield commit, self

    def compare(self, commit: PastCommit, again: Again, shared: Shared) -> None:
        """Make one commit again, unless an earlier one was found to differ."""
        if self._findings:
            return
        try:
            with ExitStack() as stack:
                found = self._difference(commit, again, shared, stack)
        except NotReplayed as error:
            self._skipped.add(commit, str(error))
            return
        except Exception as error:
            # What the chain and its files say of a commit may be anything: that it cannot be made again is reported.
            self._findings.append(_not_made(self._output.name, commit, f"{type(error).__name__}: {error}"))
            return
        if found is None:
            self._skipped.add(commit, "it was made by another definition, which is not run from the chain")
            return
        self._replayed += len(commit.blocks)
        self._findings += found

    def report(self) -> VerifyReport:
        """What was made again, what was not, and what differs."""
        skipped = self._skipped
        return VerifyReport(0, tuple(self._findings), self._replayed, skipped.blocks, skipped.reasons())

    def _difference(self, commit: PastCommit, again: Again, shared: Shared, stack: ExitStack) -> list[Finding] | None:
        """What differs when a commit is made again; None if it cannot be."""
        context, name = self._context, self._output.name
        if commit.trouble is not None:
            return [_not_made(name, commit, commit.trouble)]
        expected = [_slice_of(context, name, entry.hash) for entry in commit.blocks]
        try:
            run = stack.enter_context(writing(context))
            staged = again(self._output, commit, _target(context, self._output, commit, run.folder), shared)
        except SeamarkError as error:
            return [_not_made(name, commit, error.message)]
        if staged is None:
            return None
        data, recorded = context.files(name).data, [piece for piece in expected if piece is not None]
        difference = first_difference(data, recorded, run.folder, staged.slices)
        return [] if difference is None else [_finding(name, commit, difference)]


def count_without_step(context: TableContext, table: str, head: TableHead) -> VerifyReport:
    """The blocks of a derived table that no step of this program makes: nothing of it can be computed again."""
    made = context.control.index.blocks(table, kinds=[ExecuteTransform.__name__], upto=head.sequence)
    return VerifyReport(0, (), 0, len(made))


def _target(context: TableContext, output: TableSource, commit: PastCommit, folder: Path) -> SliceTarget:
    sizes = [(b.last_offset or 0) - (b.first_offset or 0) + 1 for b in commit.blocks if b.first_offset is not None]
    return SliceTarget(
        table=output.name,
        schema=stored_source(context, output.name, commit.blocks[0].sequence).schema,
        folder=folder,
        first_offset=0 if commit.last_before is None else commit.last_before + 1,
        commit_time=lambda: commit.blocks[0].system_time,
        cut=replace(context.cut, sizes=tuple(sizes)),  # where it was cut then: the limits may have been others
    )


def _slice_of(context: TableContext, table: str, block: str) -> Any:
    event = context.files(table).block(block).event
    return event.new_data if isinstance(event, ExecuteTransform) else None


def _finding(table: str, commit: PastCommit, difference: Difference) -> Finding:
    with_data = [entry for entry in commit.blocks if entry.slice_hash is not None] or list(commit.blocks)
    entry = with_data[min(difference.place, len(with_data) - 1)]
    return Finding(
        table=table,
        block=entry.hash,
        kind="replay",
        expected=difference.recorded,
        found=difference.computed,
        message=f"table '{table}': block {entry.sequence} cannot be made again from what it read. {difference.shown}",
    )


def _not_made(table: str, commit: PastCommit, reason: str) -> Finding:
    entry = commit.blocks[0]
    text = f"table '{table}': computing block {entry.sequence} again failed: {reason}"
    return Finding(table, entry.hash, "replay", "the records of the block", "an error", text)
