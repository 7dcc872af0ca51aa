"""What a class has beside what its lines say: values that were made when it was, and methods that Python wrote."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field
from enum import EnumMeta
from types import FunctionType, MemberDescriptorType
from typing import Any

_FIELD_OF_TUPLE = type(vars(namedtuple("_One", "field"))["field"])  # Python has no name for it


def made_by(kind: type) -> Iterator[tuple[str, object]]:
    """The values that a class keeps elsewhere than in its attributes, which its syntax names but does not hold.

    They are the values of an enumeration's members, and what makes the defaults of a data class.
    """
    if isinstance(kind, EnumMeta):
        members: Mapping[str, Any] = kind.__members__
        yield from ((name, member.value) for name, member in members.items())
    for name, field in vars(kind).get("__dataclass_fields__", {}).items():
        if isinstance(field, Field) and field.default_factory is not MISSING:
            yield name, field.default_factory


def is_written_by_python(member: object) -> bool:
    """Whether an attribute of a class is one that follows from its syntax: a slot, or a method of a data class."""
    if isinstance(member, MemberDescriptorType | _FIELD_OF_TUPLE):
        return True
    if not isinstance(member, FunctionType):
        return False
    written = getattr(member, "__wrapped__", member)  # Python wraps the text of a data class to stop it in circles
    return isinstance(written, FunctionType) and written.__code__.co_filename.startswith("<")
