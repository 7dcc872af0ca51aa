"""What a function's result depends on, as one text: its syntax, and whatever of the project it uses, near or far.

The text is the same in every process: it has no addresses, sets are sorted, and what is met again has a number. Python
itself and installed packages are not looked into.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from types import FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from seamark.transforms.function_lookup import NOTHING, Lookup, Met, closure_of, plain_function
from seamark.transforms.function_names import Chain, Imported, Uses, uses_of
from seamark.transforms.function_syntax import NoSource, Sources, normal_syntax
from seamark.transforms.function_values import container_items, held_items, is_of_no_account, value_text

_BLIND = frozenset({"eval", "exec", "globals", "__import__"})  # what these reach is not in the syntax


@dataclass(frozen=True)
class Form:
    """A function's form, and what it uses that cannot be followed: how it is named, and what it is."""

    text: str
    unfollowed: Mapping[str, str]


def form_of(function: Callable[..., Any]) -> Form:
    """The form of a function."""
    plain = plain_function(function)
    package = (plain.__module__ or "").partition(".")[0] if plain else ""
    folder = str(Path(plain.__code__.co_filename).parent) if plain else ""
    sources, written = Sources(), set[object]()
    path = getattr(function, "__qualname__", type(function).__qualname__)
    try:
        for _ in range(2):  # what functions write to is known only once all of them have been seen
            walk = _Walk(sources, Lookup(package, written), folder)
            text = walk.form(function, path)
    except RecursionError:
        text = normal_syntax(sources.function(plain.__code__)) if plain else ""
        return Form(text, {path: "what it uses is nested too deeply"})
    return Form(text, dict(walk.unfollowed))


@dataclass
class _Walk:
    """One walk over all that a function uses."""

    sources: Sources
    lookup: Lookup
    folder: str
    unfollowed: dict[str, str] = field(default_factory=dict)
    _numbers: dict[tuple[int, ...], int] = field(default_factory=dict)
    _alive: list[object] = field(default_factory=list)  # an id means something only while its object lives
    _around: list[int] = field(default_factory=list)  # the containers that are being looked through

    def form(self, value: object, path: str, owner: object = NOTHING) -> str:
        """A value as text. `path` is how a person would name it, `owner` what a method belongs to."""
        text = value_text(value, self.folder)
        if text is not None:
            return text
        items = container_items(value)
        if items is not None:
            return self._container(value, items, path)
        match value:
            case Enum():
                return f"{self._class(type(value), path)}.{value.name}"
            case ModuleType():
                return self._module(value, path)
            case type():
                return self._class(value, path)
            case MethodType():
                return self.form(value.__func__, path, owner=value.__self__)
            case FunctionType():
                return self._function(value, path, owner)
            case staticmethod() | classmethod():
                return self.form(value.__func__, path, owner)
            case property():
                parts = [self.form(part, path, owner) for part in (value.fget, value.fset, value.fdel)]
                return f"property({', '.join(parts)})"
            case functools.cached_property():
                return self.form(value.func, path, owner)
            case functools.partial() | functools.partialmethod():
                given = [self.form(entry, path, owner) for entry in (value.func, value.args, value.keywords)]
                return f"partial({', '.join(given)})"
        return self._object(value, path)

    def _again(self, *objects: object) -> str | None:
        """The number of what was met before; None if it is met for the first time."""
        key = tuple(id(entry) for entry in objects)
        if key in self._numbers:
            return f"#{self._numbers[key]}"
        self._numbers[key] = len(self._numbers)
        self._alive.extend(objects)
        return None

    def _cannot_follow(self, path: str, what: str) -> str:
        self.unfollowed.setdefault(path, what)
        return "?"

    # --- values -------------------------------------------------------------------------------------------------------

    def _container(self, value: object, items: list[tuple[object, ...]], path: str) -> str:
        if id(value) in self.lookup.written:
            return "~"  # a cache or a counter: what it holds comes from running, not from the program
        if id(value) in self._around:
            return f"^{len(self._around) - self._around.index(id(value))}"
        self._around.append(id(value))
        try:
            parts = [":".join(self.form(entry, path) for entry in item) for item in items]
        finally:
            self._around.pop()
        if isinstance(value, set | frozenset):
            parts.sort()
        return f"{type(value).__name__}({', '.join(parts)})"

    def _object(self, value: object, path: str) -> str:
        if self.lookup.is_projects_class(type(value)):
            again = self._again(value)
            return again or f"object({self._class(type(value), path)}; {self._state(value, path)})"
        wrapped = _wrapped_in(value)
        if wrapped is not None:
            return self._again(value) or self._wrapper(value, [wrapped], path)
        if is_of_no_account(value) or (callable(value) and hasattr(value, "__name__")):
            return ""
        return self._cannot_follow(path, f"{type(value).__module__}.{type(value).__qualname__}")

    def _state(self, value: object, path: str) -> str:
        names = set(getattr(value, "__dict__", {}))
        for kind in type(value).__mro__:
            names |= {name for name, member in vars(kind).items() if isinstance(member, MemberDescriptorType)}
        parts = [":".join(self.form(entry, path) for entry in item) for item in held_items(value)]
        for name in sorted(names):
            found = getattr(value, name, NOTHING)
            if found is not NOTHING and (id(value), name) not in self.lookup.written:
                parts.append(f"{name}={self.form(found, f'{path}.{name}')}")
        return ", ".join(parts)

    # --- modules and classes ------------------------------------------------------------------------------------------

    def _module(self, module: ModuleType, path: str) -> str:
        """A module of the project that is handed on as a whole: anything in it may be used."""
        if not self.lookup.is_projects(module):
            return ""
        again = self._again(module)
        if again is not None:
            return again
        try:
            return normal_syntax(self.sources.module(getattr(module, "__file__", None) or ""))
        except NoSource as reason:
            return self._cannot_follow(path, f"a module: {reason}")

    def _class(self, kind: type, path: str) -> str:
        """A class of the project and those that it is made from: their syntax, methods and constants."""
        if not self.lookup.is_projects_class(kind):
            return ""
        again = self._again(kind)
        if again is not None:
            return again
        parts = []
        try:
            parts += [normal_syntax(node) for node in self.sources.classes(kind)]
        except NoSource as reason:
            if not any(isinstance(member, FunctionType) for member in vars(kind).values()):
                parts.append(self._cannot_follow(path, f"a class: {reason}"))
        for name, member in sorted(vars(kind).items()):
            if self._counts_in_class(kind, name, member):
                parts.append(f"{name}={self.form(member, f'{path}.{name}', owner=kind)}")
        parts += [text for base in kind.__bases__ if (text := self._class(base, base.__qualname__))]
        return f"class({', '.join(parts)})"

    def _counts_in_class(self, kind: type, name: str, member: object) -> bool:
        if (id(kind), name) in self.lookup.written or isinstance(member, MemberDescriptorType):
            return False
        if isinstance(member, FunctionType):  # methods that Python writes, as for data classes, follow from the syntax
            return not member.__code__.co_filename.startswith("<")
        return not (name.startswith("_") and name.endswith("_")) and name != "_abc_impl"

    # --- functions ----------------------------------------------------------------------------------------------------

    def _function(self, function: FunctionType, path: str, owner: object) -> str:
        again = self._again(function, owner)
        if again is not None:
            return again
        if not self.lookup.is_projects_function(function):
            found = [_wrapped_in(function), *(value for _, value in sorted(closure_of(function).items()))]
            return self._wrapper(function, found, path)
        try:
            node = self.sources.function(function.__code__)
        except NoSource as reason:
            return self._cannot_follow(path, f"a function: {reason}")
        uses = uses_of(node)
        self.lookup.note_written(function, owner, uses)
        parts = [f"{chain.text}={text}" for chain in uses.free if (text := self._free(function, chain))]
        if owner is not NOTHING:
            parts += self._own(owner, uses, path)
        given = {"defaults": function.__defaults__, "keywords": function.__kwdefaults__}
        parts += [f"{name}={self.form(values, path)}" for name, values in given.items() if values]
        wrapped = _wrapped_in(function)
        if wrapped is not None:
            parts.append(f"wraps={self.form(wrapped, path)}")
        return normal_syntax(node) + (f" with {{{'; '.join(parts)}}}" if parts else "")

    def _wrapper(self, value: object, held: list[object], path: str) -> str:
        """Something of a package that was made from functions of the project: by a decorator, a UDF, a dispatcher."""
        parts = [self.form(e, path) for entry in held for e in _callables_in(entry) if self.lookup.is_projects(e)]
        kind = getattr(value, "returnType", None)  # of a Spark UDF
        if kind is not None:
            parts.append(self.form(kind, path))
        return f"wrapper({', '.join(parts)})" if parts else ""

    def _free(self, function: FunctionType, chain: Chain) -> str:
        """What a name from outside a function leads to."""
        if chain.first in _BLIND and self.lookup.is_builtin(function, str(chain.first)):
            return self._cannot_follow(f"{chain.text}() in {function.__qualname__}", "it may reach anything")
        try:
            met = self.lookup.along(self.lookup.first(function, chain.first), chain.attributes)
        except ImportError as error:
            return self._cannot_follow(chain.text, f"it cannot be imported: {error}")
        shown = replace(chain, attributes=chain.attributes[: met.taken]).text
        return self._met(met, shown if isinstance(chain.first, Imported) else f"{function.__module__}.{shown}")

    def _own(self, owner: object, uses: Uses, path: str) -> Iterator[str]:
        """What a method takes from the object or class that it belongs to."""
        shown = path.rpartition(".")[0] or path
        for names in uses.own:
            met = self.lookup.along(Met(owner), names)
            text = self._met(met, ".".join((shown, *names[: met.taken])))
            if text:
                yield f"{'.'.join(('self', *names))}={text}"
        if any(chain.first == "super" for chain in uses.free):
            yield f"super={self._class(owner if isinstance(owner, type) else type(owner), shown)}"

    def _met(self, met: Met, path: str) -> str:
        if met.value is NOTHING or (met.is_foreign and not self.lookup.is_projects(met.value)):
            return ""
        return self.form(met.value, path, owner=met.owner)


def _wrapped_in(value: object) -> object | None:
    """The function that a callable was made from, if it says so: one with a cache, a vectorised one, a Spark UDF."""
    if not callable(value):
        return None
    names = ("__wrapped__", "func", "pyfunc")
    found = [inspect.getattr_static(value, name, None) and getattr(value, name, None) for name in names]
    return next((entry for entry in found if callable(entry)), None)


def _callables_in(value: object) -> Iterator[object]:
    items = container_items(value)
    for entry in [value] if items is None else [item[-1] for item in items]:
        if callable(entry):
            yield entry
