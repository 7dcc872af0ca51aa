"""The records that lead from what is known of a visit to what comes: the document's six blocks, and what it left open.

The invariant behind all of them: for each visit that the slow supplier knows, its records sum to -1 at (0, F), where
they take back the fast supplier's last version, and to +1 at (S, F), where its own version is instead. For each
visit that it does not know they sum to 0 everywhere, or to -1 at a version that the fast supplier has left behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

State = Mapping[str, Column]
"""The columns of a state by name; the empty state has none."""

EMPTY: State = {}


@dataclass(frozen=True)
class Fast:
    """A version of the fast supplier's, and the columns that only it has, as a struct; None if there are none."""

    version: Column
    wide: Column | None = None


@dataclass(frozen=True)
class Side:
    """What is known of a visit on one side: its slow and its fast version, and its state."""

    slow: Column
    fast: Fast
    state: State


@dataclass(frozen=True)
class Line:
    """One record of the diff: its sign, its versions and its state, and the condition under which a visit gets it.

    `block` is its number in the document's table; those from 7 on are not in it.
    """

    block: int
    sign: int
    slow: Column
    fast: Fast
    state: State
    condition: Column


def six_blocks(old: Side, new: Side, merged: State) -> tuple[Line, ...]:
    """The document's table, line by line, for news that is not older than what is known.

    `merged` is the new state laid over the old one. Of a visit that is not known the fast version is NULL; it begins
    at the new side's slow version, which is 1 unless the visit was there before.
    """
    old_f, new_f = old.fast.version, new.fast.version
    known, moved_on, unknown = old_f <= new_f, old_f < new_f, old_f.isNull()
    none = F.lit(0).cast("bigint")
    return (
        Line(1, -1, old.slow, old.fast, old.state, known),
        Line(2, +1, old.slow + 1, new.fast, merged, known),
        Line(3, -1, none, new.fast, EMPTY, moved_on),
        Line(4, +1, none, old.fast, EMPTY, moved_on),
        Line(6, -1, none, new.fast, EMPTY, unknown),
        Line(5, +1, new.slow, new.fast, new.state, unknown),
    )


def late_blocks(old: Side, new: Side, merged: State) -> tuple[Line, ...]:
    """News of a version that the visit has left behind: merged at the version that it has, and never dropped.

    `merged` is the old state laid over the late one.
    """
    late = old.fast.version > new.fast.version
    return (
        Line(7, -1, old.slow, old.fast, old.state, late),
        Line(8, +1, old.slow + 1, old.fast, merged, late),
    )


def delete_blocks(old: Side, newest: Fast, *, fast_deletes: bool) -> tuple[Line, ...]:
    """A visit that is gone: its version is taken back, and the fast supplier's is given back to it.

    Where the fast supplier does not take back its own newest version (`fast_deletes` is False), that is done here; two
    records that would cancel each other are not written at all.
    """
    none = F.lit(0).cast("bigint")
    known, unknown = old.fast.version.isNotNull(), old.fast.version.isNull()
    moved_on = newest.version > old.fast.version
    take_back = Line(9, -1, old.slow, old.fast, old.state, known)
    if fast_deletes:
        return (take_back, Line(10, +1, none, old.fast, EMPTY, known))
    return (
        take_back,
        Line(10, +1, none, old.fast, EMPTY, known & moved_on),
        Line(11, -1, none, newest, EMPTY, newest.version.isNotNull() & (unknown | moved_on)),
    )
