"""What is said of a diff when it is declared: refusals, and warnings of what may be a mistake."""

from __future__ import annotations

import logging

from seamark.diffs.declare.spec import DiffSpec
from seamark.errors import InvalidStep, SeamarkWarning, warn

log = logging.getLogger("seamark.diffs")


class DiffWarning(SeamarkWarning):
    """Something about a diff that may be meant, and may be a mistake."""


def refused(name: str, what: str, hint: str | None = None) -> InvalidStep:
    """The error that refuses a diff, by its name."""
    return InvalidStep(f"diff '{name}': {what} It was not added.", hint=hint)


def _warn(text: str) -> None:
    warn(log, text, DiffWarning, stacklevel=5)


def warn_of_timeless_logs(spec: DiffSpec) -> None:
    """Say which logs cannot show by themselves that one of their records comes too late."""
    if spec.ttl is None:
        return
    for entry in spec.logs:
        if not entry.has(spec.ttl.column):
            fate = "counted as too late, and not written"
            if entry.number == 1:
                fate = "counted as too late unless they bring a newer version"
            _warn(
                f"diff '{spec.name}': log '{entry.name}' does not have the time to live's column '{spec.ttl.column}', "
                f"so its records have no time of their own: those of a visit that has grown too old are {fate}."
            )


def warn_of_sums(spec: DiffSpec) -> None:
    """Say which columns are summed over several logs."""
    for column in spec.columns:
        feeding = [f"'{entry.name}'" for entry in spec.logs if entry.has(column.name)]
        if column.rule == "sum" and len(feeding) > 1:
            _warn(
                f"diff '{spec.name}': column '{column.name}' is summed over {len(feeding)} logs, "
                f"{' and '.join(feeding)}: what is in both of them counts twice."
            )
