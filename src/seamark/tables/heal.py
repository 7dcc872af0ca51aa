"""Opening a warehouse beside a database: heads that lag are brought up, heads that do not fit are refused."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from seamark.control import TableHead
from seamark.errors import HeadMismatch
from seamark.ledger.objects import ChainFiles
from seamark.tables.context import TableContext
from seamark.tables.publish import mirror_head
from seamark.tables.rebuild import chain_folders

log = logging.getLogger("seamark.store")


@dataclass(frozen=True, slots=True)
class Healed:
    """A `refs/head` that lagged behind the database and was brought up to it."""

    table: str
    found: str | None
    head: str


def heal_heads(context: TableContext) -> tuple[Healed, ...]:
    """Bring each `refs/head` up to the database; `HeadMismatch`, with nothing changed, if the two do not fit."""
    lagging = _lagging_heads(context)  # all of them are looked at before one is changed
    for healed in lagging:
        mirror_head(context, context.files(healed.table), healed.table)
        log.warning("refs/head of '%s' lagged behind the database and was brought up to it", healed.table)
    return tuple(lagging)


def _lagging_heads(context: TableContext) -> list[Healed]:
    heads = context.control.index.heads()
    lagging, seen = [], set()
    for folder in chain_folders(context.warehouse):
        seen.add(folder.name)
        found, head = ChainFiles(folder).head(), heads.get(folder.name)
        if head is None or found != head.head_hash:
            head = _check_ancestor(context, folder.name)
        if found != head.head_hash:
            lagging.append(Healed(folder.name, found, head.head_hash))
    for name, head in heads.items():
        if name not in seen:
            _check_chain_is_there(context, name, head)
            lagging.append(Healed(name, None, head.head_hash))
    return lagging


def _check_ancestor(context: TableContext, name: str) -> TableHead:
    # The folder is read before the database: a commit in between moves the database first, never the folder.
    found = ChainFiles(context.warehouse / name).head()
    head = context.control.index.head(name)
    is_known = found is None or context.control.index.block_at(name, found) is not None
    if head is None or not is_known:
        known = head.head_hash if head else "no such table"
        raise HeadMismatch(
            f"table '{name}': refs/head in {context.warehouse} is {found}, and the control database "
            f"{context.control.database.shown_url} has {known}, whose chain does not hold it. "
            "The database is older than the warehouse, or another's. Nothing was changed.",
            hint="open the right database, or build it again from the chains with `seamark doctor --rebuild`.",
        )
    return head


def _check_chain_is_there(context: TableContext, name: str, head: TableHead) -> None:
    if not context.files(name).blocks.has(head.head_hash):
        raise HeadMismatch(
            f"table '{name}': the control database {context.control.database.shown_url} has head {head.head_hash}, "
            f"and {context.warehouse} has no such block. Nothing was changed.",
            hint="open the warehouse that belongs to this database, or restore it from a copy.",
        )
