"""Comparing a warehouse with its control database on opening: heads that lag are updated, others refused."""

from __future__ import annotations

import errno
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile

from seamark.control import TableHead
from seamark.errors import HeadMismatch, LedgerError
from seamark.ledger.chain import walk_back
from seamark.ledger.objects import ChainFiles
from seamark.tables.care.rebuild import chain_folders
from seamark.tables.context import TableContext
from seamark.tables.write.publish import mirror_head

log = logging.getLogger("seamark.store")


@dataclass(frozen=True, slots=True)
class Healed:
    """A `refs/head` that lagged behind the database and was updated."""

    table: str
    found: str | None
    head: str


def heal_heads(context: TableContext) -> tuple[Healed, ...]:
    """Bring each `refs/head` up to the database, and return those that were updated.

    `HeadMismatch`, with nothing changed, if the two do not belong together. A file without write permission is left as
    it is: the database decides which block is the head.
    """
    lagging = _lagging_heads(context)  # all are checked before any is changed
    return tuple(healed for healed in lagging if _heal(context, healed))


def _heal(context: TableContext, healed: Healed) -> bool:
    try:
        mirror_head(context, context.files(healed.table), healed.table)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR):
            raise
        log.info("refs/head of '%s' lags behind the database, and cannot be written: %s", healed.table, error)
        return False
    log.warning("refs/head of '%s' lagged behind the database and was updated", healed.table)
    return True


def _lagging_heads(context: TableContext) -> list[Healed]:
    heads = context.control.index.heads()
    _check_warehouse_is_there(context, heads)
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
    # The folder is read before the database: a commit moves the database first, so the head found is never newer.
    found = ChainFiles(context.warehouse / name).head()
    head = context.control.index.head(name)
    if head is None or (found is not None and not _is_ancestor(context.files(name), head.head_hash, found)):
        known = f"has {head.head_hash}, whose chain does not hold it" if head else "has no such table"
        raise HeadMismatch(
            f"table '{name}': refs/head in {context.warehouse} is {found}, and the control database "
            f"{context.control.database.shown_url} {known}. "
            "The database is older than the warehouse, or another's. Nothing was changed.",
            hint="open the right database, or build it again from the chains with `seamark doctor --rebuild`.",
        )
    return head


def _is_ancestor(files: ChainFiles, head: str, found: str) -> bool:
    """Whether the chain that ends with `head` holds a block, by the chain's own files alone.

    Not by the database's index: it may be wrong, and overwriting `refs/head` would lose the chain that it leads to.
    """
    try:
        oldest = files.block(found).sequence_number
        blocks = takewhile(lambda entry: entry[1].sequence_number >= oldest, walk_back(files, head))
        return any(name == found for name, _ in blocks)
    except (LedgerError, OSError):
        return False


def _check_warehouse_is_there(context: TableContext, heads: Mapping[str, TableHead]) -> None:
    """Refuse a missing warehouse if the database knows tables in it: most likely a disk is not mounted."""
    if heads and not context.warehouse.is_dir():
        raise HeadMismatch(
            f"the warehouse folder {context.warehouse} is not there, and the control database "
            f"{context.control.database.shown_url} knows {len(heads)} tables in it. Nothing was changed.",
            hint="mount or restore the folder, or correct `warehouse`: `seamark doctor` shows where it is set.",
        )


def _check_chain_is_there(context: TableContext, name: str, head: TableHead) -> None:
    if not context.files(name).blocks.has(head.head_hash):
        raise HeadMismatch(
            f"table '{name}': the control database {context.control.database.shown_url} has head {head.head_hash}, "
            f"and {context.warehouse} has no such block. Nothing was changed.",
            hint="open the warehouse that belongs to this database, or restore it from a copy.",
        )
