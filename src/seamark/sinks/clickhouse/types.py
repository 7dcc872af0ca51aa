"""What an existing column of ClickHouse must be to take the values of ours."""

from __future__ import annotations

import re

# The whole numbers that each type holds. A column of any of these takes ours: what does not fit is looked for in every
# block before it is sent.
_WHOLE_NUMBERS: dict[str, tuple[int, int]] = {
    **{f"Int{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64, 128, 256)},
    **{f"UInt{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64, 128, 256)},
}

# What a column of the first type may also be in a table that somebody else made: everything that holds its values.
_WIDER: dict[str, tuple[str, ...]] = {
    "UInt8": ("Bool",),
    "Bool": ("UInt8",),
    "Float32": ("Float64",),
}
_DECIMAL = re.compile(r"Decimal\((\d+), ?(\d+)\)")
_DATETIME = re.compile(r"DateTime64\((\d)(?:, ?'([^']*)')?\)")
_UTC = {"UTC", "UCT", "Universal", "Zulu", "GMT", "GMT0", "GMT+0", "GMT-0", "Greenwich"}


def fits(ours: str, theirs: str) -> bool:
    """Whether a column of their type holds the values of our type as they are; whole numbers within `range_of`."""
    ours, theirs = _plain(ours), _without("LowCardinality", _plain(theirs))
    if ours.startswith("Nullable("):
        return theirs.startswith("Nullable(") and fits(_without("Nullable", ours), _without("Nullable", theirs))
    theirs = _without("Nullable", theirs)
    if ours == theirs or theirs in _WIDER.get(ours, ()) or {ours, theirs} <= _WHOLE_NUMBERS.keys():
        return True
    return _decimal_fits(ours, theirs) or _moment_fits(ours, theirs)


def shifts(theirs: str, zone: str) -> bool:
    """Whether a column of their type shows a wall clock's time, which is sent as UTC, as another one.

    `zone` is that of the server: it counts for columns that have none.
    """
    found = _DATETIME.fullmatch(_without("Nullable", _plain(theirs)))
    return found is not None and (found[2] or zone).removeprefix("Etc/") not in _UTC


def range_of(ours: str, theirs: str) -> tuple[int, int] | None:
    """The whole numbers that a column of their type holds, if it does not hold all of ours; else None."""
    here = _WHOLE_NUMBERS.get(_without("Nullable", _plain(ours)))
    there = _WHOLE_NUMBERS.get(_without("Nullable", _without("LowCardinality", _plain(theirs))))
    if here is None or there is None or (there[0] <= here[0] and here[1] <= there[1]):
        return None
    return there


def _plain(name: str) -> str:
    """A type's name without the line breaks and quotes that ClickHouse writes or leaves out as it likes."""
    return re.sub(r"\s+", " ", name).replace("( ", "(").replace("`", "")


def _without(wrapper: str, name: str) -> str:
    return name[len(wrapper) + 1 : -1] if name.startswith(f"{wrapper}(") else name


def _decimal_fits(ours: str, theirs: str) -> bool:
    here, there = _DECIMAL.fullmatch(ours), _DECIMAL.fullmatch(theirs)
    if here is None or there is None:
        return False
    whole, whole_there = int(here[1]) - int(here[2]), int(there[1]) - int(there[2])
    return whole <= whole_there and int(here[2]) <= int(there[2])


def _moment_fits(ours: str, theirs: str) -> bool:
    """Any zone will do, for a zone is only how a moment is shown (but see `shifts`); nanoseconds would end in 2262."""
    there = _DATETIME.fullmatch(theirs)
    return _DATETIME.fullmatch(ours) is not None and there is not None and 6 <= int(there[1]) <= 8
