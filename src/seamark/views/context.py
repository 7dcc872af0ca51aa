"""What was loaded: views, and the handlers that keep them, as frozen values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from seamark.views.model import MvTarget
from seamark.views.places import MvScript


@dataclass(frozen=True, slots=True)
class MvInput:
    """A table that a handler follows, by one of its changefeeds; a batch input is a dictionary."""

    table: str
    changefeed: str
    is_batch: bool
    place: int
    feed_place: int = 0


@dataclass(frozen=True, slots=True)
class MvHandlerView:
    """A view that a handler processes, and where that is written."""

    name: str
    place: int


@dataclass(frozen=True)
class MvHandler:
    """A job: views, and the tables whose changes are followed for them."""

    name: str
    script: MvScript
    place: int
    processed: tuple[MvHandlerView, ...] = ()
    inputs: tuple[MvInput, ...] = ()
    consumer: str | None = None

    @property
    def views(self) -> tuple[str, ...]:
        """The names of its views."""
        return tuple(view.name for view in self.processed)

    def input(self, table: str) -> MvInput | None:
        """The input that follows a table, or None."""
        return next((found for found in self.inputs if found.table == table), None)


@dataclass(frozen=True)
class MvContext:
    """All that was loaded: views and handlers, in the order of their scripts."""

    targets: tuple[MvTarget, ...] = ()
    handlers: tuple[MvHandler, ...] = ()

    @cached_property
    def _by_name(self) -> dict[str, MvTarget]:
        return {target.name: target for target in reversed(self.targets)}

    def target(self, name: str) -> MvTarget | None:
        """The view of this name, or None."""
        return self._by_name.get(name)

    def in_order(self) -> Iterator[MvTarget]:
        """The views, each after those that it reads."""
        done: set[str] = set()

        def visit(target: MvTarget) -> Iterator[MvTarget]:
            if target.name in done:
                return
            done.add(target.name)
            for table in target.tables:
                read = self.target(table)
                if read is not None:
                    yield from visit(read)
            yield target

        for target in self.targets:
            yield from visit(target)

    def handler(self, name: str) -> MvHandler | None:
        """The handler of this name, or None."""
        return next((handler for handler in self.handlers if handler.name == name), None)

    def handler_of(self, view: str) -> MvHandler | None:
        """The handler that processes a view, or None."""
        return next((handler for handler in self.handlers if view in handler.views), None)
