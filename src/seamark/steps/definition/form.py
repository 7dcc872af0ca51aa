"""What a function's result depends on, as one text: its syntax, and whatever of the project it uses, near or far.

The text is the same in every process: it has no addresses, sets are sorted, and what is met again has a number. Python
itself and installed packages are not looked into.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, time
from enum import Enum
from pathlib import Path
from types import FunctionType, MemberDescriptorType, MethodType, ModuleType, SimpleNamespace, UnionType
from typing import Any

from seamark.steps.definition.classes import is_code, is_written_by_python, made_by
from seamark.steps.definition.foreign import (
    callables_in,
    is_bound,
    is_in_a_package,
    module_of,
    name_of,
    wrapped_in,
)
from seamark.steps.definition.lookup import NOTHING, Lookup, Met, closure_of, plain_function
from seamark.steps.definition.modules import ModuleFile, file_of_module, imported_files
from seamark.steps.definition.names import CHANGING, Chain, Imported, Uses, default_names, uses_of
from seamark.steps.definition.syntax import NoSource, Sources, normal_syntax
from seamark.steps.definition.values import (
    base_text,
    container_items,
    held_items,
    is_container,
    is_of_no_account,
    moment_text,
    plain_text,
    value_text,
)

_BLIND = frozenset({"eval", "exec", "globals", "__import__"})  # what these reach is not in the syntax
_BLIND_VALUES = (importlib.import_module, sys.modules)


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
    sources, written, failed = Sources(), set[object](), dict[str, str]()
    path = getattr(function, "__qualname__", type(function).__qualname__)
    try:
        for _ in range(2):  # what functions write to is known only once all of them have been seen
            walk = _Walk(sources, Lookup(package, written, failed), folder)
            text = walk.form(function, path)
    except RecursionError:
        return Form(_syntax(sources, plain), {path: "what it uses is nested too deeply"})
    except Exception as error:  # looking runs code of the project where it cannot be helped, and that may fail
        return Form(_syntax(sources, plain), {path: f"what it uses cannot be looked at: {error}"})
    return Form(text, dict(walk.unfollowed))


def _syntax(sources: Sources, plain: FunctionType | None) -> str:
    return normal_syntax(sources.function(plain.__code__)) if plain else ""


@dataclass
class _Walk:
    """One walk over all that a function uses."""

    sources: Sources
    lookup: Lookup
    folder: str
    unfollowed: dict[str, str] = field(default_factory=dict)
    _numbers: dict[tuple[int, ...], int] = field(default_factory=dict)
    _alive: list[object] = field(default_factory=list)  # an id means something only while its object lives
    _files: dict[str, object] = field(default_factory=dict)
    _around: list[int] = field(default_factory=list)  # the containers that are being looked through

    def form(self, value: object, path: str, owner: object = NOTHING) -> str:
        """A value as text. `path` is how a person would name it, `owner` what a method belongs to."""
        text = self._constant(value, path)
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
            case MethodType(__func__=FunctionType()):
                return self.form(value.__func__, path, owner=value.__self__)
            case MethodType():
                return self.form(value.__func__, path) or self._bound(value.__name__, value.__self__, path)
            case FunctionType():
                return self._function(value, path, owner)
            case staticmethod() | classmethod():
                return self.form(value.__func__, path, owner)
            case property():
                parts = [self.form(part, path, owner) for part in (value.fget, value.fset, value.fdel)]
                return f"property({', '.join(parts)})"
            case functools.cached_property() | functools.singledispatchmethod():
                return self.form(getattr(value, "dispatcher", value.func), path, owner)
            case functools.partial() | functools.partialmethod():
                given = [self.form(entry, path, owner) for entry in (value.func, value.args, value.keywords)]
                given[0] = given[0] or name_of(value.func)
                return f"partial({', '.join(given)})"
            case UnionType():
                return " | ".join(self._held(entry, path) for entry in value.__args__)
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

    def _unseen(self, path: str, what: str) -> str:
        """Note what cannot be followed; nothing of it is in the text."""
        self._cannot_follow(path, what)
        return ""

    # --- values -------------------------------------------------------------------------------------------------------

    def _constant(self, value: object, path: str) -> str | None:
        """A constant as text; None for what has to be looked through, as all objects of the project's classes."""
        text = plain_text(value, self.folder)
        if text is not None or self.lookup.is_projects_class(type(value)):
            return text
        if isinstance(value, slice):
            return f"slice({', '.join(self.form(entry, path) for entry in (value.start, value.stop, value.step))})"
        if isinstance(value, datetime | time) and self.lookup.is_projects_class(type(value.tzinfo)):
            return f"{moment_text(value)} in {self.form(value.tzinfo, path)}"
        return value_text(value, self.folder)

    def _container(self, value: object, items: list[tuple[object, ...]], path: str) -> str:
        if id(value) in self.lookup.written:
            return "~"  # a cache or a counter: what it holds comes from running, not from the program
        if id(value) in self._around:
            return f"^{len(self._around) - self._around.index(id(value))}"
        self._around.append(id(value))
        try:
            parts = [":".join(self._held(entry, path) for entry in item) for item in items]
            made = self.form(value.default_factory, path) if isinstance(value, defaultdict) else "None"
        finally:
            self._around.pop()
        if isinstance(value, set | frozenset):
            parts.sort()
        if made not in ("", "None"):
            parts.append(f"default={made}")
        return f"{type(value).__name__}({', '.join(parts)})"

    def _held(self, value: object, path: str) -> str:
        """What a constant holds: a package's function or class counts by its name."""
        return self.form(value, path) or name_of(value)

    def _object(self, value: object, path: str) -> str:
        kind = type(value)
        if self.lookup.is_projects_class(kind):
            return self._again(value) or f"object({self._class(kind, path)}; {self._state(value, path)})"
        if kind is SimpleNamespace:
            return self._again(value) or f"namespace({self._state(value, path)})"
        if kind.__module__ in ("types", "typing") and isinstance(getattr(value, "__origin__", None), type):
            return self._class(value.__origin__, path)  # type: ignore[attr-defined]  # a class such as `Box[int]`
        wrapped = wrapped_in(value)
        if wrapped is not None:
            return self._again(value) or self._wrapper(value, wrapped, [], path)
        if is_of_no_account(kind):
            return ""
        if callable(value) and hasattr(value, "__name__"):
            return self._foreign(value, value.__name__, path)
        return self._cannot_follow(path, f"{kind.__module__}.{kind.__qualname__}")

    def _state(self, value: object, path: str) -> str:
        """All that an object holds: what the value is that its class is made from, its entries, and its attributes."""
        names = set(getattr(value, "__dict__", {}))
        base = base_text(value, self.folder)
        for kind in type(value).__mro__:
            if base is None or self.lookup.is_projects_class(kind):  # the slots of Python's own values are the value
                names |= {name for name, member in vars(kind).items() if isinstance(member, MemberDescriptorType)}
        parts = [] if base is None else [base]
        if isinstance(value, datetime | time) and value.tzinfo is not None:
            parts.append(self.form(value.tzinfo, path))
        if id(value) not in self.lookup.written:
            parts += [":".join(self._held(entry, path) for entry in item) for item in held_items(value)]
        for name in sorted(names):
            found = getattr(value, name, NOTHING)
            if found is not NOTHING and (id(value), name) not in self.lookup.written:
                parts.append(f"{name}={self._held_as(name, found, f'{path}.{name}')}")
        hidden = self.lookup.hidden_base(type(value)) if base is None else None
        if hidden is not None:
            self._cannot_follow(path, f"what it holds as {hidden.__module__}.{hidden.__qualname__}")
        return ", ".join(parts)

    def _held_as(self, name: str, value: object, path: str) -> str:
        return self.form(value, path) or name_of(value, name)

    # --- modules and classes ------------------------------------------------------------------------------------------

    def _module(self, module: ModuleType, path: str) -> str:
        """A module of the project that is handed on as a whole: anything in it may be used."""
        if not self.lookup.is_projects(module):
            return ""
        file = file_of_module(module)
        again = self._again(self._token(file, module))
        if again is not None:
            return again
        try:
            text = normal_syntax(self.sources.module(file.path or ""))
        except NoSource as reason:
            return self._cannot_follow(path, f"a module: {reason}")
        imported = imported_files(file, self.sources, self.lookup.is_projects_file)
        parts = [f"{found.name}={form}" for found in imported if (form := self._imported_file(found))]
        return text + (f" with {{{'; '.join(parts)}}}" if parts else "")

    def _token(self, file: ModuleFile, module: ModuleType | None = None) -> object:
        """What stands for a module, whether it is loaded or not."""
        return self._files.setdefault(file.path, object()) if file.path else module

    def _imported_file(self, file: ModuleFile) -> str:
        if file.path is None:  # a package without a file of its own
            return ""
        again = self._again(self._token(file))
        if again is not None:
            return again
        try:
            return normal_syntax(self.sources.module(file.path))
        except NoSource as reason:
            is_empty = Path(file.path).exists() and not Path(file.path).stat().st_size
            return "" if is_empty else self._unseen(file.name, f"a module: {reason}")

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
        parts += [f"{name}:{self._held_as(name, made, f'{path}.{name}')}" for name, made in made_by(kind)]
        parts += [text for base in kind.__bases__ if (text := self._class(base, base.__qualname__))]
        return f"class({', '.join(parts)})"

    def _counts_in_class(self, kind: type, name: str, member: object) -> bool:
        if (id(kind), name) in self.lookup.written or is_written_by_python(member):
            return False
        is_own = name.startswith("_") and name.endswith("_")
        return is_code(member) or not (is_own or name == "_abc_impl")

    # --- functions ----------------------------------------------------------------------------------------------------

    def _function(self, function: FunctionType, path: str, owner: object) -> str:
        again = self._again(function, owner)
        if again is not None:
            return again
        if not self.lookup.is_projects_function(function):
            closed = [value for _, value in sorted(closure_of(function).items())]
            made = self._wrapper(function, wrapped_in(function), closed, path)
            return made + self._bound(function.__name__, owner, path)
        try:
            node = self.sources.function(function.__code__)
        except NoSource as reason:
            return self._cannot_follow(path, f"a function: {reason}")
        uses = uses_of(node)
        self.lookup.note_written(function, owner, uses)
        parts = [f"{chain.text}={text}" for chain in uses.free if (text := self._free(function, chain))]
        if owner is not NOTHING:
            parts += self._own(owner, uses, path)
        parts += self._defaults(function, default_names(node), path)
        wrapped = wrapped_in(function)
        if wrapped is not None:
            parts.append(f"wraps={self.form(wrapped, path)}")
        return normal_syntax(node) + (f" with {{{'; '.join(parts)}}}" if parts else "")

    def _defaults(self, function: FunctionType, known: set[str], path: str) -> Iterator[str]:
        """The defaults of a function. Its syntax has the names of those that are a package's, but not behind others."""
        given = {"defaults": function.__defaults__, "keywords": function.__kwdefaults__}
        for name, values in given.items():
            if isinstance(values, dict):
                forms = [f"{key!r}:{self.form(entry, path) or name_of(entry, *known)}" for key, entry in values.items()]
            else:
                forms = [self.form(entry, path) or name_of(entry, *known) for entry in values or ()]
            if values:
                yield f"{name}={type(values).__name__}({', '.join(forms)})"

    def _wrapper(self, value: object, wrapped: object, closed: list[object], path: str) -> str:
        """Something of a package that was made from functions of the project: by a decorator, a UDF, a dispatcher."""
        called = [entry for value in (wrapped, *closed) for entry in callables_in(value)]
        # A package's function may have closed over the project's in turn, as one that looks up what to dispatch to.
        held = [entry for entry in called if self.lookup.is_projects(entry) or getattr(entry, "__closure__", None)]
        parts = [text for entry in held if (text := self.form(entry, path))]
        if is_bound(wrapped) and not self.lookup.is_projects(wrapped):
            parts += [text for text in [self.form(wrapped, path)] if text]
        kind = getattr(value, "returnType", None)  # of a Spark UDF
        if kind is not None:
            parts.append(self.form(kind, path))
        return f"wrapper({', '.join(parts)})" if parts else ""

    def _foreign(self, value: object, name: str, path: str) -> str:
        """Something of a package that can be called and has a name: it counts by what it belongs to."""
        owner = getattr(value, "__self__", None)
        module = owner if isinstance(owner, ModuleType) else module_of(value)
        if module is not None and self.lookup.is_projects(module) and not isinstance(owner, type):
            return self._unseen(path, "a function that is not written in Python")
        if not name.isidentifier():  # made on the way, as by `np.frompyfunc`
            return self._unseen(path, f"{type(value).__module__}.{type(value).__qualname__}")
        return self._bound(name, owner, path)

    def _bound(self, name: str, owner: object, path: str) -> str:
        """What a package's method belongs to: it may use all of that."""
        if owner is NOTHING or owner is None or isinstance(owner, ModuleType) or is_in_a_package(name, owner):
            return ""
        if isinstance(owner, type):  # within a class, all of it counts already
            text = "" if (id(owner),) in self._numbers else self._class(owner, path)
        elif name in CHANGING and is_container(owner):
            self.lookup.written.add(id(owner))
            return ""
        else:
            text = self.form(owner, path)
        return f"{name} of {text}" if text not in ("", "?") else ""

    def _free(self, function: FunctionType, chain: Chain) -> str:
        """What a name from outside a function leads to."""
        if chain.first in _BLIND and self.lookup.is_builtin(function, str(chain.first)):
            return self._cannot_follow(f"{chain.text}() in {function.__qualname__}", "it may reach anything")

        def reached() -> str:
            met = self.lookup.along(self.lookup.first(function, chain.first), chain.attributes)
            if any(met.value is blind for blind in _BLIND_VALUES):
                return self._unseen(f"{chain.text} in {function.__qualname__}", "it may reach anything")
            shown = replace(chain, attributes=chain.attributes[: met.taken]).text
            path = shown if isinstance(chain.first, Imported) else f"{function.__module__}.{shown}"
            return self._met(met, path)

        return self._carefully(chain.text, reached)

    def _own(self, owner: object, uses: Uses, path: str) -> Iterator[str]:
        """What a method takes from the object or class that it belongs to."""
        shown = path.rpartition(".")[0] or path

        def reached(names: tuple[str, ...]) -> str:
            met = self.lookup.along(Met(owner), names)
            return self._met(met, ".".join((shown, *names[: met.taken])))

        for names in uses.own:
            text = self._carefully(".".join((shown, *names)), functools.partial(reached, names))
            if text:
                yield f"{'.'.join(('self', *names))}={text}"
        if any(chain.first == "super" for chain in uses.free):
            kind = owner if isinstance(owner, type) else type(owner)
            is_all = owner is not kind and self.lookup.has_foreign_base(kind)  # that one may use all of it
            yield f"super={self.form(owner, shown) if is_all else self._class(kind, shown)}"

    def _carefully(self, path: str, reached: Callable[[], str]) -> str:
        """What a name leads to. Looking may run code of the project: a module is imported, a descriptor asked."""
        try:
            return reached()
        except RecursionError:
            raise
        except (Exception, SystemExit) as error:
            if isinstance(error, ImportError):
                return self._cannot_follow(path, f"it cannot be imported: {error}")
            return self._cannot_follow(path, f"it cannot be looked at: {type(error).__name__}: {error}")

    def _met(self, met: Met, path: str) -> str:
        if met.value is NOTHING or (met.is_foreign and not self.lookup.is_projects(met.value)):
            return ""
        return self.form(met.value, path, owner=met.owner) or (name_of(met.value) if met.is_held else "")
