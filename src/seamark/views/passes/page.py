"""A page: which units one commit of a scan or of a dictionary pass takes, as its checkpoint says it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from seamark.steps.rows.keys import KeyTypes, key_from_json, plain
from seamark.steps.rows.scope import AllKeys, KeyRange

PAGE = "page"
Bound = tuple[Any, ...] | None


@dataclass(frozen=True, slots=True)
class Page:
    """The units with after < unit <= upto, in Spark's order; None is no bound.

    They may be those of one part, and those of the left-most rows for which a condition holds. A page that `is_range`
    is read by its bounds; the units of another are looked up first.
    """

    columns: tuple[str, ...]
    after: Bound = None
    upto: Bound = None
    part: str | None = None
    where: str | None = None
    is_range: bool = False

    @property
    def bounds(self) -> KeyRange | AllKeys:
        """The range that its units are in."""
        if self.after is None and self.upto is None:
            return AllKeys(self.columns)
        return KeyRange(self.columns, self.after, self.upto)

    def ending(self, upto: Bound) -> Page:
        """The same up to a unit."""
        return replace(self, upto=upto)

    def details(self) -> dict[str, Any]:
        """The page as the details of a checkpoint."""
        page: dict[str, Any] = {"columns": list(self.columns), "after": _plain(self.after), "upto": _plain(self.upto)}
        if self.part is not None:
            page["part"] = self.part
        if self.where is not None:
            page["where"] = self.where
        if self.is_range:
            page["range"] = True
        return {PAGE: page}


def page_in(details: Mapping[str, Any], types: KeyTypes) -> Page | None:
    """The page that the details of a checkpoint have, or None."""
    found = details.get(PAGE)
    if found is None:
        return None
    columns = tuple(found["columns"])
    after, upto = (None if b is None else key_from_json(columns, b, types) for b in (found["after"], found["upto"]))
    return Page(columns, after, upto, found.get("part"), found.get("where"), found.get("range", False))


def _plain(bound: Bound) -> list[Any] | None:
    return None if bound is None else [plain(value) for value in bound]


# --- cursors ----------------------------------------------------------------------------------------------------------


def cursor_text(columns: Sequence[str], upto: Bound, digest: str) -> str | None:
    """The last unit of a page, as the text in which a scan keeps it, with the digest of what its rows are made by."""
    if upto is None:
        return None
    unit = dict(zip(columns, _plain(upto) or (), strict=True))
    return json.dumps({"by": digest, "after": unit}, ensure_ascii=False)


def cursor_in(text: str | None, columns: Sequence[str], types: KeyTypes, digest: str) -> Bound:
    """The unit after which a scan continues.

    None where it begins: also if its units were others then, or its pages were made by another definition.
    """
    found = {} if text is None else json.loads(text)
    after = found.get("after", {})
    if found.get("by") != digest or list(after) != list(columns):
        return None
    return key_from_json(columns, [after[name] for name in columns], types)


def filter_digest(where: str | None) -> str:
    """What tells scans with different filters apart; empty without one."""
    return "" if where is None else hashlib.sha256(where.strip().encode()).hexdigest()[:16]
