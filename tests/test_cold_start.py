"""What a new process loads: little, so that `import seamark` and `seamark --help` are there at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import seamark as sm

# The command line itself, and what draws its help.
FOR_HELP = {"typer", "rich", "annotated_doc", "markdown_it", "mdurl", "pygments", "shellingham", "typing_extensions"}

_LOADED = """
import json, sys
before = set(sys.modules)
{program}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded_by(program: str, folder: Path) -> list[str]:
    """The modules that a program loads in a process of its own, that Python does not bring."""
    ended = subprocess.run(
        [sys.executable, "-c", _LOADED.format(program=program)], cwd=folder, capture_output=True, text=True, check=True
    )
    modules = json.loads(ended.stdout.splitlines()[-1])
    return [name for name in modules if name.partition(".")[0] not in sys.stdlib_module_names]


@pytest.mark.scenario("C6")
def test_importing_seamark_loads_nothing_else(tmp_path):
    assert loaded_by("import seamark", tmp_path) == ["seamark"]


@pytest.mark.scenario("C6")
def test_help_loads_only_the_command_line(tmp_path):
    loaded = loaded_by("from seamark.cli import run; assert run(['--help']) == 0", tmp_path)
    assert {name.partition(".")[0] for name in loaded} - {"seamark"} <= FOR_HELP
    own = [name for name in loaded if name.startswith("seamark.")]
    assert len(own) < 30, own  # verbs fetch what they need when they are called


@pytest.mark.scenario("C6")
def test_opening_a_store_and_declaring_a_step_loads_neither_pandas_nor_spark_connect(tmp_path):
    program = """
import seamark as sm
ds = sm.DataStore("sqlite:///control.db", "warehouse")
a, b = (ds.table(name, "id long", key="id") for name in "ab")
ds.add(sm.BatchTransform(lambda a: a, inputs=[a], outputs=[b], name="copy", version="1"))
assert list(ds.plan()) == ["copy"]
"""
    assert {"pandas", "chdb", "grpc"}.isdisjoint(loaded_by(program, tmp_path))


@pytest.mark.scenario("C6")
@pytest.mark.parametrize("name", sm.__all__)
def test_every_name_is_there_once_it_is_used(name):
    assert name in dir(sm)
    assert getattr(sm, name).__name__.rpartition(".")[2] == name
