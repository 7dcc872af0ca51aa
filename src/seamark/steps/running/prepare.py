"""Preparing a step's tables for a run: declared columns are added, and inputs without a chain get an empty one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from seamark.control import TableHead
from seamark.ledger import DatasetKind
from seamark.steps.running.commit import Maker
from seamark.steps.standing.known import Known
from seamark.tables.context import TableContext
from seamark.tables.read.source import TableSource
from seamark.tables.schema.growth import grow_declared
from seamark.tables.write.publish import new_chain_heads, plan_unwritten
from seamark.tables.write.transaction import Transaction
from seamark.tables.write.writing import Writing

Makers = Mapping[str, Maker]
"""The step that writes each derived table."""


def prepare_tables(context: TableContext, run: Writing, maker: Maker, makers: Makers, known: Known) -> Known:
    """Prepare a step's tables for a run, and return what is known of them afterwards.

    Commits columns that the program adds. An input without a chain gets an empty one, because a commit names its inputs
    by their ids. That chain is committed with the run's next commit, so that a run that fails leaves no table behind.
    """
    if grow_declared(all_tables(maker), known.heads):
        known = Known.of(context)
    run.new_chains.clear()  # from an earlier attempt of the run, which planned on other heads
    heads = dict(known.heads)
    for source in maker.sources.values():
        _begin(context, run, source, makers, heads)
    return replace(known, heads=heads) if run.new_chains else known


def all_tables(maker: Maker) -> list[TableSource]:
    """The tables that a step reads or writes."""
    return [*maker.sources.values(), *maker.written]


def _begin(
    context: TableContext, run: Writing, source: TableSource, makers: Makers, heads: dict[str, TableHead]
) -> None:
    if source.name in heads:
        return
    maker = makers.get(source.name)
    for behind in maker.sources.values() if maker is not None else ():
        _begin(context, run, behind, makers, heads)
    beginning = Transaction(context, run)  # committed with the run's next commit
    part = beginning.table(source, plan_unwritten(context, source.name))
    if maker is None:
        part.draft(DatasetKind.ROOT)
    else:
        ids = {table: heads[table].dataset_id for table in maker.sources}
        part.draft(DatasetKind.DERIVATIVE, maker.definition.set_transform(ids))
    run.new_chains += beginning.drafts
    heads.update(new_chain_heads(run))
