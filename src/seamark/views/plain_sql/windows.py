"""Reading the windows of a list of columns: by what each is partitioned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import TokenType

from seamark.views.model import MvComputation, MvWindow
from seamark.views.plain_sql.expressions import ExpressionReader
from seamark.views.plain_sql.signs import Signs, UnreadableSelect

_PARTITIONS = (TokenType.PARTITION_BY, TokenType.DISTRIBUTE_BY)
_ENDS = (TokenType.ORDER_BY, TokenType.SORT_BY, TokenType.ROWS, TokenType.RANGE)


class WindowReader:
    """Reads what stands behind OVER; `named` are the windows that a WINDOW clause gives names to."""

    def __init__(self, signs: Signs, expressions: ExpressionReader, named: Mapping[str, tuple[int, int]]) -> None:
        self._signs = signs
        self._expressions = expressions
        self._named = named

    @staticmethod
    def named(signs: Signs, clause: tuple[int, int] | None) -> Mapping[str, tuple[int, int]]:
        """The windows that a WINDOW clause defines: name and range inside its parentheses."""
        found: dict[str, tuple[int, int]] = {}
        for lo, hi in signs.split(*clause) if clause else ():
            end = signs.partner.get(lo + 2)
            if signs[lo + 1].kind is not TokenType.ALIAS or end != hi - 1:
                raise UnreadableSelect("WINDOW needs a name, AS and parentheses", signs[lo].start)
            found[signs[lo].text.casefold()] = (lo + 3, end)
        return found

    def read(self, lo: int, hi: int) -> Iterator[MvWindow]:
        """The windows of the columns in a range, those of queries inside left out."""
        index = lo
        while index < hi:
            if self._signs[index].kind is TokenType.L_PAREN and self._signs.begins_query(index + 1):
                index = self._signs.partner[index]
            elif self._signs[index].kind is TokenType.OVER:
                yield self._window(index)
            index += 1

    def _window(self, over: int) -> MvWindow:
        place = self._signs.place(over, over + 1)
        begin = over + 1
        if self._signs[begin].kind is not TokenType.L_PAREN:
            return MvWindow(tuple(self._of_name(begin)), place)
        return MvWindow(tuple(self._partition(begin + 1, self._signs.partner[begin])), place)

    def _of_name(self, index: int) -> Iterator[MvComputation]:
        name = self._signs[index].text.casefold()
        if name not in self._named:
            raise UnreadableSelect(f"there is no window '{self._signs[index].text}'", self._signs[index].start)
        yield from self._partition(*self._named[name])

    def _partition(self, lo: int, hi: int) -> Iterator[MvComputation]:
        if lo < hi and self._signs[lo].is_name and self._signs[lo].text.casefold() in self._named:
            yield from self._of_name(lo)
            lo += 1
        begins = self._signs[lo].kind in _PARTITIONS and lo < hi
        if not begins:
            return
        end = next((i for i in self._signs.top_level(lo, hi) if self._signs[i].kind in _ENDS), hi)
        for begin, stop in self._signs.split(lo + 1, end):
            yield self._expressions.value(begin, stop).computation
