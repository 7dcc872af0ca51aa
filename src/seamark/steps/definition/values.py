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

from pyspark.sql.types import DataType

_PLAIN = (NoneType, bool, int, float, complex, bytes, bytearray, EllipsisType, NotImplementedType)
_SHOWN = (range, Decimal, Fraction, UUID, date, datetime, time, timedelta, timezone, tzinfo)
_BASES = (int, float, complex, bytes, bytearray, Decimal, Fraction, UUID, date, timedelta)
_MOMENT = ("year", "month", "day", "hour", "minute", "second", "microsecond", "fold")
_SEQUENCES = (tuple, list, deque, set, frozenset)
_MAPPINGS = (dict, OrderedDict, defaultdict, Counter, MappingProxyType)
_KNOWN = (*_BASES, *_SEQUENCES, dict, str, time, tzinfo, PurePath, Enum, type)
_ADDRESS = re.compile(r"\bat 0x[0-9A-Fa-f]+")
# Objects of these packages do not decide what a function gives: tables and stores, loggers, locks, annotations.
_OF_NO_ACCOUNT = ("seamark", "logging", "threading", "_thread", "typing", "abc", "weakref", "contextvars")


def plain_text(value: object, folder: str) -> str | None:
    """A constant of one of Python's simplest types as text, or None if it is something else."""
    kind = type(value)
    if kind is str:
        return repr(_from(folder, str(value)))
    return repr(value) if kind in _PLAIN else None


def value_text(value: object, folder: str) -> str | None:
    """A constant of Python's or a package's as text, or None if the value is no constant.

    Files of the project's folder are named from there.
    """
    if isinstance(value, _SHOWN) and not isinstance(value, Enum):
        return _without_address(repr(value))
    if isinstance(value, PurePath):
        return f"path({_from(folder, str(value))!r})"
    if isinstance(value, re.Pattern):
        return f"pattern({value.pattern[:]!r}, {value.flags})"  # a slice of a text is a text, whatever class that is of
    top = type(value).__module__.partition(".")[0]
    if top == "numpy":
        return _array_text(value)
    if isinstance(value, DataType):
        return f"type({value.json()})"
    return None


def base_text(value: object, folder: str) -> str | None:
    """What an object of a class that is made from one of Python's values is worth; None for any other object.

    It asks nothing of the class itself, which may show its objects as it likes.
    """
    if isinstance(value, datetime | time):
        return moment_text(value)
    if isinstance(value, str):
        return repr(_from(folder, str.__str__(value)))
    if isinstance(value, PurePath):
        return f"path({_from(folder, PurePath.__str__(value))!r})"
    if is_array(type(value)):
        return _array_text(value)
    base = next((base for base in _BASES if isinstance(value, base)), None)
    return None if base is None else _without_address(base.__repr__(value))


def moment_text(value: datetime | time) -> str:
    """A moment as text, but for its time zone."""
    return f"moment({', '.join(repr(getattr(value, name)) for name in _MOMENT if hasattr(value, name))})"


def is_array(kind: type) -> bool:
    """Whether a class is made from NumPy's arrays."""
    return any(base.__name__ == "ndarray" and base.__module__ == "numpy" for base in kind.__mro__)


def is_value(kind: type) -> bool:
    """Whether all that objects of a class hold is known: as constant, as container, or by their attributes."""
    return kind is object or issubclass(kind, (*_KNOWN, BaseException)) or is_array(kind)


def _without_address(text: str) -> str | None:
    """A text that Python shows a value as; None if it has an address, which is another one in every process."""
    return None if _ADDRESS.search(text) else text


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
    if isinstance(value, BaseException):
        return [(entry,) for entry in value.args]
    return [(entry,) for entry in value] if isinstance(value, _SEQUENCES) else []


def is_container(value: object) -> bool:
    """Whether a value is one of Python's own containers, or of a class made from one."""
    return isinstance(value, (*_SEQUENCES, *_MAPPINGS))


def is_of_no_account(kind: type) -> bool:
    """Whether objects of a class, whatever they hold, have no part in what a function gives."""
    if kind.__module__.partition(".")[0] in _OF_NO_ACCOUNT:
        return True
    return kind.__module__.startswith("pyspark") and kind.__name__ in ("SparkSession", "SparkContext")
