"""What can be known of callables of Python's and of packages: their names, what they were made from and belong to."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterator
from types import BuiltinFunctionType, MethodType, MethodWrapperType, ModuleType

from seamark.steps.definition.project_files import is_installed
from seamark.steps.definition.values import container_items, is_of_no_account


def wrapped_in(value: object) -> object | None:
    """The function that a callable was made from, if it says so: one with a cache, a vectorised one, a Spark UDF."""
    if not callable(value):
        return None
    names = ("__wrapped__", "func", "pyfunc")
    found = [inspect.getattr_static(value, name, None) and getattr(value, name, None) for name in names]
    return next((entry for entry in found if callable(entry)), None)


def callables_in(value: object) -> Iterator[object]:
    """A value if it can be called, or what can be called in a container."""
    items = container_items(value)
    for entry in [value] if items is None else [item[-1] for item in items]:
        if callable(entry):
            yield entry


def is_bound(value: object) -> bool:
    """Whether a callable brings values along: a partial, or a method of an object."""
    if isinstance(value, functools.partial):
        return True
    kinds = (BuiltinFunctionType, MethodType, MethodWrapperType)
    return isinstance(value, kinds) and not isinstance(value.__self__, ModuleType | type | None)


def is_in_a_package(name: str, owner: object) -> bool:
    """Whether a method is one that a package offers as a function, such as `random.random`."""
    for module, found in _under(name):
        if isinstance(found, MethodType | BuiltinFunctionType) and found.__self__ is owner:
            return is_installed(module.__name__, getattr(module, "__file__", None))
    return False


def module_of(value: object) -> ModuleType | None:
    """The module that a callable says it comes from."""
    found = sys.modules.get(str(getattr(value, "__module__", None)))
    return found if isinstance(found, ModuleType) else None


def name_of(value: object, *known: str) -> str:
    """The name of a package's function or class, such as `math:floor`.

    Nothing if it has none, if it is among those names that the syntax has, or the package has it under one of these.
    """
    name = getattr(value, "__name__", None) if callable(value) else None
    if not isinstance(name, str) or name in known or is_bound(value) or is_of_no_account(type(value)):
        return ""
    top = _package_of(value)
    if not top or any(found is value and _top(module.__name__) == top for n in known for module, found in _under(n)):
        return ""
    return f"{top}:{getattr(value, '__qualname__', name)}"


def _package_of(value: object) -> str:
    owner = getattr(value, "__self__", None) or getattr(value, "__objclass__", None)
    module = owner.__name__ if isinstance(owner, ModuleType) else getattr(owner or value, "__module__", None)
    return _top(module) if isinstance(module, str) else type(value).__module__.partition(".")[0]


def _top(module: str) -> str:
    return module.partition(".")[0].removeprefix("_")


def _under(name: str) -> Iterator[tuple[ModuleType, object]]:
    """What the modules that are loaded have under a name."""
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and name in vars(module):
            yield module, vars(module)[name]
