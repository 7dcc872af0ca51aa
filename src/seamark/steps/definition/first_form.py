"""The first form of functions, as chains of earlier versions hold it: definitions recorded then are compared by it.

It knows a function and the functions that it names directly or as attribute of a module, and nothing else.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from seamark.steps.definition.lookup import closure_of
from seamark.steps.definition.project_files import is_installed
from seamark.steps.definition.syntax import dumped


def first_digest(function: Callable[..., Any]) -> str | None:
    """The digest of a function in the first form, or None if that form cannot express it."""
    try:
        normal = "\n".join(_normal_forms(inspect.unwrap(function), set()))
    except Exception:  # it has no source, or what it names cannot even be looked at
        return None
    return hashlib.sha256(normal.encode()).hexdigest()


def _normal_forms(function: FunctionType, seen: set[int]) -> Iterator[str]:
    if id(function) in seen:
        return
    seen.add(id(function))
    tree = _tree(function)
    yield dumped(tree)
    called = [helper for helper in _called(function, tree) if _is_the_projects(helper)]
    for helper in sorted(called, key=lambda f: (f.__module__, f.__qualname__)):
        yield from _normal_forms(helper, seen)


def _tree(function: FunctionType) -> ast.AST:
    module = ast.parse(textwrap.dedent(inspect.getsource(function)))
    if function.__name__ == "<lambda>":
        lambdas = [node for node in ast.walk(module) if isinstance(node, ast.Lambda)]
        if len(lambdas) != 1:
            raise ValueError("several lambdas are on its lines")
        return lambdas[0]
    node = module.body[0]
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        raise ValueError("its lines are not a function")
    node.decorator_list = []
    node.name = "_"
    for inner in ast.walk(node):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and ast.get_docstring(inner):
            inner.body = inner.body[1:] or [ast.Pass()]
    return node


def _called(function: FunctionType, tree: ast.AST) -> Iterator[FunctionType]:
    known = {**function.__globals__, **closure_of(function)}
    for node in ast.walk(tree):
        found: object = None
        if isinstance(node, ast.Name):
            found = known.get(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = known.get(node.value.id)
            found = getattr(owner, node.attr, None) if isinstance(owner, ModuleType) else None
        plain = getattr(found, "func", found) if callable(getattr(found, "func", None)) else found  # a Spark UDF
        if callable(plain):
            plain = inspect.unwrap(plain)
        if isinstance(plain, FunctionType):
            yield plain


def _is_the_projects(function: FunctionType) -> bool:
    try:
        path = inspect.getfile(function)
    except TypeError:
        return False
    return not is_installed(function.__module__, path)
