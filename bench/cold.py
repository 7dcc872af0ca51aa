"""What a process of its own takes from its start: an import, help, one row by key, and the first runs of a diff."""

from __future__ import annotations

import compileall
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path

import seamark
from bench.measure import Figure, best_of, ratio, seconds, shown
from bench.stores import MANY_POSTS, Bench

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "visits"
IMPORTS = 7

ONE_ROW = """
import sys
import seamark as sm
store = sm.DataStore(sys.argv[1], sys.argv[2])
print(store.table("posts").rows().where(f"post_id = {sys.argv[3]}").collect())
"""
FIRST_QUERY = "import seamark as sm; print(sm.spark_session().range(10).toArrow().num_rows)"


@cache
def _compiled() -> None:
    """Compile Seamark's modules, as `pip install` does: a checkout, and some environments, do not."""
    compileall.compile_dir(Path(seamark.__file__).parent, quiet=1)


def output_of(command: Sequence[str | Path], folder: Path | None = None) -> str:
    """What a command of this Python prints."""
    _compiled()
    # Relative entries of the path would lead elsewhere from another folder.
    paths = [str(Path(entry).absolute()) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise RuntimeError(f"{command} failed:\n{ended.stderr}")
    return ended.stdout


def cold_import(bench: Bench, folder: Path) -> Iterator[Figure]:
    """`import seamark` and `seamark --help`, beside Python alone and `import pyarrow`."""
    commands = (["-c", "import seamark"], ["-m", "seamark", "--help"], ["-c", "pass"], ["-c", "import pyarrow"])
    works = [partial(output_of, command) for command in commands]
    imports, helps, python, arrow = best_of([tuple(seconds(work) for work in works) for _ in range(IMPORTS)])
    beside = f"{python:.2f} s Python alone, {arrow:.2f} s import pyarrow"
    for work, took in (("import seamark, cold", imports), ("seamark --help, cold", helps)):
        yield Figure(work, f"{took:.2f} s", beside, took, 0.3, "s")


def first_diff_runs(bench: Bench, folder: Path) -> Iterator[Figure]:
    """The first two small runs of the diff of examples/visits in a new process, which also starts Spark."""
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".seamark", "__pycache__"))
    program = Path(__file__).with_name("visits_program.py")
    first, second = json.loads(output_of([program], folder).splitlines()[-1])
    spark = seconds(lambda: output_of(["-c", FIRST_QUERY]))
    beside = f"{spark:.1f} s Spark's start and first query"
    yield Figure("a diff's first small run, cold", f"{first:.1f} s", beside, first, 8, "s")
    yield Figure("a diff's second small run", f"{second:.1f} s", beside, second, 1.5, "s")


def cold_show(bench: Bench, folder: Path) -> Iterator[Figure]:
    """`seamark show posts --key N` of 10 M posts, against a program that reads the same row with Spark."""
    large = bench.large
    control, warehouse = f"sqlite:///{large.folder.absolute()}/control.db", large.folder.absolute() / "warehouse"
    folder.mkdir(parents=True)
    (folder / "seamark.toml").write_text(
        f'pipeline = "pipeline.py:ds"\ncontrol = "{control}"\nwarehouse = "{warehouse}"\n'
    )
    (folder / "pipeline.py").write_text("import seamark as sm\n\nds = sm.DataStore()\n")
    key = str(MANY_POSTS // 3)

    def one_round() -> tuple[float, float]:
        ours = seconds(lambda: _holds(f"post number {key}", ["-m", "seamark", "show", "posts", "--key", key], folder))
        theirs = seconds(lambda: _holds(f"post number {key}", ["-c", ONE_ROW, control, str(warehouse), key], folder))
        return ours, theirs

    work = f"seamark show posts --key {key}, {shown(MANY_POSTS)} posts, cold: the same with Spark"
    yield ratio(work, *best_of([one_round() for _ in range(2)]), 0.1)


def _holds(text: str, command: Sequence[str], folder: Path) -> None:
    """Run a command, and make sure that it found the row."""
    printed = output_of(command, folder)
    if text not in printed:
        raise RuntimeError(f"{command} did not print '{text}':\n{printed}")
