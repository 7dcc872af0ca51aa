"""The rules of the house: who may know whom, and what the package never does."""

import ast
import os
import subprocess
import sys
import textwrap
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


@pytest.mark.scenario("T53")
def test_one_door_makes_spark_frames():
    """PySpark drops the rows after an empty chunk of an Arrow table, so nothing but the door may call it."""
    door = ROOT / "src" / "seamark" / "spark" / "frames.py"
    used = [
        f"{source.relative_to(ROOT)}:{node.lineno}"
        for source in SOURCES
        for node in ast.walk(ast.parse(source.read_text()))
        if "createDataFrame" in _names(node) and source != door
    ]
    assert used == []


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
