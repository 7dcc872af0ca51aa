"""Which names a function uses that come from outside of it: chains such as `pkg.mod.helper`. Pure syntax."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from seamark.steps.definition.syntax import FunctionNode

# Methods of Python's own containers that change what they hold.
CHANGING = frozenset(
    (
        *("append", "appendleft", "add", "extend", "extendleft", "insert", "update", "setdefault", "sort", "reverse"),
        *("pop", "popitem", "popleft", "clear", "remove", "discard"),
        *("difference_update", "intersection_update", "symmetric_difference_update"),
    )
)


@dataclass(frozen=True, order=True)
class Imported:
    """A name that a function imports by itself: a module, or something in it."""

    module: str
    name: str = ""  # empty if the module itself is meant
    level: int = 0  # how many packages up, for `from . import …`


@dataclass(frozen=True)
class Chain:
    """A name and the attributes taken from it, one after another."""

    first: str | Imported
    attributes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The chain as somebody would write it."""
        first = self.first
        if isinstance(first, Imported):
            first = "." * first.level + ".".join(part for part in (first.module, first.name) if part)
        return ".".join((first, *self.attributes))


@dataclass(frozen=True)
class Uses:
    """What a function refers to.

    `free` begin with a name from outside the function; `own` with its first parameter, which is left out: the object
    that a method belongs to. `written` are those of both kinds whose value the function changes,
    and `changed` those that it calls a method of by which containers are changed: they may be something else.
    """

    free: tuple[Chain, ...]
    own: tuple[tuple[str, ...], ...]
    written: frozenset[Chain]
    own_written: frozenset[tuple[str, ...]]
    changed: frozenset[Chain]
    own_changed: frozenset[tuple[str, ...]]


def uses_of(node: FunctionNode) -> Uses:
    """What a function refers to, each once, in a fixed order."""
    finder = _Finder(node)
    finder.look_into(node, [node.body] if isinstance(node, ast.Lambda) else node.body)
    free = sorted(set(finder.free), key=lambda chain: chain.text)
    return Uses(
        tuple(free),
        tuple(sorted(set(finder.own))),
        frozenset(finder.written),
        frozenset(finder.own_written),
        frozenset(finder.changed),
        frozenset(finder.own_changed),
    )


def default_names(node: FunctionNode) -> set[str]:
    """The names that the defaults of a function end in: `int`, or `floor` of `math.floor`."""
    given = [default for default in (*node.args.defaults, *node.args.kw_defaults) if default is not None]
    chains = [named for default in given if (named := _chain_of(default)) is not None]
    return {attributes[-1] if attributes else first for first, attributes in chains}


_Bound: TypeAlias = dict[str, Imported | None]
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, *_COMPREHENSIONS)


@dataclass
class _Scope:
    bound: _Bound
    is_class: bool = False


class _Finder:
    """Walks a function, knowing at each place which names are the function's own."""

    def __init__(self, root: FunctionNode) -> None:
        self.free: list[Chain] = []
        self.own: list[tuple[str, ...]] = []
        self.written: list[Chain] = []
        self.own_written: list[tuple[str, ...]] = []
        self.changed: list[Chain] = []
        self.own_changed: list[tuple[str, ...]] = []
        self._scopes: list[_Scope] = []
        parameters = [*root.args.posonlyargs, *root.args.args]
        self._first = parameters[0].arg if parameters else None

    def look_into(self, node: ast.AST, body: Iterable[ast.AST], *, is_class: bool = False) -> None:
        """Look at a scope from the inside."""
        self._scopes.append(_Scope(_bound_in(node), is_class))
        self._visit(body)
        self._scopes.pop()

    def _visit(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self._visit_one(node)

    def _visit_one(self, node: ast.AST) -> None:
        """Annotations are not looked at: nothing is computed by them."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._visit([*node.decorator_list, *node.args.defaults, *node.args.kw_defaults])
                self.look_into(node, node.body)
            case ast.Lambda():
                self._visit([*node.args.defaults, *node.args.kw_defaults])
                self.look_into(node, [node.body])
            case ast.ClassDef():
                self._visit([*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)])
                self.look_into(node, node.body, is_class=True)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self.look_into(node, ast.iter_child_nodes(node))
            case ast.AnnAssign():
                self._visit([node.target, node.value])
            case ast.Name():
                self._visit_name(node)
            case ast.Attribute():
                self._visit_attribute(node)
            case _:
                self._note_change(node)
                self._visit(ast.iter_child_nodes(node))

    def _visit_name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._use(node.id, ())
        elif self._scope_of(node.id) is None:  # declared global or nonlocal
            self._write(node.id, ())

    def _visit_attribute(self, node: ast.Attribute) -> None:
        named = _chain_of(node)
        if named is None:
            self._visit_one(node.value)
        elif isinstance(node.ctx, ast.Load):
            self._use(*named)
        else:
            self._write(*named)

    def _note_change(self, node: ast.AST) -> None:
        """Note a container that is written to: `cache[key] = …`, `calls.append(…)`."""
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            named = _chain_of(node.value)
            if named is not None:
                self._write(*named)
        elif isinstance(node, ast.Call):
            named = _chain_of(node.func)
            if named is not None and named[1] and named[1][-1] in CHANGING:
                self._note(named[0], named[1][:-1], self.changed, self.own_changed)

    def _use(self, name: str, attributes: tuple[str, ...]) -> None:
        self._note(name, attributes, self.free, self.own)

    def _write(self, name: str, attributes: tuple[str, ...]) -> None:
        self._note(name, attributes, self.written, self.own_written)

    def _note(self, name: str, attributes: tuple[str, ...], free: list[Chain], own: list[tuple[str, ...]]) -> None:
        scope = self._scope_of(name)
        if scope is None:
            free.append(Chain(name, attributes))
            return
        imported = scope.bound[name]
        if imported is not None:
            free.append(Chain(imported, attributes))
        elif scope is self._scopes[0] and name == self._first:
            own.append(attributes)

    def _scope_of(self, name: str) -> _Scope | None:
        """The scope that a name is bound in, seen from here; None if it is bound outside the function."""
        for depth, scope in enumerate(reversed(self._scopes)):
            if name in scope.bound and not (scope.is_class and depth > 0):
                return scope
        return None


def _chain_of(node: ast.expr) -> tuple[str, tuple[str, ...]] | None:
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    return (node.id, tuple(reversed(attributes))) if isinstance(node, ast.Name) else None


# --- which names a scope binds ----------------------------------------------------------------------------------------


def _bound_in(node: ast.AST) -> _Bound:
    """The names that a function, class or comprehension binds itself."""
    bound: _Bound = {}
    outside: set[str] = set()
    for inner in _own_nodes(node):
        if isinstance(inner, ast.Global | ast.Nonlocal):
            outside.update(inner.names)
        for name, imported in _binds(inner):
            bound[name] = imported or bound.get(name)
    return {name: imported for name, imported in bound.items() if name not in outside}


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope without those of the scopes inside it, which it only names."""
    starts: Iterable[ast.AST] = ast.iter_child_nodes(node)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        starts = [node.args, *node.body]
    elif isinstance(node, ast.ClassDef):
        starts = node.body
    waiting = list(starts)
    while waiting:
        inner = waiting.pop()
        yield inner
        if isinstance(inner, _COMPREHENSIONS):  # `:=` binds in the scope around a comprehension
            waiting += [n.target for n in ast.walk(inner) if isinstance(n, ast.NamedExpr)]
        elif not isinstance(inner, _SCOPES):
            waiting += ast.iter_child_nodes(inner)


def _binds(node: ast.AST) -> Iterator[tuple[str, Imported | None]]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name, None
        case ast.arg(arg=name):
            yield name, None
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name, None
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name, None
        case ast.MatchMapping(rest=str(name)):
            yield name, None
        case ast.Import(names=names):
            for alias in names:
                first = alias.name.partition(".")[0]
                yield (alias.asname, Imported(alias.name)) if alias.asname else (first, Imported(first))
        case ast.ImportFrom(module=module, names=names, level=level):
            for alias in names:
                yield alias.asname or alias.name, Imported(module or "", alias.name, level)
