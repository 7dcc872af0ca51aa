"""Constants as text: the same in every process for equal values."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from types import EllipsisType, MappingProxyType, NoneType, NotImplementedType
from typing import Any
from uuid import UUID

_PLAIN = (NoneType, bool, int, float, complex, bytes, bytearray, range, slice, EllipsisType, NotImplementedType)
_SHOWN = (Decimal, Fraction, UUID, date, datetime, time, timedelta, timezone, tzinfo)
_SEQUENCES = (tuple, list, deque, set, frozenset)
_MAPPINGS = (dict, OrderedDict, defaultdict, Counter, MappingProxyType)
# Objects of these packages do not decide what a function gives: tables and stores, loggers, locks, annotations.
_OF_NO_ACCOUNT = ("seamark", "logging", "threading", "_thread", "typing", "types", "abc", "weakref", "contextvars")


def value_text(value: object, folder: str) -> str | None:
    """A constant as text, or None if the value is no constant. Files of the project's folder are named from there."""
    kind = type(value)
    if kind is str:
        return repr(_from(folder, str(value)))
    if kind in _PLAIN or (isinstance(value, _SHOWN) and not isinstance(value, Enum)):
        return repr(value)
    if isinstance(value, PurePath):
        return f"path({_from(folder, str(value))!r})"
    if isinstance(value, re.Pattern):
        return f"pattern({value.pattern!r}, {value.flags})"
    top = kind.__module__.partition(".")[0]
    if top == "numpy":
        return _array_text(value)
    if top == "pyspark" and hasattr(value, "jsonValue"):  # a type or a schema
        return f"type({value.json()})"  # type: ignore[attr-defined]
    return None


def _from(folder: str, text: str) -> str:
    """A text in which the project's folder has no name: that is not the same on every machine."""
    return text.replace(folder, "<project>") if len(folder) > 1 else text


def _array_text(value: Any) -> str | None:
    kind = getattr(value, "dtype", None)
    if kind is None or kind.hasobject or not hasattr(value, "tobytes"):
        return None
    return f"array({kind.str}, {value.shape}, {hashlib.sha256(value.tobytes()).hexdigest()})"


def container_items(value: object) -> list[tuple[object, ...]] | None:
    """What one of Python's own containers holds, in its order: values, or pairs of key and value."""
    if type(value) in _SEQUENCES or type(value) in _MAPPINGS:
        return held_items(value)
    return None


def held_items(value: object) -> list[tuple[object, ...]]:
    """What a container, or an object of a class made from one, holds; nothing for any other object."""
    if isinstance(value, _MAPPINGS):
        return list(value.items())
    return [(entry,) for entry in value] if isinstance(value, _SEQUENCES) else []


def is_of_no_account(value: object) -> bool:
    """Whether an object, whatever it holds, has no part in what a function gives."""
    kind = type(value)
    if kind.__module__.partition(".")[0] in _OF_NO_ACCOUNT:
        return True
    return kind.__module__.startswith("pyspark") and kind.__name__ in ("SparkSession", "SparkContext")
