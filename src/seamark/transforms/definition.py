"""What a step's rows are made by: its function in normal form, its inputs, outputs and keys; written into the chain."""

from __future__ import annotations

import ast
import difflib
import hashlib
import inspect
import json
import re
import sys
import sysconfig
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from seamark.errors import InvalidStep
from seamark.ledger import SetTransform, SqlQueryStep, TransformInput, TransformSql

ENGINE = "seamark"


@dataclass(frozen=True)
class Definition:
    """A step as its outputs' chains hold it. Two are the same if `counts` is: a comment changes nothing."""

    step: str
    kind: str  # "python", "pandas" or "sql"
    function: str
    source: str
    digest: str
    inputs: tuple[tuple[str, bool, tuple[tuple[str, str], ...]], ...]  # table, required, join keys
    outputs: tuple[str, ...]
    keys: tuple[str, ...]
    version: str | None = None

    @property
    def counts(self) -> tuple[object, ...]:
        """What decides whether rows made by one definition are as good as those made by another."""
        by = ("version", self.version) if self.version is not None else ("digest", self.digest)
        return (self.step, self.kind == "pandas", by, self.inputs, self.outputs, self.keys)

    def adds_outputs_to(self, older: Definition) -> bool:
        """Whether there are outputs that an older definition did not have, and all that it had."""
        return set(self.outputs) > set(older.outputs)

    def set_transform(self, dataset_ids: Mapping[str, str]) -> SetTransform:
        """The event that says so in a chain, with the inputs' ids in declared order."""
        tables = dict.fromkeys(table for table, _, _ in self.inputs)
        facts = {
            "kind": self.kind,
            "function": self.function,
            "digest": self.digest,
            "version": self.version,
            "inputs": [{"table": t, "required": r, "join_keys": dict(j)} for t, r, j in self.inputs],
            "outputs": list(self.outputs),
            "keys": list(self.keys),
        }
        queries = (SqlQueryStep(self.step, json.dumps(facts, ensure_ascii=False)), SqlQueryStep(None, self.source))
        return SetTransform(
            tuple(TransformInput(dataset_ids[table], table) for table in tables), TransformSql(ENGINE, queries=queries)
        )


def from_chain(event: SetTransform) -> Definition | None:
    """The definition that a chain holds, or None if somebody else wrote it."""
    transform = event.transform
    if not isinstance(transform, TransformSql) or transform.engine != ENGINE or len(transform.queries or ()) != 2:
        return None
    head, body = transform.queries or ()
    facts = json.loads(head.query)
    return Definition(
        step=head.alias or "",
        kind=facts["kind"],
        function=facts["function"],
        source=body.query,
        digest=facts["digest"],
        inputs=tuple((i["table"], i["required"], tuple(i["join_keys"].items())) for i in facts["inputs"]),
        outputs=tuple(facts["outputs"]),
        keys=tuple(facts["keys"]),
        version=facts["version"],
    )


def is_same(event: SetTransform, definition: Definition, dataset_ids: Mapping[str, str]) -> bool:
    """Whether a chain's definition is as good as this one, on the same inputs."""
    older = from_chain(event)
    found = {entry.alias: entry.dataset_ref for entry in event.inputs}
    return older is not None and older.counts == definition.counts and found == dict(dataset_ids)


def difference(older: Definition, newer: Definition) -> str:
    """What changed between two definitions, for a person to read."""
    lines = []
    for name in ("step", "kind", "version", "keys", "outputs"):
        one, other = getattr(older, name), getattr(newer, name)
        if one != other:
            lines.append(f"{name}: {_shown(one)} -> {_shown(other)}")
    if older.inputs != newer.inputs:
        lines.append(f"inputs: {_inputs_shown(older)} -> {_inputs_shown(newer)}")
    if older.source != newer.source:
        changed = difflib.unified_diff(
            older.source.splitlines(), newer.source.splitlines(), "as it was", "as it is", lineterm=""
        )
        lines += list(changed)
    elif older.digest != newer.digest:
        lines.append("a function that it calls has changed")
    return "\n".join(lines)


def _shown(value: object) -> str:
    return ", ".join(value) or "none" if isinstance(value, tuple) else str(value)


def _inputs_shown(definition: Definition) -> str:
    return ", ".join(
        table + (" (required)" if required else "") + (f" by {dict(join)}" if join else "")
        for table, required, join in definition.inputs
    )


# --- SQL in normal form -----------------------------------------------------------------------------------------------

# What is between quotes stays as it is; between other words any run of space and comments is one space. A hint, which
# looks like a comment, counts.
_SQL = re.compile(
    r"""(?P<quoted> \b[rR]'[^']*' | \b[rR]"[^"]*" | '(?:\\.|[^'\\])*' | "(?:\\.|[^"\\])*" | `[^`]*` )
      | (?P<space> (?: \s+ | --[^\n]* | /\*(?!\+).*?\*/ )+ )""",
    re.VERBOSE | re.DOTALL,
)


def normal_sql(text: str) -> str:
    """A query without comments and layout: two that are equal so give the same rows."""
    return _SQL.sub(lambda found: found.group("quoted") or " ", text).strip()


# --- functions in normal form -----------------------------------------------------------------------------------------


def source_and_digest(step: str, function: Callable[..., Any], version: str | None) -> tuple[str, str]:
    """A function's source, and a digest of its normal form and that of the project's functions that it calls.

    With a `version` that alone decides, and a function without source is no trouble.
    """
    plain = inspect.unwrap(function)
    try:
        source = textwrap.dedent(inspect.getsource(plain))
        normal = "\n".join(_normal_forms(plain, set()))
    except (OSError, TypeError, SyntaxError, ValueError) as error:
        if version is not None:
            return f"# {getattr(plain, '__qualname__', plain)!s} (no source)", ""
        raise InvalidStep(
            f"step '{step}': the source of its function {getattr(plain, '__qualname__', plain)!s} cannot be had "
            f"({error}), so that a change of it could not be noticed. It was not added.",
            hint='give version="1", and another one whenever the function changes.',
        ) from None
    return source.rstrip() + "\n", hashlib.sha256(normal.encode()).hexdigest()


def _normal_forms(function: FunctionType, seen: set[int]) -> Iterator[str]:
    """The syntax trees of a function and of the project's that it calls: without comments, layout and docstrings."""
    if id(function) in seen:
        return
    seen.add(id(function))
    tree = _tree(function)
    yield _dumped(tree)
    called = [helper for helper in _called(function, tree) if _is_the_projects(helper)]
    for helper in sorted(called, key=lambda f: (f.__module__, f.__qualname__)):
        yield from _normal_forms(helper, seen)


def _dumped(node: object) -> str:
    """A syntax tree as text, without its empty fields: versions of Python differ in which of these they have."""
    if isinstance(node, ast.AST):
        told = {name: value for name, value in ast.iter_fields(node) if name not in ("kind", "type_comment")}
        fields = [f"{name}={_dumped(value)}" for name, value in told.items() if value is not None and value != []]
        return f"{type(node).__name__}({', '.join(fields)})"
    return f"[{', '.join(map(_dumped, node))}]" if isinstance(node, list) else repr(node)


def _tree(function: FunctionType) -> ast.AST:
    module = ast.parse(textwrap.dedent(inspect.getsource(function)))
    if function.__name__ == "<lambda>":
        lambdas = [node for node in ast.walk(module) if isinstance(node, ast.Lambda)]
        if len(lambdas) != 1:
            raise ValueError("several lambdas stand on its lines")
        return lambdas[0]
    node = module.body[0]
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        raise ValueError("its lines are not a function")
    node.decorator_list = []  # the declaration: inputs, outputs and keys count by themselves
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


_FOLDERS = ("stdlib", "platstdlib", "purelib", "platlib")
_INSTALLED = tuple(Path(path).resolve() for name in _FOLDERS if (path := sysconfig.get_path(name)))


def _is_the_projects(function: FunctionType) -> bool:
    """Whether a function is the project's own, not one of Python's or of an installed package."""
    if function.__module__.partition(".")[0] in ("seamark", *sys.builtin_module_names):
        return False
    try:
        path = Path(inspect.getfile(function)).resolve()
    except TypeError:
        return False
    return not any(path.is_relative_to(folder) for folder in _INSTALLED)


def is_project_module(module: ModuleType) -> bool:
    """Whether a module is a file of the project: executors may not find it by name."""
    path = getattr(module, "__file__", None)
    return path is not None and not any(Path(path).resolve().is_relative_to(folder) for folder in _INSTALLED)
