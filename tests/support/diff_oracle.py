"""What a diff must write, in plain Python: the document's table and section 7.3 of the design, a visit at a time.

Written from those two, and not from the code: lists of records, loops and ifs. Every record of a log is applied by
itself, in its order; what the log makes of a visit is written once, from what stood before to what stands after.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

State = dict[str, Any]
APPEND, RETRACT, FROM, TO = "+A", "-R", "-C", "+C"


@dataclass(frozen=True)
class Entry:
    """A record of a log. The one that a correction goes on with stands beside the one that it begins with."""

    op: str
    visit: int
    fast: int | None
    values: tuple[tuple[str, Any], ...]
    row: Any = None  # which row of a keyed log it is about
    gone: bool = False  # marked as a delete
    then: Entry | None = None

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


@dataclass(frozen=True)
class Mark:
    """What a visit leaves when it goes."""

    fast: int
    slow: int
    reason: str
    at: Any = None


Line = tuple[int, int, int, str, State]  # sign, S, F, log, state


def merge_two(rule: Any, older: Any, newer: Any) -> Any:
    if older is None or newer is None:
        return older if newer is None else newer
    if callable(rule):
        return rule(older, newer)
    return {"sum": lambda: older + newer, "max": lambda: max(older, newer), "min": lambda: min(older, newer),
            "keep": lambda: older, "overwrite": lambda: newer, "append": lambda: older + newer}[rule]()  # fmt: skip


@dataclass
class Life:
    """A visit while the records of one log are applied: the life that goes on, and what is over."""

    known: Known | None  # what goes on
    began: Known | None  # what stood before the log: alive, or left by its age
    slow: int  # the greatest S that was used
    mark: int | None  # the newest version of the lives that are over
    alive: bool  # whether it is the life that stood before
    ended: list[int] = field(default_factory=list)


class Oracle:
    """The slow supplier as it should be."""

    def __init__(
        self,
        logs: list[Log],
        rules: dict[str, Any],
        multiplier: int,
        *,
        fast_deletes: bool,
        ttl: str | None = None,
        constant: dict[str, Callable[[int], Any]] | None = None,
        now: Callable[[], Any] = lambda: None,
        keep_gone: Any = None,
    ) -> None:
        self.now, self.keep_gone = now, keep_gone
        self.logs, self.rules, self.multiplier, self.fast_deletes = logs, rules, multiplier, fast_deletes
        self.ttl = ttl
        self.constant = constant or {}  # columns that a visit never changes, and which value each visit has
        self.known: dict[int, Known] = {}
        self.marks: dict[int, Mark] = {}
        self.asleep: dict[int, Known] = {}  # what visits left with that grew too old
        self.waiting: dict[int, list[tuple[Log, Entry]]] = {}
        self.written: dict[int, list[Line]] = defaultdict(list)
        self.too_late = 0
        self.forgotten: set[int] = set()  # visits of which a mark was forgotten: they may use a version again

    def run(self, horizon: Any = None) -> None:
        """Take what the logs bring; visits that cannot be taken wait, with all that comes of them."""
        news: dict[int, list[tuple[Log, Entry]]] = defaultdict(list)
        for log in self.logs:
            for entry in log.entries[log.read :]:
                news[entry.visit].append((log, entry))
            log.read = len(log.entries)
        for visit, fresh in news.items():
            self.take(visit, self.waiting.pop(visit, []) + fresh, horizon)
        left = self.expire(horizon)
        if news or left:
            self.forget()

    def give_up(self, visits: Iterable[int], horizon: Any = None) -> None:
        for visit in list(visits):
            self.take(visit, self.waiting.pop(visit), horizon, without_bad=True)
        self.expire(horizon)
        self.forget()

    def retry(self, horizon: Any) -> None:
        for visit in list(self.waiting):
            self.take(visit, self.waiting.pop(visit), horizon)
        self.expire(horizon)
        self.forget()

    def forget(self) -> None:
        """A run that commits something forgets the marks that were old when it began; it has still read them."""
        if self.keep_gone is None:
            return
        for visit, mark in list(self.marks.items()):
            if mark.at < self.now() - self.keep_gone:
                del self.marks[visit]
                self.asleep.pop(visit, None)
                self.forgotten.add(visit)

    def expire(self, horizon: Any) -> bool:
        """Visits that are too old leave, and write nothing; one that stands as failed stays. Whether any has left."""
        before = len(self.known)
        for visit, known in list(self.known.items()):
            if visit not in self.waiting and self.is_old(known, horizon):
                self.asleep[visit] = self.known.pop(visit)
                self.marks[visit] = Mark(known.fast, known.slow, "expired", self.now())
        return len(self.known) < before

    def is_old(self, known: Known | None, horizon: Any) -> bool:
        time = known.state[self.ttl] if known and self.ttl else None
        return time is not None and time < horizon

    def take(self, visit: int, told: list[tuple[Log, Entry]], horizon: Any, *, without_bad: bool = False) -> None:
        by_log = [(log, [entry for its, entry in told if its is log]) for log in self.logs]
        if not without_bad and any(self.fails(log, entries, horizon) for log, entries in by_log):
            self.waiting[visit] = told
            return
        self.too_late += sum(self.is_late(log, e, horizon) for log, entries in by_log for e in entries)
        for place, (log, entries) in enumerate(by_log):
            good = [entry for entry in entries if not self.is_bad(log, entry) or self.deletes(log, entry)]
            good = self.without_withdrawn(log, good, horizon)
            timeless = place > 0 and self.ttl is not None and self.ttl not in log.columns
            if timeless and self.is_old(self.known.get(visit), horizon):
                self.too_late += len(good)
                continue
            self.take_log(visit, log, good, is_first=place == 0)

    # --- records that do not count ------------------------------------------------------------------------------------

    def is_late(self, log: Log, entry: Entry, horizon: Any) -> bool:
        """A record whose own time is too old; a correction is judged by its second record."""
        judged = entry.then or entry
        time = dict(judged.values).get(self.ttl) if self.ttl in log.columns else None
        return time is not None and time < horizon

    def is_bad(self, log: Log, entry: Entry) -> bool:
        if entry.gone and entry.fast is None:
            return False
        return entry.fast is None or not 0 <= entry.fast < self.multiplier

    def fails(self, log: Log, entries: list[Entry], horizon: Any) -> bool:
        """Whether a bad record stands that is in time; what takes it back may be part of a correction that is not."""
        standing: dict[Any, Entry] = {}
        for number, entry in enumerate(entries):
            row = entry.row if log.keyed_by else number
            if entry.takes_back:
                standing.pop(row, None)
            elif self.is_bad(log, entry) and not self.is_late(log, entry, horizon):
                standing[row] = entry
        return bool(standing)

    def without_withdrawn(self, log: Log, entries: list[Entry], horizon: Any) -> list[Entry]:
        """A version of a keyed log that was corrected to a smaller one before it was read was never there."""
        kept: list[Entry] = []
        for entry in entries:
            late = self.is_late(log, entry, horizon)
            mine = [e for e in kept if log.keyed_by and e.row == entry.row and not e.takes_back]
            last = mine[-1] if mine else None
            last_late = last is not None and self.is_late(log, last, horizon)
            if entry.takes_back and last_late:
                continue  # what it takes back came too late, and was not taken
            if entry.op == TO and last is not None and not late and not last_late and last.fast > entry.fast:
                place = next(n for n, e in enumerate(kept) if e is last)
                kept = kept[:place] + [e for e in kept[place:] if e.row != entry.row]
            kept.append(entry)
        return [entry for entry in kept if not self.is_late(log, entry, horizon)]

    # --- one log ------------------------------------------------------------------------------------------------------

    def deletes(self, log: Log, entry: Entry) -> bool:
        return entry.gone or (log.retracting_deletes and entry.op == RETRACT)

    def take_log(self, visit: int, log: Log, entries: list[Entry], *, is_first: bool) -> None:
        known, mark = self.known.get(visit), self.marks.get(visit)
        began = known or self.asleep.get(visit)
        slow = known.slow if known else mark.slow if mark else 0
        copy = Known(known.fast, known.slow, dict(known.state)) if known else None
        life = Life(copy, began, slow, mark.fast if mark else None, known is not None)
        for entry in entries:
            self.apply(log, life, entry, is_first)
        self.write_ends(visit, log, life)
        self.write_news(visit, log, life)

    def apply(self, log: Log, life: Life, entry: Entry, is_first: bool) -> None:
        """One record, as in a run of its own."""
        deletes = self.deletes(log, entry)
        fast = None if self.is_bad(log, entry) else entry.fast
        is_over = life.mark is not None and (fast is None or fast <= life.mark)
        if deletes and life.known and (fast is None or not is_over):
            life.ended.append(max(life.known.fast, fast if fast is not None else -1))
            life.known, life.mark, life.alive = None, life.ended[-1], False
        elif is_over:
            self.too_late += 1
        elif deletes:
            if fast is not None:  # of a life that nobody has seen
                life.ended.append(fast)
                life.mark = fast
        elif entry.takes_back:
            if life.known:
                self.undo(log, life.known, entry)
            elif life.mark is not None:
                self.too_late += 1
        elif life.known:
            self.merge(log, life.known, entry)
        elif life.mark is not None and not is_first:
            self.too_late += 1
        else:
            values = dict(entry.values)
            state = {name: values.get(name) if name in log.columns else None for name in self.rules}
            life.known = Known(fast, 0, state)

    def merge(self, log: Log, known: Known, entry: Entry) -> None:
        values = dict(entry.values)
        for name in log.columns:
            stands, comes = known.state[name], values.get(name)
            older, newer = (comes, stands) if entry.fast < known.fast else (stands, comes)
            known.state[name] = merge_two(self.rules[name], older, newer)
        known.fast = max(known.fast, entry.fast)

    def undo(self, log: Log, known: Known, entry: Entry) -> None:
        for name, value in entry.values:
            if name in log.columns and self.rules[name] == "sum" and value is not None:
                known.state[name] = merge_two("sum", known.state[name], -value)

    def write_ends(self, visit: int, log: Log, life: Life) -> None:
        """The lives that a log has ended; the first may be the one that stood."""
        if not life.ended:
            return
        old, newest = life.began, life.ended[0]
        if old:
            self.write(visit, -1, old.slow, old.fast, log, old.state)
        if old and (self.fast_deletes or newest > old.fast):
            self.write(visit, +1, 0, old.fast, log, {})
        if not self.fast_deletes:
            for version in life.ended if old is None or newest > old.fast else life.ended[1:]:
                self.write(visit, -1, 0, version, log, {})
        self.known.pop(visit, None)
        self.asleep.pop(visit, None)
        self.marks[visit] = Mark(life.mark, life.slow, "deleted", self.now())
        life.began = None

    def write_news(self, visit: int, log: Log, life: Life) -> None:
        new, old = life.known, life.began
        if new is None:
            return
        if life.alive and old and new.fast == old.fast and new.state == old.state:
            return
        slow = life.slow + 1
        if old is None:
            self.write(visit, -1, 0, new.fast, log, {})
            self.write(visit, +1, slow, new.fast, log, new.state)
        else:
            self.write(visit, -1, old.slow, old.fast, log, old.state)
            self.write(visit, +1, slow, new.fast, log, new.state)
            if new.fast > old.fast:
                self.write(visit, -1, 0, new.fast, log, {})
                self.write(visit, +1, 0, old.fast, log, {})
        self.known[visit] = Known(new.fast, slow, new.state)
        self.asleep.pop(visit, None)

    def write(self, visit: int, sign: int, slow: int, fast: int, log: Log, state: State) -> None:
        whole = {name: state.get(name) for name in self.rules}
        whole |= {name: value_of(visit) for name, value_of in self.constant.items()}
        self.written[visit].append((sign, slow, fast, log.name, whole))
