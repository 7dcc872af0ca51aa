"""`init`: a project that runs at once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from seamark.cli.call import Call
from seamark.cli.verbs import Verb
from seamark.errors import StoreError, UsedWrongly

# Where each file of the template goes. The template has no file with a dot: builds leave such files out.
TEMPLATE = {
    "seamark.toml": "seamark.toml",
    "pipeline.py": "pipeline.py",
    "load.py": "load.py",
    "posts.csv": "data/posts.csv",
    "profiles.csv": "data/profiles.csv",
    "gitignore": ".gitignore",
}


@dataclass(frozen=True, slots=True)
class NewProject:
    """A project that was made: its folder, its files, and the commands to try next."""

    folder: str
    files: tuple[str, ...]
    next: tuple[str, ...]


def init(
    call: Call,
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", show_default=False, help="The folder to make it in; without it, here.")
    ] = Path("."),
) -> None:
    """Make a new project, here or in a folder: a small pipeline with sample data that runs at once.

    Nothing that is there already is overwritten.
    """
    from seamark.cli import render

    call.show(make_project(folder), render.new_project)


def make_project(folder: Path) -> NewProject:
    """Write the template's files into a folder, all of them or none."""
    _refuse_existing_files(folder)
    source = files("seamark.cli") / "template"
    try:
        for name, target in TEMPLATE.items():
            path = folder / target
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((source / name).read_bytes())
    except OSError as error:
        raise StoreError(
            f"the project could not be made in {folder}: {error.strerror} ({error.filename}).",
            hint="name a folder that you may write to.",
        ) from error
    here = os.path.relpath(folder)
    go_there = () if here == "." else (f"cd {here}",)
    commands = (
        *go_there,
        "python load.py",
        "seamark plan",
        "seamark run",
        "seamark show feed",
        "seamark why feed post_id=1",
        "seamark verify --replay",
    )
    return NewProject(str(folder.absolute()), tuple(TEMPLATE.values()), commands)


def _refuse_existing_files(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsedWrongly(f"{folder} is a file. Nothing was written.", hint="name a folder; it need not exist yet.")
    existing = [name for name in TEMPLATE.values() if (folder / name).exists()]
    if existing:
        raise UsedWrongly(
            f"{folder.absolute()} has {', '.join(existing)} already. Nothing was written.",
            hint="name another folder: `init` overwrites nothing.",
        )


VERBS = [Verb("init", init, "seamark init demo", "Begin")]
