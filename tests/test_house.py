"""The rules of the house: who may know whom, and what the package never does."""

import ast
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src" / "seamark").rglob("*.py"))

# the RDD API and the JVM gateway: neither exists over Spark Connect
FORBIDDEN = {
    "rdd",
    "_jvm",
    "_gateway",
    "_jdf",
    "_jsc",
    "_jsparkSession",
    "_jconf",
    "_sc",
    "sparkContext",
    "SparkContext",
}


@pytest.mark.scenario("C33")
def test_the_import_contracts_are_kept():
    told = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.scenario("C33")
@pytest.mark.parametrize("room", ["ledger", "control"])
def test_ledger_and_control_import_without_spark(room, tmp_path):
    program = f"""
        import sys

        class NoSpark:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in ("pyspark", "delta", "py4j"):
                    raise ModuleNotFoundError(f"{{name}} is not installed", name=name)

        sys.meta_path.insert(0, NoSpark())
        import importlib, pkgutil
        room = importlib.import_module("seamark.{room}")
        for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
            importlib.import_module(module.name)
    """
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr


@pytest.mark.scenario("C33")
def test_no_rdd_and_no_jvm_gateway_in_the_package():
    used = [
        f"{source.relative_to(ROOT)}:{node.lineno} {name}"
        for source in SOURCES
        for node in ast.walk(ast.parse(source.read_text()))
        for name in _names(node)
        if name in FORBIDDEN
    ]
    assert used == []


DOOR = ROOT / "src" / "seamark" / "spark" / "frames.py"


# Where only the text says it: our own marks, a client library without codes, the line in a TOML file.
_MAY_SEARCH_TEXTS = {"spark/causes.py", "control/engine/refusals.py", "config/file.py"}


def test_nothing_is_decided_by_the_text_or_the_class_name_of_an_error():
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for file in SOURCES
        if file.relative_to(ROOT / "src" / "seamark").as_posix() not in _MAY_SEARCH_TEXTS
        for node in ast.walk(ast.parse(file.read_text()))
        if _searches_an_error(node)
    ]
    assert found == []


def _searches_an_error(node: ast.AST) -> bool:
    """Whether it is `… in str(error)`, `type(error).__name__ == …`, or `error.message.replace(…)` and the like."""
    match node:
        case ast.Compare(left=left, comparators=[right]):
            return any(_is_text_of_error(side) for side in (left, right))
        case ast.Call(
            func=ast.Attribute(value=text, attr="replace" | "startswith" | "endswith" | "find" | "removesuffix")
        ):
            return _is_text_of_error(text)
        case ast.Call(func=ast.Attribute(attr="search" | "match" | "fullmatch"), args=[*_, text]):
            return _is_text_of_error(text)
    return False


def _is_text_of_error(node: ast.AST) -> bool:
    shown = ast.unparse(node)
    of_error = any(word in shown for word in ("error", "cause", "refusal", "finding", "exception"))
    return of_error and (shown.startswith("str(") or shown.endswith((".message", ".__name__")))


@pytest.mark.scenario("T53")
def test_one_door_makes_spark_frames():
    """PySpark drops the rows after an empty chunk of an Arrow table, so nothing but the door may call it."""
    assert _around_the_door(lambda node: "createDataFrame" in _names(node)) == []


@pytest.mark.scenario("T61")
@pytest.mark.parametrize("exit_", ["toArrow", "toPandas", "toLocalIterator"])
def test_one_door_brings_rows_out_of_spark(exit_):
    """Spark labels moments with the session's time zone, or reads them by its clocks; the door gives them in UTC."""
    assert _around_the_door(lambda node: exit_ in _names(node)) == []


@pytest.mark.scenario("T61")
def test_spark_rows_are_collected_only_where_tasks_report_what_they_wrote():
    """Python objects of Spark's have lost their zone. Reports of tasks are texts and numbers, and no rows of tables."""
    assert _around_the_door(_collects_rows) == []


def test_one_door_reads_files_with_spark():
    """A session may be set up to read on without files that are missing or damaged, and the door does not let it."""
    readers = {"schema", "option", "options", "format", "parquet", "table", "load", "json", "csv", "text", "orc"}

    def reads_files(node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and node.attr in readers and _names(node.value) == ["read"]

    assert _around_the_door(reads_files) == []


def _collects_rows(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="collect", value=ast.Call(func=ast.Attribute(attr="mapInArrow")))):
            return False
        case ast.Call(func=ast.Attribute(attr="collect"), args=[], keywords=[]):
            return True
    return False


def _around_the_door(goes_around: Callable[[ast.AST], bool]) -> list[str]:
    """The places outside the door that do what only the door may do."""
    return [
        f"{source.relative_to(ROOT)}:{node.lineno}"
        for source in SOURCES
        for node in ast.walk(ast.parse(source.read_text()))
        if goes_around(node) and source != DOOR
    ]


def _names(node: ast.AST) -> list[str]:
    match node:
        case ast.Attribute(attr=name):
            return [name]
        case ast.ImportFrom(names=names):
            return [alias.name for alias in names]
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str() as name), *_]):
            return [name]
    return []


def test_spark_is_not_imported_before_it_is_needed(tmp_path):
    program = "import sys, seamark, seamark.config, seamark.spark; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False).returncode == 0
