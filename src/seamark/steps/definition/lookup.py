"""Where the names that a function uses lead: through modules, classes and objects of the project."""

from __future__ import annotations

import builtins
import functools
import importlib
import importlib.util
import inspect
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import EnumMeta
from types import ClassMethodDescriptorType, FunctionType, MethodType, ModuleType

from seamark.steps.definition.names import Chain, Imported, Uses
from seamark.steps.definition.project_files import is_installed
from seamark.steps.definition.syntax import file_of_class
from seamark.steps.definition.values import is_container, is_of_no_account, is_value

NOTHING = object()


@dataclass(frozen=True)
class Met:
    """What a chain of names leads to. `owner` is the object or class that a method found there belongs to."""

    value: object
    owner: object = NOTHING
    is_foreign: bool = False  # found in an installed module: counts only if it is the project's all the same
    is_held: bool = False  # by a closure, object or class of the project, and not only imported
    taken: int = 0  # how many attributes were followed


@dataclass(frozen=True)
class Lookup:
    """Names and whose they are. `package` is the project's even if it is installed.

    `written` holds what functions write to while they run: names of modules and closures, attributes, containers;
    `failed` which modules cannot be imported, and why: they are tried once.
    """

    package: str
    written: set[object]
    failed: dict[str, str]

    # --- names --------------------------------------------------------------------------------------------------------

    def first(self, function: FunctionType, name: str | Imported) -> Met:
        """What a free name of a function stands for; nothing if it is not there, or is one of Python's own."""
        if isinstance(name, Imported):
            return self._imported(function, name)
        if _place(function, name) in self.written:
            return Met(NOTHING)
        closed = closure_of(function)
        if name in closed:
            return Met(closed[name], is_held=True)
        if name.startswith("__") and name.endswith("__"):
            return Met(NOTHING)  # where the module is, and what it is called
        return Met(function.__globals__.get(name, NOTHING))

    def is_builtin(self, function: FunctionType, name: str) -> bool:
        """Whether a function means Python's own function by a name."""
        return name not in function.__globals__ and name not in closure_of(function) and hasattr(builtins, name)

    def _imported(self, function: FunctionType, wanted: Imported) -> Met:
        package = function.__globals__.get("__package__") or ""
        relative = "." * wanted.level + wanted.module
        module = self._module(importlib.util.resolve_name(relative, package) if wanted.level else relative)
        if module is None or not wanted.name:
            return Met(module or NOTHING)
        return self.along(Met(module), (wanted.name,))

    def _module(self, name: str) -> ModuleType | None:
        """A module that a function imports when it is called; None if it is an installed one that nobody has yet.

        One of the project's is imported: looking at its text would give another form than looking at it once it is
        loaded, so that the step would seem changed as soon as it has run.
        """
        if name in sys.modules:
            return sys.modules[name]
        top = name.partition(".")[0]
        found = importlib.util.find_spec(top)
        if found is None:
            raise ImportError(f"there is no module named '{top}'")
        if is_installed(top, found.origin, self.package):
            return None
        if name not in self.failed:
            try:
                return importlib.import_module(name)
            except ImportError as error:
                self.failed[name] = str(error)
            except (Exception, SystemExit) as error:  # a module may do anything when it is imported
                self.failed[name] = f"{type(error).__name__}: {error}"
        raise ImportError(self.failed[name])

    # --- attributes ---------------------------------------------------------------------------------------------------

    def along(self, met: Met, attributes: tuple[str, ...]) -> Met:
        """What taking attributes one after another leads to, as far as that can be followed."""
        for number, name in enumerate(attributes, start=1):
            value = met.value
            if (id(value), name) in self.written:
                return Met(NOTHING)
            found: Met | None
            if isinstance(value, ModuleType):
                found = self._in_module(value, name)
            elif isinstance(value, type) and self.is_projects_class(value):
                found = _in_class(value, name)
            elif not isinstance(value, type) and self.is_projects_class(type(value)):
                found = _in_object(value, name)
            else:
                return met
            if found is None:  # it is not known what the attribute is, so all of what it was asked of counts
                return met
            met = replace(found, taken=number)
            if met.owner is not NOTHING:  # a method
                return met
        return met

    def _in_module(self, module: ModuleType, name: str) -> Met:
        found = vars(module).get(name, NOTHING)
        is_foreign = not self.is_projects(module)
        if found is NOTHING and not is_foreign and hasattr(module, "__path__"):
            found = self._module(f"{module.__name__}.{name}") or NOTHING
        if found is NOTHING:
            found = getattr(module, name, NOTHING)
        return Met(found, is_foreign=is_foreign)

    # --- whose it is --------------------------------------------------------------------------------------------------

    def is_projects(self, value: object) -> bool:
        """Whether a module, class, function or object is the project's."""
        if isinstance(value, ModuleType):
            return not is_installed(value.__name__, getattr(value, "__file__", None), self.package)
        if isinstance(value, type):
            return self.is_projects_class(value)
        plain = plain_function(value)
        return self.is_projects_class(type(value)) or (plain is not None and self.is_projects_function(plain))

    def is_projects_file(self, module: str, path: str | None) -> bool:
        """Whether a module, loaded or not, is the project's."""
        return not is_installed(module, path, self.package)

    def is_projects_function(self, function: FunctionType) -> bool:
        """Whether a function is the project's."""
        return not is_installed(function.__module__, function.__code__.co_filename, self.package)

    def is_projects_class(self, kind: type) -> bool:
        """Whether a class is the project's."""
        return not is_installed(kind.__module__, file_of_class(kind), self.package)

    def hidden_base(self, kind: type) -> type | None:
        """The class among those that a class is made from whose objects hold what Python cannot show; None if none."""
        for base in kind.__mro__:
            path = getattr(sys.modules.get(base.__module__), "__file__", None) or ""
            is_known = path.endswith(".py") or is_value(base) or is_of_no_account(base)
            if not is_known and not self.is_projects_class(base):
                return base
        return None

    def has_foreign_base(self, kind: type) -> bool:
        """Whether a class is made from one of a package that does something with its objects."""
        idle = ("abc", "typing", "collections.abc", "enum")
        bases = [base for base in kind.__mro__ if base is not object and base.__module__ not in idle]
        return any(not self.is_projects_class(base) for base in bases)

    # --- what is written to -------------------------------------------------------------------------------------------

    def note_written(self, function: FunctionType, owner: object, uses: Uses) -> None:
        """Remember what a function writes to."""
        for chain in sorted(uses.changed, key=lambda chain: chain.text):
            with suppress(ImportError):  # that is said where it is read
                if is_container(self.along(self.first(function, chain.first), chain.attributes).value):
                    self._note_chain(function, chain)
        for chain in sorted(uses.written, key=lambda chain: chain.text):
            self._note_chain(function, chain)
        for attributes in sorted(uses.own_changed) if owner is not NOTHING else ():
            if is_container(self.along(Met(owner), attributes).value):
                self._note(Met(owner), attributes)
        for attributes in sorted(uses.own_written) if owner is not NOTHING else ():
            self._note(Met(owner), attributes)

    def _note_chain(self, function: FunctionType, chain: Chain) -> None:
        if chain.attributes or not isinstance(chain.first, str):
            with suppress(ImportError):  # that is said where it is read
                self._note(self.first(function, chain.first), chain.attributes)
        else:
            self.written.add(_place(function, chain.first))
            self._note(Met(function.__globals__.get(chain.first, NOTHING)), ())

    def _note(self, met: Met, attributes: tuple[str, ...]) -> None:
        if attributes:
            holder = self.along(met, attributes[:-1]).value
            target = self.along(met, attributes).value
            self.written.add((id(holder), attributes[-1]))
        else:
            target = met.value
        if is_container(target):
            self.written.add(id(target))


def _place(function: FunctionType, name: str) -> object:
    """Where the value of a free name is kept: a cell of a closure, or the names of a module."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    return ("cell", id(cells[name])) if name in cells else (id(function.__globals__), name)


def _in_class(kind: type, name: str) -> Met | None:
    if isinstance(kind, EnumMeta):
        return Met(getattr(kind, name)) if hasattr(kind, name) else None
    found = inspect.getattr_static(kind, name, NOTHING)
    if _is_method(found):
        return Met(found, owner=kind)
    if isinstance(found, ClassMethodDescriptorType):  # of a class in C that this one is made from
        return Met(getattr(kind, name))
    return None if found is NOTHING else Met(found, is_held=True)


def _in_object(value: object, name: str) -> Met | None:
    found = inspect.getattr_static(value, name, NOTHING)
    if _is_method(found) and name not in getattr(value, "__dict__", {}):
        return Met(found, owner=value)
    return None if found is NOTHING else Met(getattr(value, name, NOTHING), is_held=True)


def _is_method(found: object) -> bool:
    kinds = (FunctionType, staticmethod, classmethod, property, functools.cached_property, functools.partialmethod)
    return isinstance(found, kinds)


def closure_of(function: FunctionType) -> dict[str, object]:
    """What a function has closed over, by name."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    found = {}
    for name, cell in cells:
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not yet assigned
            continue
    return found


def plain_function(function: object) -> FunctionType | None:
    """The function behind decorators, partials, methods and callable objects; None if there is none."""
    for _ in range(100):  # wrappers may lead back to themselves
        if isinstance(function, functools.partial | functools.partialmethod):
            function = function.func
        elif isinstance(function, MethodType | staticmethod | classmethod):
            function = function.__func__
        elif callable(wrapped := getattr(function, "__wrapped__", None)):
            function = wrapped
        elif isinstance(function, FunctionType):
            return function
        elif function is None or isinstance(function, type):
            return None
        else:
            called = inspect.getattr_static(type(function), "__call__", None)
            function = getattr(function, "func", None) or (called if isinstance(called, FunctionType) else None)
    return None
