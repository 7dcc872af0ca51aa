"""The functions that a SELECT calls, and those whose result its rows alone do not decide."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from sqlglot import TokenType

from seamark.transforms.declare.sql_functions import ALLOWED, BEFORE_PARENTHESIS, NEVER_THE_SAME
from seamark.views.analysis.order import limits_by_chance, window_is_sorted
from seamark.views.issues import MvIssue, issue_in
from seamark.views.model import MvPart
from seamark.views.plain_sql.signs import Sign, Signs

# They give the first or all values in the order in which rows come, which nothing decides.
_BY_ORDER = frozenset(
    {"any_value", "array_agg", "collect_list", "collect_set", "first", "first_value", "last", "last_value"}
)
_LISTS = frozenset({"listagg", "string_agg"})  # in order if they say WITHIN GROUP
_CLOCKS = NEVER_THE_SAME - {"tablesample", "user"}  # the latter is a common name of a column
_OF_ROWS = frozenset({"range"})  # it gives rows, where a table is expected, and they are decided by its arguments
_SORTING = frozenset({"array_sort", "sort_array"})
_TIMES = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"})
_SPECIAL = re.compile(r"\s*(now|today|tomorrow|yesterday)\b.*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Call:
    """A name before a parenthesis: where it stands, what encloses it, and the word behind its closing parenthesis.

    `is_sorted` says that this word is the OVER of a window with an order.
    """

    name: str
    start: int
    within: str
    behind: str
    is_sorted: bool = False

    @property
    def is_by_order(self) -> bool:
        """Whether its result depends on the order in which rows come."""
        if self.is_sorted or self.within in _SORTING:
            return False
        return self.name in _BY_ORDER or (self.name in _LISTS and self.behind != "WITHIN")


def calls_in(signs: Signs) -> Iterator[Call]:
    """All calls, in the order of the text; a name that belongs to a database is called whole, `db.f`."""
    within: list[tuple[int, str]] = []  # where each parenthesis that is open is closed, and what it belongs to
    for index, sign in enumerate(signs.all):
        while within and index > within[-1][0]:
            within.pop()
        if sign.text != "(" or index not in signs.partner:
            continue
        before, close = signs[index - 1] if index else None, signs.partner[index]
        is_call = before is not None and _is_name(before) and not _is_cte(signs, close)
        name = _called(signs, index - 1) if is_call else ""
        if before is not None and name:
            behind = _behind(signs, close)
            is_sorted = signs[behind].word == "OVER" and window_is_sorted(signs, behind)
            yield Call(name, before.start, within[-1][1] if within else "", _word(signs[behind]), is_sorted)
        within.append((close, name))


def _is_name(sign: Sign) -> bool:
    return sign.is_name or (bool(sign.word) and sign.word.replace("_", "A").isalnum() and not sign.word[0].isdigit())


def _is_cte(signs: Signs, close: int) -> bool:
    """Whether the columns of a CTE end here: `WITH name (…) AS (`."""
    return signs[close + 1].word == "AS" and signs[close + 2].text == "("


def _called(signs: Signs, index: int) -> str:
    name = signs[index].text.casefold()
    if index >= 2 and signs[index - 1].text == ".":
        return f"{signs[index - 2].text.casefold()}.{name}"
    return name


def _behind(signs: Signs, close: int) -> int:
    """The place behind a call; that behind its FILTER, and what it does with NULLs, if it says so."""
    if signs[close + 1].word == "FILTER" and close + 2 in signs.partner:
        close = signs.partner[close + 2]
    if signs[close + 1].word in ("IGNORE", "RESPECT") and signs[close + 2].word == "NULLS":
        close += 2
    return close + 1


def _word(sign: Sign) -> str:
    return sign.word if sign.word.isidentifier() else ""


def call_issues(
    part: MvPart, own: Callable[[], Collection[str]], is_registered: Callable[[str], bool]
) -> Iterator[MvIssue]:
    """What is wrong with the functions that a part calls, and with rows that it takes by chance.

    `own` gives the names of Spark's functions, and `is_registered` says whether there is another one of a name.
    """
    signs = Signs(part.text.text)
    for index, sign in enumerate(signs.all):
        shown = _changing(signs, index, sign)
        if shown is not None:
            message = f"{shown} is another value in each run: computing the row again would give another one"
            yield issue_in("NotDeterministic", message, part.text, sign.start)
        elif sign.kind is TokenType.TABLE_SAMPLE and index + 1 in signs.partner:
            message = "which rows TABLESAMPLE takes is left to chance: computing the rows again would give others"
            yield issue_in("NotDeterministic", message, part.text, sign.start)
    for sign in limits_by_chance(signs):
        message = f"which rows {sign.word} keeps depends on their order, which nothing decides: write ORDER BY"
        yield issue_in("OrderDependent", message, part.text, sign.start)
    for call in calls_in(signs):
        if call.name in ALLOWED or call.name in _OF_ROWS:
            if call.is_by_order:
                message = f"what {call.name}() gives depends on the order of the rows, which nothing decides"
                yield issue_in("OrderDependent", message, part.text, call.start)
        elif call.name in BEFORE_PARENTHESIS:
            continue
        elif call.name in own():
            message = f"what {call.name}() gives is not decided by its arguments: replay could not make the row again"
            yield issue_in("NotDeterministic", message, part.text, call.start)
        elif is_registered(call.name):
            message = (
                f"{call.name}() is a function that somebody has registered: no definition holds its code. "
                "Write it in SQL, or compute the column in a step"
            )
            yield issue_in("TemporaryFunction", message, part.text, call.start)


def _changing(signs: Signs, index: int, sign: Sign) -> str | None:
    """A word or text that stands for the clock, the user or the place, as it is shown; or None."""
    before, behind = signs[index - 1] if index else None, signs[index + 1]
    word = sign.word.casefold()
    if word in _CLOCKS and (before is None or (before.text != "." and before.word != "AS")):
        return None if behind.text in (".", "(") else word
    if sign.is_string and before is not None and before.word in _TIMES and _SPECIAL.fullmatch(sign.text):
        return f"{before.word} '{sign.text}'"
    return None
