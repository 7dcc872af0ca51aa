"""REFRESH AUTO: a view whose rows could not be found again by their unit is computed as a whole."""

from __future__ import annotations

from dataclasses import replace

from seamark.views.checks.key_checks import owner_issues
from seamark.views.checks.metadata_phase import unit_issues
from seamark.views.model import MvRefresh, MvRefusal, MvTarget
from seamark.views.paths.keys import key_of
from seamark.views.plain_sql.refusals import FULL
from seamark.views.table_info import MvTableInfo


def as_refreshed(target: MvTarget, table: MvTableInfo | None) -> MvTarget:
    """A linked view as it is kept; `table` is the one of its name, if there is one.

    With AUTO, errors about its unit, which a view that is computed as a whole does not have, are why it is one.
    """
    if target.refresh is not MvRefresh.AUTO or target.is_full:
        return target
    errors = [issue for part in target.parts for issue in unit_issues(part)]
    errors += owner_issues(target, key_of(target, None if table is None else table.schema.key)) if not errors else ()
    if not errors:
        return target
    first = target.parts[0]
    why = tuple(MvRefusal(error.message, FULL, first.leftmost.place) for error in errors)
    return target.with_parts((replace(first, refusals=why), *target.parts[1:]))
