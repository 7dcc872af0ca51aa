"""Seamark keeps derived tables up to date on Spark: only what changed, exactly once, and rows can be traced back."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seamark import ledger
    from seamark.diffs.diff import Diff
    from seamark.diffs.suppliers import FastSupplier
    from seamark.errors import SeamarkError, ViewError
    from seamark.ledger import Op
    from seamark.ledger.verify import Finding, VerifyReport
    from seamark.sinks.clickhouse import ClickHouseSink
    from seamark.sinks.plan import SinkPlan
    from seamark.sinks.report import SinkReport
    from seamark.sinks.run import Sink
    from seamark.spark import spark_session
    from seamark.steps.past.why import Provenance
    from seamark.steps.rows.changelist import ChangeList
    from seamark.steps.running.report import RunReport, StepPlan, StepReport
    from seamark.steps.running.run_config import RunConfig
    from seamark.store import DataStore
    from seamark.tables import Commit, Head, Table
    from seamark.transforms.declare.declaration import BatchTransform, ComputeInput, JoinSpec
    from seamark.transforms.step import Step
    from seamark.views.issues import MvIssue, MvIssues
    from seamark.views.view import View

__version__ = "0.1.0"

__all__ = [
    "BatchTransform",
    "ChangeList",
    "ClickHouseSink",
    "Commit",
    "ComputeInput",
    "DataStore",
    "Diff",
    "FastSupplier",
    "Finding",
    "Head",
    "JoinSpec",
    "MvIssue",
    "MvIssues",
    "Op",
    "Provenance",
    "RunConfig",
    "RunReport",
    "SeamarkError",
    "Sink",
    "SinkPlan",
    "SinkReport",
    "Step",
    "StepPlan",
    "StepReport",
    "Table",
    "VerifyReport",
    "View",
    "ViewError",
    "ledger",
    "spark_session",
]

# Where each name is at home. It is fetched when it is first used: `seamark --help` need not wait for all of them.
_HOMES = {
    "BatchTransform": "seamark.transforms.declare.declaration",
    "ChangeList": "seamark.steps.rows.changelist",
    "ClickHouseSink": "seamark.sinks.clickhouse",
    "Commit": "seamark.tables",
    "ComputeInput": "seamark.transforms.declare.declaration",
    "DataStore": "seamark.store",
    "Diff": "seamark.diffs.diff",
    "FastSupplier": "seamark.diffs.suppliers",
    "Finding": "seamark.ledger.verify",
    "Head": "seamark.tables",
    "JoinSpec": "seamark.transforms.declare.declaration",
    "MvIssue": "seamark.views.issues",
    "MvIssues": "seamark.views.issues",
    "Op": "seamark.ledger",
    "Provenance": "seamark.steps.past.why",
    "RunConfig": "seamark.steps.running.run_config",
    "RunReport": "seamark.steps.running.report",
    "SeamarkError": "seamark.errors",
    "Sink": "seamark.sinks.run",
    "SinkPlan": "seamark.sinks.plan",
    "SinkReport": "seamark.sinks.report",
    "Step": "seamark.transforms.step",
    "StepPlan": "seamark.steps.running.report",
    "StepReport": "seamark.steps.running.report",
    "Table": "seamark.tables",
    "VerifyReport": "seamark.ledger.verify",
    "View": "seamark.views.view",
    "ViewError": "seamark.errors",
    "spark_session": "seamark.spark",
}


def __getattr__(name: str) -> object:
    if name == "ledger":
        return importlib.import_module("seamark.ledger")
    if name not in _HOMES:
        raise AttributeError(f"module 'seamark' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
