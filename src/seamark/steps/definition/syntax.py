"""The syntax of a function or class, found by its code, and its text in normal form."""

from __future__ import annotations

import ast
import linecache
import sys
import textwrap
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import TypeAlias

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_Span: TypeAlias = tuple[tuple[int, int], tuple[int, int]]  # (line, column) of the first sign and after the last


class NoSource(Exception):
    """The source of a function or class is not available, for the reason that its text gives."""


class Sources:
    """Syntax trees by file: each file is parsed once."""

    def __init__(self) -> None:
        self._trees: dict[str, ast.Module] = {}

    def function(self, code: CodeType) -> FunctionNode:
        """The function that some code was compiled from, or `NoSource`."""
        tree = self._tree(code.co_filename)
        if code.co_name == "<lambda>":
            return _lambda(tree, code)
        for node in ast.walk(tree):
            if isinstance(node, _FUNCTIONS) and node.name == code.co_name and _first_line(node) == code.co_firstlineno:
                return node
        raise NoSource(f"{code.co_filename} does not have it at line {code.co_firstlineno}")

    def classes(self, kind: type) -> list[ast.ClassDef]:
        """All classes with the name of a class in its file; `NoSource` if there is none."""
        path = file_of_class(kind)
        if path is None:
            raise NoSource("its file is not known")
        wanted = kind.__qualname__.replace(".<locals>", "")
        found = [node for name, node in _named_classes(self._tree(path)) if name == wanted]
        if not found:
            raise NoSource(f"{path} does not have it")
        return found

    def module(self, path: str) -> ast.Module:
        """A whole file."""
        return self._tree(path)

    def text(self, code: CodeType) -> str:
        """The lines of a function as they are in its file, with its decorators."""
        node = self.function(code)
        first = node.lineno if isinstance(node, ast.Lambda) else _first_line(node)
        lines = linecache.getlines(code.co_filename)[first - 1 : node.end_lineno]
        return textwrap.dedent("".join(lines)).rstrip() + "\n"

    def _tree(self, path: str) -> ast.Module:
        if path not in self._trees:
            linecache.checkcache(path)
            lines = linecache.getlines(path)
            if not lines:
                raise NoSource(f"{path} has no lines to read")
            try:
                self._trees[path] = ast.parse("".join(lines))
            except (SyntaxError, ValueError) as error:
                raise NoSource(f"{path} cannot be read as Python: {error}") from None
        return self._trees[path]


def file_of_class(kind: type) -> str | None:
    """The file that a class is written in, or None if that is not known."""
    module = sys.modules.get(kind.__module__)
    path = getattr(module, "__file__", None)
    if path is None:  # a module that is not registered, such as a cell of a notebook: its methods know
        codes = [member.__code__ for member in vars(kind).values() if isinstance(member, FunctionType)]
        path = next((code.co_filename for code in codes if code.co_qualname.startswith(kind.__qualname__)), None)
    return path


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _named_classes(node: ast.AST, outer: str = "") -> Iterator[tuple[str, ast.ClassDef]]:
    for child in ast.iter_child_nodes(node):
        name = f"{outer}.{child.name}" if outer and isinstance(child, _DOCUMENTED) else getattr(child, "name", outer)
        if isinstance(child, ast.ClassDef):
            yield name, child
        yield from _named_classes(child, name if isinstance(child, _DOCUMENTED) else outer)


def _lambda(tree: ast.Module, code: CodeType) -> ast.Lambda:
    """The lambda that some code was compiled from: of several on a line the one that holds all places of the code."""
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Lambda) and n.lineno == code.co_firstlineno]
    if len(found) > 1:
        places = [_span(place) for place in code.co_positions()]
        inside = [place for place in places if place is not None]
        found = [node for node in found if inside and all(_holds(_body_span(node), place) for place in inside)]
        found.sort(key=lambda node: _body_span(node)[0], reverse=True)  # the innermost begins last
    if not found:
        raise NoSource("several lambdas are on its line")
    return found[0]


def _span(place: tuple[int | None, int | None, int | None, int | None]) -> _Span | None:
    line, end_line, column, end_column = place
    if line is None or end_line is None or column is None or end_column is None:
        return None
    return ((line, column), (end_line, end_column)) if (line, column) < (end_line, end_column) else None


def _body_span(node: ast.Lambda) -> _Span:
    body = node.body
    return (body.lineno, body.col_offset), (body.end_lineno or body.lineno, body.end_col_offset or body.col_offset)


def _holds(outer: _Span, inner: _Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


# --- the normal form --------------------------------------------------------------------------------------------------


def dumped(node: object) -> str:
    """A syntax tree as text, without its empty fields: versions of Python differ in which of these they have."""
    if isinstance(node, ast.AST):
        named = {name: value for name, value in ast.iter_fields(node) if name not in ("kind", "type_comment")}
        fields = [f"{name}={dumped(value)}" for name, value in named.items() if value is not None and value != []]
        return f"{type(node).__name__}({', '.join(fields)})"
    return f"[{', '.join(map(dumped, node))}]" if isinstance(node, list) else repr(node)


def normal_syntax(node: ast.AST) -> str:
    """A function, class or module as text, without docstrings; a function also without its name and declaration."""
    copied = _without_docstrings(node)
    if isinstance(copied, _FUNCTIONS):
        copied.name = "_"
        copied.decorator_list = _after_declaration(copied.decorator_list)
    return dumped(copied)


def _without_docstrings(node: ast.AST) -> ast.AST:
    class Stripped(ast.NodeTransformer):
        def generic_visit(self, inner: ast.AST) -> ast.AST:
            super().generic_visit(inner)
            if isinstance(inner, (*_DOCUMENTED, ast.Module)) and ast.get_docstring(inner, clean=False) is not None:
                inner.body = inner.body[1:] or [ast.Pass()]
            return inner

    return Stripped().visit(_copied(node))


def _copied(node: ast.AST) -> ast.AST:
    """A copy of a syntax tree: the tree itself is looked at by others too."""
    values: dict[str, object] = {}
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            values[name] = _copied(value)
        elif isinstance(value, list):
            values[name] = [_copied(entry) if isinstance(entry, ast.AST) else entry for entry in value]
        else:
            values[name] = value
    return type(node)(**values)


def _after_declaration(decorators: list[ast.expr]) -> list[ast.expr]:
    """The decorators below `@ds.transform(…)`, which declares the step: its inputs and keys count by themselves."""
    places = [place for place, node in enumerate(decorators) if _declares(node)]
    return decorators[places[-1] + 1 :] if places else decorators


def _declares(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "transform"
