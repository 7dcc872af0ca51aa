"""What the tests of views share: the tables of a shop, and short ways from a text to its model."""

from __future__ import annotations

from seamark.tables.schema.table_schema import declare
from seamark.views.language.script import Reading, read_script, read_view
from seamark.views.linking.link import link_part
from seamark.views.model import MvTarget
from seamark.views.paths.actions import Paths, paths_of
from seamark.views.table_info import KnownTables, MvTableInfo


def table(name: str, columns: str, key: str | list[str] | None, **feeds: tuple[str, ...]) -> MvTableInfo:
    """A table's metadata, as `ds.table` would declare it."""
    return MvTableInfo(name, declare(name, columns, key, None), {"log": (), **feeds})


SHOP = KnownTables.of(
    table("orders", "id long, customer_id long, note string", "id"),
    table("customer", "id long, name string, region_id long", "id"),
    table("region", "id long, title string, country string", "id"),
    table("order_ext", "order_id long, memo string", "order_id"),
    table("payment", "pay_id long, order_id long, kind string, amount long, paid double", "pay_id"),
    table("settings", "code long, value string, tags array<string>", "code"),
    table("employee", "id long, name string, manager_id long", "id"),
    table("line", "order_id long, no int, product string, kind string", ["order_id", "no"]),
    table("line_ext", "order_id long, line_no int, memo string", ["order_id", "line_no"]),
    table("clicks", "url string, user_id long", None),
)


def only_target(text: str) -> MvTarget:
    """The one view of a script that can be read, not linked."""
    reading = read_script(text)
    assert not reading.issues, "\n".join(map(str, reading.issues))
    (target,) = reading.targets
    return target


def linked(text: str, tables: KnownTables = SHOP) -> MvTarget:
    """The one view of a script, linked without an issue; a text that begins with SELECT or WITH is the view `v`."""
    return linked_reading(_reading(text), tables)


def linked_reading(reading: Reading, tables: KnownTables = SHOP) -> MvTarget:
    """The one view of a reading, linked without an issue."""
    assert not reading.issues, "\n".join(map(str, reading.issues))
    (target,) = reading.targets
    found = [link_part(part, tables, strict=target.is_document) for part in target.parts]
    issues = [issue for each in found for issue in each.issues]
    assert not issues, "\n".join(map(str, issues))
    return target.with_parts(tuple(each.part for each in found))


def _reading(text: str) -> Reading:
    return read_view("v", text) if text.lstrip().upper().startswith(("SELECT", "WITH")) else read_script(text)


def paths(text: str, tables: KnownTables = SHOP) -> Paths:
    """The paths of the only part of a view."""
    (part,) = linked(text, tables).parts
    return paths_of(part)
