"""Which rows and values depend on the order in which rows come, where nothing decides that order."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import TokenType

from seamark.views.plain_sql.signs import Sign, Signs

_SORTED = (TokenType.ORDER_BY, TokenType.SORT_BY)  # of a window; both sort all of a partition
_LIMITS = (TokenType.LIMIT, TokenType.OFFSET)


def limits_by_chance(signs: Signs) -> Iterator[Sign]:
    """The first LIMIT or OFFSET of each query that has no ORDER BY: any rows may be those that it keeps."""
    opened: list[int] = [-1]  # the parentheses around each query, outermost first
    seen: set[int] = set()
    for index, sign in enumerate(signs.all):
        if sign.kind is TokenType.L_PAREN:
            opened.append(index)
        elif sign.kind is TokenType.R_PAREN:
            opened.pop()
        elif opened[-1] not in seen and _limits(signs, index):
            begin = opened[-1]
            seen.add(begin)
            asks_whether = begin > 0 and signs[begin - 1].kind is TokenType.EXISTS  # and not for which rows
            if not asks_whether and not _has(signs, begin + 1, index, (TokenType.ORDER_BY,)):
                yield sign


def _limits(signs: Signs, index: int) -> bool:
    """Whether a LIMIT or OFFSET begins here: both may be names of columns too, and LIMIT ALL keeps every row."""
    behind = signs[index + 1]
    if signs[index].kind not in _LIMITS or (index and signs[index - 1].kind in (TokenType.DOT, TokenType.ALIAS)):
        return False
    return behind.kind in (TokenType.NUMBER, TokenType.L_PAREN)


def window_is_sorted(signs: Signs, over: int) -> bool:
    """Whether the window behind an OVER, or the one that it names, has an order."""
    begin, name = over + 1, signs[over + 1]
    if begin in signs.partner:
        if signs.partner[begin] - begin != 2:
            return _is_sorted(signs, begin)
        name = signs[begin + 1]
    defined = [
        index + 2
        for index in range(len(signs) - 2)
        if signs[index].text.casefold() == name.text.casefold() and signs[index + 1].kind is TokenType.ALIAS
    ]
    return any(place in signs.partner and _is_sorted(signs, place) for place in defined)


def _is_sorted(signs: Signs, begin: int) -> bool:
    return _has(signs, begin + 1, signs.partner[begin], _SORTED)


def _has(signs: Signs, lo: int, hi: int, kinds: tuple[TokenType, ...]) -> bool:
    return any(signs[index].kind in kinds for index in signs.top_level(lo, hi))
