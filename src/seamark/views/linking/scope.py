"""Which names can be used at a place of a query, and what they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from seamark.views.model import MvJoinSource, MvReference


@dataclass(frozen=True, slots=True)
class Named:
    """A source by its alias. `columns` is None while nobody knows them."""

    source: MvJoinSource
    columns: tuple[str, ...] | None

    @property
    def alias(self) -> str:
        """Its alias, as names are compared."""
        return self.source.alias.casefold()

    def column(self, name: str) -> str | None:
        """The column of this name as the source writes it, or None."""
        if self.columns is None:
            return name
        wanted = name.casefold()
        return next((column for column in self.columns if column.casefold() == wanted), None)


@dataclass(frozen=True, slots=True)
class Found:
    """What a reference stands for: a column of a source, some queries further out."""

    named: Named
    column: str
    level: int


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a reference stands for nothing: `alias`, `forward`, `column`, or `several`."""

    what: str
    named: Named | None = None
    candidates: tuple[str, ...] = ()


@dataclass
class Scope:
    """The sources that can be named in a query so far, and the query around it."""

    outer: Scope | None = None
    sources: list[Named] = field(default_factory=list)
    later: tuple[str, ...] = ()  # aliases of sources that come later in FROM
    merged: dict[str, int] = field(default_factory=dict)  # columns of USING, with the source that gives them

    def seen(self) -> list[Named]:
        """The sources whose columns can be selected."""
        return [named for named in self.sources if named.source.kind.is_seen]

    def around(self) -> Iterator[tuple[int, Scope]]:
        """This scope and those around it, with how far out each is."""
        level, scope = 0, self
        while True:
            yield level, scope
            if scope.outer is None:
                return
            level, scope = level + 1, scope.outer

    def find(self, reference: MvReference, joined: Named | None, *, strict: bool) -> Found | Trouble | None:
        """What a reference stands for.

        `joined` is the source whose ON is read: it can be named there even where its columns cannot be selected. None
        means that it cannot be known before the columns of all sources are; with `strict` an unknown alias is trouble
        even then.
        """
        trouble: Trouble | None = None
        for level, scope in self.around():
            visible = [n for n in scope.sources if n.source.kind.is_seen or (level == 0 and n is joined)]
            found = scope._qualified(reference, visible, level) or scope._bare(reference, visible, level)
            if isinstance(found, Found):
                return found
            trouble = trouble or found
            if (
                trouble is None
                and any(named.columns is None for named in visible)
                and not (strict and reference.alias is not None)
            ):
                return None
        if trouble is not None:
            return trouble
        if reference.alias is not None:
            forward = any(reference.words[0].casefold() == alias.casefold() for alias in self.later)
            return Trouble("forward" if forward else "alias", None, self._aliases())
        return Trouble("column", None, tuple(c for n in self.seen() for c in n.columns or ()))

    def _aliases(self) -> tuple[str, ...]:
        return tuple(named.source.alias for _, scope in self.around() for named in scope.seen())

    def _qualified(self, reference: MvReference, visible: list[Named], level: int) -> Found | Trouble | None:
        if reference.alias is None:
            return None
        alias = reference.words[0].casefold()
        for named in visible:
            if named.alias == alias:
                column = named.column(reference.words[1])
                if column is None:
                    return Trouble("column", named, named.columns or ())
                return Found(named, column, level)
        return None

    def _bare(self, reference: MvReference, visible: list[Named], level: int) -> Found | Trouble | None:
        name = reference.words[0]
        if name.casefold() in self.merged:
            number = self.merged[name.casefold()]
            named = next(n for n in self.sources if n.source.number == number)
            return Found(named, named.column(name) or name, level)
        known = [n for n in visible if n.columns is not None and n.column(name) is not None]
        unknown = [n for n in visible if n.columns is None]
        if len(known) > 1:
            return Trouble("several", None, tuple(n.source.alias for n in known))
        if known:
            return Found(known[0], known[0].column(name) or name, level)
        if len(unknown) == 1 and len(visible) == 1 and reference.alias is None:
            return Found(unknown[0], name, level)
        return None
