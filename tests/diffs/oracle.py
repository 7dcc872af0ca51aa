"""What a diff must write, in plain Python: the document's table and section 7.3 of the design, a visit at a time.

Written from those two, and not from the code: lists of records, loops and ifs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

State = dict[str, Any]
APPEND, RETRACT, FROM, TO = "+A", "-R", "-C", "+C"


@dataclass(frozen=True)
class Entry:
    """A record of a log."""

    op: str
    visit: int
    fast: int | None
    values: tuple[tuple[str, Any], ...]
    row: Any = None  # which row of a keyed log it is about
    gone: bool = False  # marked as a delete

    @property
    def takes_back(self) -> bool:
        return self.op in (RETRACT, FROM)


@dataclass
class Log:
    """A log: its records, and how far they have been read."""

    name: str
    columns: tuple[str, ...]
    keyed_by: str | None = None
    retracting_deletes: bool = False
    entries: list[Entry] = field(default_factory=list)
    read: int = 0


@dataclass
class Known:
    """What is known of a visit."""

    fast: int
    slow: int
    state: State


Line = tuple[int, int, int, str, State]  # sign, S, F, log, state


def merge_two(rule: str, older: Any, newer: Any) -> Any:
    if older is None or newer is None:
        return older if newer is None else newer
    return {"sum": lambda: older + newer, "max": lambda: max(older, newer), "keep": lambda: older,
            "overwrite": lambda: newer, "append": lambda: older + newer}[rule]()  # fmt: skip


class Oracle:
    """The slow supplier as it should be."""

    def __init__(self, logs: list[Log], rules: dict[str, str], multiplier: int, *, fast_deletes: bool) -> None:
        self.logs, self.rules, self.multiplier, self.fast_deletes = logs, rules, multiplier, fast_deletes
        self.known: dict[int, Known] = {}
        self.waiting: dict[int, list[tuple[Log, Entry]]] = {}
        self.written: dict[int, list[Line]] = defaultdict(list)

    def run(self) -> None:
        """Take what the logs bring; visits that cannot be taken wait, with all that comes of them."""
        news: dict[int, list[tuple[Log, Entry]]] = defaultdict(list)
        for log in self.logs:
            for entry in log.entries[log.read :]:
                news[entry.visit].append((log, entry))
            log.read = len(log.entries)
        for visit, fresh in news.items():
            self.take(visit, self.waiting.pop(visit, []) + fresh)

    def give_up(self, visits: Iterable[int]) -> None:
        for visit in list(visits):
            self.take(visit, self.waiting.pop(visit), without_bad=True)

    def take(self, visit: int, told: list[tuple[Log, Entry]], *, without_bad: bool = False) -> None:
        by_log = [(log, [entry for its, entry in told if its is log]) for log in self.logs]
        if not without_bad and any(self.fails(log, entries) for log, entries in by_log):
            self.waiting[visit] = told
            return
        is_gone = False
        for log, entries in by_log:
            good = [entry for entry in entries if not self.is_bad(log, entry)]
            is_gone = self.take_log(visit, log, good, is_gone)

    # --- versions out of range ----------------------------------------------------------------------------------------

    def is_bad(self, log: Log, entry: Entry) -> bool:
        if entry.gone and entry.fast is None:
            return False
        return entry.fast is None or not 0 <= entry.fast < self.multiplier

    def fails(self, log: Log, entries: list[Entry]) -> bool:
        standing: dict[Any, Entry] = {}
        for number, entry in enumerate(entries):
            row = entry.row if log.keyed_by else number
            if entry.takes_back:
                standing.pop(row, None)
            elif self.is_bad(log, entry):
                standing[row] = entry
        return bool(standing)

    # --- one log ------------------------------------------------------------------------------------------------------

    def deletes(self, log: Log, entry: Entry) -> bool:
        return entry.gone or (log.retracting_deletes and entry.op == RETRACT)

    def take_log(self, visit: int, log: Log, entries: list[Entry], is_gone: bool) -> bool:
        places = [place for place, entry in enumerate(entries) if self.deletes(log, entry)]
        after = entries
        if places:
            after = entries[places[-1] + 1 :]
            for told in self.lives(log, entries, places):
                self.delete(visit, log, told)
            is_gone = is_gone or not any(not entry.takes_back for entry in after)
        if not is_gone:
            self.take_news(visit, log, after)
        return is_gone

    def lives(self, log: Log, entries: list[Entry], places: list[int]) -> list[list[int]]:
        """The versions of each life that a delete has ended; one that brought nothing is no life of its own."""
        lives: list[list[int]] = []
        begin = 0
        for place in places:
            part = entries[begin : place + 1]
            begins = any(not entry.takes_back and not self.deletes(log, entry) for entry in part)
            if begins or not lives:
                lives.append([])
            lives[-1] += [entry.fast for entry in part if entry.fast is not None]
            begin = place + 1
        return lives

    def delete(self, visit: int, log: Log, told: list[int]) -> None:
        old = self.known.pop(visit, None)
        newest = max([*told, *([old.fast] if old else [])], default=None)
        if old:
            self.write(visit, -1, old.slow, old.fast, log, old.state)
        if old and (self.fast_deletes or newest > old.fast):
            self.write(visit, +1, 0, old.fast, log, {})
        if not self.fast_deletes and newest is not None and (old is None or newest > old.fast):
            self.write(visit, -1, 0, newest, log, {})

    def take_news(self, visit: int, log: Log, entries: list[Entry]) -> None:
        old = self.known.get(visit)
        if not entries or (old is None and all(entry.takes_back for entry in entries)):
            return
        piece = {name: self.piece(name, entries) for name in log.columns}
        fast = max(entry.fast for entry in entries)
        if old is None:
            state = dict.fromkeys(self.rules) | piece
            self.write(visit, -1, 0, fast, log, {})
            self.write(visit, +1, 1, fast, log, state)
            self.known[visit] = Known(fast, 1, state)
            return
        is_late = fast < old.fast
        state = dict(old.state)
        for name, value in piece.items():
            older, newer = (value, old.state[name]) if is_late else (old.state[name], value)
            state[name] = merge_two(self.rules[name], older, newer)
        if fast <= old.fast and state == old.state:
            return
        newest = max(fast, old.fast)
        self.write(visit, -1, old.slow, old.fast, log, old.state)
        self.write(visit, +1, old.slow + 1, newest, log, state)
        if newest > old.fast:
            self.write(visit, -1, 0, newest, log, {})
            self.write(visit, +1, 0, old.fast, log, {})
        self.known[visit] = Known(newest, old.slow + 1, state)

    def piece(self, name: str, entries: list[Entry]) -> Any:
        """What the records of one log say of a column, in their order; a sum takes out what was taken back."""
        rule, told = self.rules[name], None
        for entry in entries:
            value = dict(entry.values).get(name)
            if value is None:
                continue
            if not entry.takes_back:
                told = merge_two(rule, told, value)
            elif rule == "sum":
                told = merge_two(rule, told, -value)
        return told

    def write(self, visit: int, sign: int, slow: int, fast: int, log: Log, state: State) -> None:
        whole = {name: state.get(name) for name in self.rules}
        self.written[visit].append((sign, slow, fast, log.name, whole))
