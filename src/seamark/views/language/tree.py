"""What a statement of the document's language says, as values; places are those in the script."""

from __future__ import annotations

from dataclasses import dataclass

from seamark.views.context import MvHandler
from seamark.views.model import MvJoinKind, MvLiteral, MvRefresh


@dataclass(frozen=True, slots=True)
class Name:
    """A name without its quotes, and where it stands."""

    text: str
    place: int


@dataclass(frozen=True, slots=True)
class Reference:
    """`o.id`."""

    alias: Name
    column: Name


@dataclass(frozen=True, slots=True)
class Constant:
    """A whole number or a text, and where it stands."""

    literal: MvLiteral
    place: int


@dataclass(frozen=True, slots=True)
class Expression:
    """Spark SQL: in `#[ … ]#`, or plain behind WHERE and GROUP BY. `declared` is None without COMPUTE ON."""

    text: str
    place: int  # of the text inside the brackets
    blamed: int  # of the brackets, or of COMPUTE
    declared: tuple[Reference, ...] | None = None
    is_opaque: bool = True


Value = Reference | Constant | Expression


@dataclass(frozen=True, slots=True)
class Column:
    """A value with its name."""

    value: Value
    name: Name


@dataclass(frozen=True, slots=True)
class Condition:
    """Two sides that must be equal."""

    left: Reference | Constant
    right: Reference | Constant


@dataclass(frozen=True, slots=True)
class Source:
    """A table with its alias, and how it is joined."""

    table: Name
    alias: Name
    kind: MvJoinKind = MvJoinKind.FROM
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Select:
    """One SELECT."""

    columns: tuple[Column, ...]
    sources: tuple[Source, ...]
    where: Expression | None
    groups: Expression | None
    place: int


@dataclass(frozen=True, slots=True)
class Part:
    """A SELECT of a union, with its alias."""

    select: Select
    alias: Name


@dataclass(frozen=True, slots=True)
class View:
    """A view in the document's language; of a view in plain SQL, `rest` has its SELECT."""

    name: Name
    key: tuple[Name, ...] | None
    destination: Name | None
    parts: tuple[Part, ...] = ()
    refresh: MvRefresh = MvRefresh.INCREMENTAL
    rest: Name | None = None


Statement = View | MvHandler
