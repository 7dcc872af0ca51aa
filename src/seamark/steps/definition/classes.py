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

    They are the values of an enumeration's members, and the defaults of a data class: those that are made for each of
    its objects, and those of one with slots, which are where the defaults would be.
    """
    if isinstance(kind, EnumMeta):
        members: Mapping[str, Any] = kind.__members__
        yield from ((name, member.value) for name, member in members.items())
    for name, field in vars(kind).get("__dataclass_fields__", {}).items():
        if not isinstance(field, Field):
            continue
        if field.default_factory is not MISSING:
            yield name, field.default_factory
        elif field.default is not MISSING and isinstance(vars(kind).get(name), MemberDescriptorType):
            yield name, field.default


def is_written_by_python(member: object) -> bool:
    """Whether an attribute of a class is one that follows from its syntax: a slot, or a method of a data class."""
    if isinstance(member, MemberDescriptorType | _FIELD_OF_TUPLE):
        return True
    if isinstance(member, staticmethod | classmethod):  # Python makes these of `__new__` and `__class_getitem__`
        member = member.__func__
    if not isinstance(member, FunctionType):
        return False
    written = getattr(member, "__wrapped__", member)  # Python wraps the text of a data class to stop it in circles
    return isinstance(written, FunctionType) and written.__code__.co_filename.startswith("<")


def is_code(member: object) -> bool:
    """Whether an attribute of a class is a function of some kind: that counts whatever it is called."""
    return isinstance(member, FunctionType | staticmethod | classmethod | property)
