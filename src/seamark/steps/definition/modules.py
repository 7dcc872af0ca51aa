"""Which files a module of the project is made of: its own, and those of the modules that it imports. Nothing is run."""

from __future__ import annotations

import ast
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType

from seamark.steps.definition.syntax import NoSource, Sources

log = logging.getLogger("seamark.run")


@dataclass(frozen=True)
class ModuleFile:
    """A module and its file, which a package in several folders does not have. `folders` are those of a package."""

    name: str
    path: str | None
    package: str  # what its relative imports begin at
    folders: tuple[str, ...] = ()


def file_of_module(module: ModuleType) -> ModuleFile:
    """The file of a module that is loaded."""
    name, folders = module.__name__, tuple(getattr(module, "__path__", ()))
    package = getattr(module, "__package__", None) or (name if folders else name.rpartition(".")[0])
    return ModuleFile(name, getattr(module, "__file__", None), package, folders)


def imported_files(
    start: ModuleFile, sources: Sources, is_projects: Callable[[str, str | None], bool]
) -> list[ModuleFile]:
    """The modules of the project that a module imports, and those that these import, by name, without itself."""
    found: dict[str, ModuleFile] = {}
    waiting = [start]
    while waiting:
        for name in _imports(waiting.pop(), sources):
            module = None if name in found or name == start.name else _found(name)
            if module is not None and module.path != start.path and is_projects(name, module.path):
                found[name] = module
                waiting.append(module)
    return [found[name] for name in sorted(found)]


def _imports(module: ModuleFile, sources: Sources) -> Iterator[str]:
    """The names of all modules that a file may import, wherever it does so."""
    try:
        tree = sources.module(module.path or "")
    except NoSource:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, module.package)
            names = [f"{base}.{alias.name}" for alias in node.names] if base else []
        else:
            continue
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[: number + 1]) for number in range(len(parts)))


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    above = parts[: len(parts) - node.level + 1]
    return ".".join([*above, *([node.module] if node.module else [])]) if above and package else ""


def _found(name: str) -> ModuleFile | None:
    """The module of a name, found without loading it or the packages that it is in; None if there is none."""
    loaded = sys.modules.get(name)
    if isinstance(loaded, ModuleType):
        return file_of_module(loaded)
    above = name.rpartition(".")[0]
    around = _found(above) if above else None
    if above and (around is None or not around.folders):
        return None
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, around.folders if around else None)
        except Exception:
            # A finder of some package's: Python's own come after it, and answer for the project's modules.
            log.debug("%r cannot say where module '%s' is", finder, name, exc_info=True)
            continue
        if spec is not None:
            folders = tuple(spec.submodule_search_locations or ())
            return ModuleFile(name, spec.origin if spec.has_location else None, name if folders else above, folders)
    return None
