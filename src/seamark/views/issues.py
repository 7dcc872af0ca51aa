"""What is wrong with views, or may be: issues with their place, shown with the line and a caret."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from seamark.views.places import MvScript, MvText

PHASES = ("parse", "link", "metadata", "feeds", "analysis")

_ERRORS = {
    "parse": """LexerError ParserError DuplicateView DuplicateViewPart DuplicateHandler IllegalHandlerName
        DuplicateInput UnknownView""",
    "link": """UnknownAlias DuplicateAlias DuplicateColumn ForwardReference ReservedName CyclicViews NotIncremental
        IllegalJoinCondition EmptyHandler ViewMultiHandlers SqlCustomFilterError SqlCustomColumnError""",
    "metadata": """UnknownInputTable UnknownSourceTable MismatchedSourceTable UnknownColumnInCondition
        IllegalOutputReference UnknownOutputColumn UnknownColumn UnionMismatch KeyNotProduced KeyMismatch
        SeveralRowsPerKey RequiredColumnMissing UnkeyedLeftmost OwnerOutOfReach UnsupportedKeyType JoinTypes
        UnknownDestination""",
    "feeds": "UnknownChangefeed MissingConsumer",
    "analysis": "SqlUnexpectedError NotDeterministic TemporaryFunction TypeMismatch",
}
_WARNINGS = {
    "link": "UselessView OrderIgnored",
    "metadata": "MissingTargetTable KeyExtractionImpossible NullableKey BatchLeftmost UndeclaredColumn "
    "ComplexKeyGeneration",
    "feeds": "MissingInput UselessInput",
    "analysis": "OrderDependent FloatingAggregate",
}
_HINTS = {"metadata": "MissingJoinIndex"}

# Each kind of issue, how much it matters, and the phase that finds it.
KINDS: dict[str, tuple[str, str]] = {
    kind: (severity, phase)
    for severity, kinds in (("error", _ERRORS), ("warning", _WARNINGS), ("hint", _HINTS))
    for phase, listed in kinds.items()
    for kind in listed.split()
}


@dataclass(frozen=True, slots=True)
class MvIssue:
    """Something about a view or handler, with its place. `severity` is "error", "warning" or "hint"."""

    kind: str
    severity: str
    line: int
    column: int
    message: str
    source: str | None = None
    phase: str = "parse"
    shown: str = ""  # the line, as it was written

    def __str__(self) -> str:
        where = f"{self.source}:" if self.source else ""
        # A tab is one sign: a caret under it needs the same tabs before it.
        indent = "".join("\t" if sign == "\t" else " " for sign in self.shown[: self.column - 1])
        head = f"{where}{self.line}:{self.column}: {self.severity} {self.kind}: {self.message}"
        return f"{head}\n    {self.shown}\n    {indent}^" if self.shown.strip() else head

    @property
    def is_error(self) -> bool:
        """Whether a view with it cannot be started."""
        return self.severity == "error"


class MvIssues(list[MvIssue]):
    """Issues in the order of their places; `skipped` names the phases that were not gone through."""

    def __init__(self, issues: Iterable[MvIssue] = (), skipped: Iterable[str] = ()) -> None:
        super().__init__(sorted(dict.fromkeys(issues), key=_order))
        self.skipped: tuple[str, ...] = tuple(skipped)
        self.loaded: tuple[str, ...] = ()
        self.left_out: tuple[str, ...] = ()
        self.stopped: tuple[str, ...] = ()

    def with_outcome(self, loaded: Iterable[str], left_out: Iterable[str], stopped: Iterable[str]) -> MvIssues:
        """The same with what loading made of it: the views that run, what was left out, and what runs no more."""
        found = MvIssues(self, self.skipped)
        found.loaded, found.left_out, found.stopped = tuple(loaded), tuple(left_out), tuple(stopped)
        return found

    @property
    def ok(self) -> bool:
        """Whether none of them is an error."""
        return not any(issue.is_error for issue in self)

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no issues"


def _order(issue: MvIssue) -> tuple[str, int, int, str, str]:
    return (issue.source or "", issue.line, issue.column, issue.kind, issue.message)


def issue_at(kind: str, message: str, script: MvScript, offset: int, severity: str | None = None) -> MvIssue:
    """An issue at a place in a script; severity and phase are those of its kind, unless a severity is given."""
    usual, phase = KINDS[kind]
    line, column = script.position(offset)
    return MvIssue(kind, severity or usual, line, column, message, script.name, phase, script.line(line))


def issue_in(kind: str, message: str, text: MvText, offset: int, severity: str | None = None) -> MvIssue:
    """An issue at a place in a view's SELECT."""
    return issue_at(kind, message, text.script, text.origin(offset), severity)
