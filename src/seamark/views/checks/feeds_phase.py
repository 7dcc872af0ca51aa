"""What can be said of handlers once their tables are known: inputs, changefeeds and consumers."""

from __future__ import annotations

from collections.abc import Iterator

from seamark.errors import did_you_mean
from seamark.views.context import MvContext, MvHandler
from seamark.views.issues import MvIssue, issue_at
from seamark.views.model import MvTarget
from seamark.views.table_info import Tables


def input_issues(handler: MvHandler, tables: Tables) -> Iterator[MvIssue]:
    """Inputs of tables that are not there; they belong to the phase `metadata`."""
    for found in handler.inputs:
        if found.table not in tables.names():
            hint = did_you_mean(found.table, tables.names(), "tables")
            message = f"there is no table '{found.table}'; {hint}"
            yield issue_at("UnknownInputTable", message, handler.script, found.place)


def dictionary_issues(target: MvTarget, tables: Tables) -> Iterator[MvIssue]:
    """Dictionaries that a view was given and does not read, or that are no tables."""
    for name in target.dictionaries:
        if name not in tables.names():
            hint = did_you_mean(name, tables.names(), "tables")
            message = f"view '{target.name}' has the dictionary '{name}', which is no table; {hint}"
            yield issue_at("UnknownInputTable", message, target.script, target.place)
        elif name not in target.tables:
            message = f"view '{target.name}' has the dictionary '{name}', which it does not read"
            yield issue_at("UselessInput", message, target.script, target.place)


def feed_issues(handler: MvHandler, context: MvContext, tables: Tables) -> Iterator[MvIssue]:
    """The issues of the phase `feeds`."""
    for found in handler.inputs:
        info = tables.find(found.table)
        if info is None:
            continue
        consumers = info.changefeeds.get(found.changefeed)
        if consumers is None:
            hint = did_you_mean(found.changefeed, sorted(info.changefeeds), "changefeeds")
            message = f"table '{found.table}' has no changefeed '{found.changefeed}'; {hint}"
            yield issue_at("UnknownChangefeed", message, handler.script, found.feed_place)
        elif handler.consumer is not None and handler.consumer not in consumers:
            hint = did_you_mean(handler.consumer, consumers, "consumers")
            message = f"changefeed '{found.changefeed}' of '{found.table}' has no consumer '{handler.consumer}'; {hint}"
            yield issue_at("MissingConsumer", message, handler.script, found.feed_place)
    yield from _inputs_and_views(handler, context)


def _inputs_and_views(handler: MvHandler, context: MvContext) -> Iterator[MvIssue]:
    targets = [(view, context.target(view.name)) for view in handler.processed]
    read = {table for _, target in targets if target is not None for table in target.tables}
    missing: set[str] = set()
    for view, target in targets:
        for table in target.tables if target is not None else ():
            if handler.input(table) is None and table not in missing:
                missing.add(table)
                message = f"handler '{handler.name}' has no INPUT for '{table}' of view '{view.name}': it is a stream"
                yield issue_at("MissingInput", message, handler.script, view.place)
    for found in handler.inputs:
        if found.table not in read:
            message = f"no view of handler '{handler.name}' reads '{found.table}'"
            yield issue_at("UselessInput", message, handler.script, found.place)
