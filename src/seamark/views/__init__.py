"""Materialized views: one model, two front ends, checks, and the ways from changes to rows."""

from seamark.views.context import MvContext, MvHandler, MvHandlerView, MvInput
from seamark.views.issues import MvIssue, MvIssues
from seamark.views.model import (
    MvColumn,
    MvComputation,
    MvJoinCondition,
    MvJoinKind,
    MvJoinSource,
    MvLiteral,
    MvPart,
    MvQuery,
    MvReference,
    MvRefresh,
    MvTarget,
    MvUnitKind,
)
from seamark.views.paths.actions import (
    Action,
    ActionEveryKey,
    ActionKeysGrab,
    ActionKeysTransform,
    ActionSync,
    PathKind,
)
from seamark.views.paths.units import MvUnit
from seamark.views.table_info import MvKey, MvKeyInfo, MvKeyPrefix, MvTableInfo

__all__ = [
    "Action",
    "ActionEveryKey",
    "ActionKeysGrab",
    "ActionKeysTransform",
    "ActionSync",
    "MvColumn",
    "MvComputation",
    "MvContext",
    "MvHandler",
    "MvHandlerView",
    "MvInput",
    "MvIssue",
    "MvIssues",
    "MvJoinCondition",
    "MvJoinKind",
    "MvJoinSource",
    "MvKey",
    "MvKeyInfo",
    "MvKeyPrefix",
    "MvLiteral",
    "MvPart",
    "MvQuery",
    "MvReference",
    "MvRefresh",
    "MvTableInfo",
    "MvTarget",
    "MvUnit",
    "MvUnitKind",
    "PathKind",
]
