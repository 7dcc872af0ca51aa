"""Verifying tables of a store: their chains, what the control database says of them, and what they were made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from seamark.control import Row, Snapshot
from seamark.errors import ControlError
from seamark.ledger.objects import ChainFiles
from seamark.ledger.verify import Finding, OnBlock, StoredChain, VerifyReport, read_chain, verify_stored
from seamark.tables.care.chain_facts import ChainFacts, LostCheckpoint, failures_of, positions_of, step_of
from seamark.tables.care.rebuild import chain_folders
from seamark.tables.context import TableContext
from seamark.tables.verify.bases import check_bases
from seamark.tables.verify.control import (
    check_covered_keys,
    check_failed_keys,
    check_head,
    check_index,
    check_positions,
    check_sinks,
    check_strays,
)
from seamark.tables.verify.heads import check_expected
from seamark.tables.verify.inputs import check_inputs
from seamark.tables.verify.rows import check_rows


@dataclass
class Verification:
    """What is known while tables are verified: the database at one moment, and the chains that were read."""

    context: TableContext
    snapshot: Snapshot
    tables: tuple[str, ...]
    is_whole: bool  # all tables of the store, so that what belongs to none of them can be found
    facts: dict[str, ChainFacts] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    blocks: int = 0

    @property
    def heads(self) -> dict[str, Row]:
        """The rows of all heads, by table."""
        return {str(row["table_name"]): row for row in self.snapshot.heads}

    @property
    def derived(self) -> list[ChainFacts]:
        """The verified tables that a step makes."""
        return [self.facts[table] for table in self.tables if table in self.facts and self.facts[table].eras]

    def look(self, table: str, check: Callable[[], Iterable[Finding]]) -> None:
        """Take the findings of a check. One that cannot be made is a finding, and the others are made all the same."""
        self.attempt(table, lambda: self.findings.extend(check()))

    def attempt(self, table: str, work: Callable[[], None]) -> None:
        """Do a part of the work. If it cannot be done that is a finding, and the rest is done all the same."""
        try:
            work()
        except ControlError:
            raise  # without its database nothing of the store can be verified
        except Exception as error:
            text = f"table '{table}': a check could not be made: {type(error).__name__}: {error}"
            self.findings.append(Finding(table, None, "unverifiable", "a check", type(error).__name__, text))


def verify_tables(
    context: TableContext,
    table: str | None = None,
    *,
    rows: bool = False,
    replays: bool = False,
    expect: Mapping[str, str] | None = None,
    on_block: OnBlock | None = None,
) -> VerifyReport:
    """Verify one table or all: chains with their files, the control database's rows, and inputs against each other.

    `rows` compares bases with the log; `replays` does so for all tables that computing again will read. `expect` has
    blocks, by table, that the chains must hold.
    """
    snapshot = context.control.snapshots.now()
    known = sorted(str(row["table_name"]) for row in snapshot.heads)
    tables = tuple(known) if table is None else (table,)
    work = Verification(context, snapshot, tables, is_whole=table is None)
    for name in tables:
        if name in work.heads:
            work.attempt(name, partial(_verify_table, work, name, on_block, rows=rows or replays))
    for name in _related(work):
        work.attempt(name, partial(_read_facts, work, name, rows=replays))
    _verify_together(work)
    if expect is not None:
        chains = {name: facts.places for name, facts in work.facts.items()}
        wanted = tables if table is not None else [*tables, *expect]
        work.look("", lambda: check_expected(expect, chains, wanted))
    return VerifyReport(work.blocks, tuple(work.findings))


def _verify_table(work: Verification, table: str, on_block: OnBlock | None, *, rows: bool) -> None:
    """A table by itself: its chain and files, its head, its index, its bases."""
    row, files = work.heads[table], work.context.files(table)
    chain = read_chain(table, files, str(row["head_hash"]))
    report = verify_stored(chain, on_block)
    work.blocks += report.blocks
    work.findings += report.findings
    work.look(table, lambda: _check_folder(work, files, chain))
    facts = _facts(chain)
    work.facts[table] = facts
    snapshots = work.context.control.snapshots
    work.look(table, lambda: check_head(facts, row))
    is_whole = facts.head is not None
    work.look(table, lambda: check_index(snapshots, table, chain.blocks, is_whole=is_whole))
    bases = [base for base in work.snapshot.bases if base["table_name"] == table]
    work.look(table, lambda: check_bases(facts, bases))
    if rows:
        work.look(table, lambda: check_rows(work.context, chain))


def _facts(chain: StoredChain) -> ChainFacts:
    return ChainFacts.of(chain.table, chain.files, ((stored.name, stored.block) for stored in chain.blocks))


def _check_folder(work: Verification, files: ChainFiles, chain: StoredChain) -> Sequence[Finding]:
    """The two texts beside the objects: the name, and the head for readers of the folder without the database."""
    findings = []
    table, alias = chain.table, files.alias()
    if alias != table and not (alias is None and files.head() is None):  # both are written after the first commit
        text = f"table '{table}': its folder says that it is the table '{alias}'. Write its name into info/alias."
        findings.append(Finding(table, None, "alias", table, str(alias), text))
    if (files.folder / "refs" / "head").is_dir():  # everything else is written again when the store is opened
        text = f"table '{table}': where its refs/head should be is a folder. Remove it, and open the store."
        findings.append(Finding(table, None, "refs/head", "a text", "a folder", text))
    head, names = files.head(), {stored.name for stored in chain.blocks}
    # One that lags is updated when the store is opened; one that leads with the database is a commit just made.
    if head is not None and head not in names and head != work.context.control.snapshots.head_hash(table):
        newest = chain.blocks[-1].name if chain.blocks else "no block"
        text = f"table '{table}': its refs/head names {head}, which is not a block of its chain up to {newest}."
        findings.append(Finding(table, None, "refs/head", newest, head, text))
    return findings


def _related(work: Verification) -> list[str]:
    """The tables whose chains must be known to judge the verified ones: inputs, and other outputs of the same steps."""
    wanted: set[str] = set()
    steps = {era.step for facts in work.derived for era in facts.eras if era.step is not None}
    for facts in work.derived:
        for era in facts.eras:
            wanted.update(era.inputs)
            ids = set(era.inputs.values())
            wanted.update(table for table, row in work.heads.items() if row["dataset_id"] in ids)
    wanted.update(table for table, row in work.heads.items() if _made_by(work, table, row) in steps and steps)
    return sorted(table for table in wanted if table in work.heads and table not in work.facts)


def _made_by(work: Verification, table: str, row: Row) -> str | None:
    if table in work.facts or row["transform_block"] is None:
        return None
    try:
        return step_of(work.context.files(table).block(str(row["transform_block"])).event)
    except Exception:
        return None  # its own verification finds what is wrong with the block


def _read_facts(work: Verification, table: str, *, rows: bool) -> None:
    """The chain of a table that is not verified itself."""
    chain = read_chain(table, work.context.files(table), str(work.heads[table]["head_hash"]))
    work.facts[table] = _facts(chain)
    if rows:
        work.look(table, lambda: check_rows(work.context, chain))


def _verify_together(work: Verification) -> None:
    """What needs more than one chain: inputs, positions, failed keys; and rows that belong to no table."""
    snapshot, every = work.snapshot, list(work.facts.values())
    inputs = {facts.dataset_id: facts for facts in every if facts.dataset_id is not None}
    for derived in work.derived:
        work.look(derived.table, lambda derived=derived: check_inputs(derived, inputs))  # type: ignore[misc]
    outputs = {era.step: facts.table for facts in work.derived for era in facts.eras if era.step is not None}

    def ours(rows: Iterable[Row]) -> list[Row]:
        return [row for row in rows if work.is_whole or row["transformation_id"] in outputs]

    positions = {pair: at for pair, at in positions_of(every).items() if pair[0] in outputs}
    folding = {era.step for facts in work.derived for era in facts.eras if era.step is not None and era.takes_once}
    work.look("", lambda: check_positions(positions, ours(snapshot.positions), outputs, folding))
    failures = failures_of(every)
    lost = {entry.step for entry in failures.lost}
    work.findings += [_lost(entry) for entry in failures.lost if entry.is_intact and entry.table in work.tables]
    failed = {pair: key for pair, key in failures.failed.items() if pair[0] in outputs}
    keys = [row for row in ours(snapshot.keys) if row["transformation_id"] not in lost]
    work.look("", lambda: check_failed_keys(failed, [row for row in keys if not row["is_success"]], outputs))
    work.look("", lambda: check_covered_keys([row for row in keys if row["is_success"]], every))
    newest = {table: row["sequence"] for table, row in work.heads.items() if isinstance(row["sequence"], int)}
    sinks = [row for row in snapshot.sinks if work.is_whole or row["table_name"] in work.tables]
    work.look("", lambda: check_sinks(sinks, newest))
    if work.is_whole:
        _verify_strays(work)


def _lost(entry: LostCheckpoint) -> Finding:
    text = (
        f"table '{entry.table}', block {entry.block}: its checkpoint {entry.checkpoint} says nothing that can be used: "
        f"{entry.reason}. The failed keys of step '{entry.step}' cannot be compared."
    )
    return Finding(entry.table, entry.block, "unreadable checkpoint", "a checkpoint", entry.reason, text)


def _verify_strays(work: Verification) -> None:
    """Rows and folders of tables that the database has no head for."""
    indexed = [{"table_name": table} for table in work.snapshot.indexed]
    work.look("", lambda: check_strays(indexed, work.heads, "blocks in its index"))
    work.look("", lambda: check_strays(work.snapshot.bases, work.heads, "a base"))
    for folder in chain_folders(work.context.warehouse):
        if folder.name not in work.heads:
            text = f"table '{folder.name}': the warehouse has its chain, and the control database does not know it."
            work.findings.append(Finding(folder.name, None, "head row", "a head", "no row", text))
