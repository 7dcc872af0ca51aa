"""What README and docs show is run: the Python of each page, from top to bottom, in a folder of its own."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.support.views import SHOP

from seamark.views.checks.check import Surroundings, check
from seamark.views.language.script import read_script
from seamark.views.table_info import KnownTables

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
STATEMENTS = re.compile(r"^```sql\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def programs(page: Path) -> list[str]:
    return FENCE.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [page for page in PAGES if programs(page)], ids=lambda page: page.name)
def test_the_programs_of_a_page_run(
    page: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for number, program in enumerate(programs(page)):
        # each lies in a file, as a reader's would: a step wants to know the source of its function
        file = tmp_path / f"{page.stem}_{number}.py"
        file.write_text(program, encoding="utf-8")
        exec(compile(program, str(file), "exec"), names)
    assert len(names) > 2, "a page with programs leaves names behind"


def test_the_first_program_has_at_most_fifteen_lines() -> None:
    first, *_ = programs(ROOT / "README.md")
    assert len([line for line in first.splitlines() if line.strip()]) <= 15


@pytest.mark.scenario("V7")
def test_statements_that_a_page_shows_have_no_error() -> None:
    pages = [page.read_text(encoding="utf-8") for page in PAGES]
    shown = [text for page in pages for text in STATEMENTS.findall(page) if "CREATE" in text]
    assert shown
    surroundings = Surroundings(KnownTables.of(*SHOP.infos.values()))
    found = [check(read_script(text), surroundings).issues for text in shown]
    assert [str(issues) for issues in found if not issues.ok] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    broken = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]
    assert broken == []


def test_the_files_that_the_architecture_names_exist() -> None:
    package, page = ROOT / "src" / "seamark", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_/]+(?:\.py|/))`", page)
    assert len(named) > 60
    rooms = [folder for line in page.splitlines() if (folder := re.match(r"\| `([a-z]+)/`", line))]
    inside = {f"{room[1]}/{name}" for room in rooms for name in re.findall(r"`([a-z]+/)`", room.string)[1:]}
    places = inside | {name for name in named if name.endswith(".py") or f"| `{name}`" in page}
    assert [name for name in sorted(places) if not (package / name).exists()] == []


def test_the_layers_of_the_architecture_are_those_that_are_checked() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = page.partition("## Layers")[2].partition("\n## ")[0].splitlines()
    shown = [re.findall(r"`([a-z_]+)(?:/|\.py)`", row.split("|")[1]) for row in rows if row.startswith("| `")]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    checked = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    height = {name: place for place, line in enumerate(checked) for name in re.findall(r"[a-z]+(?:_[a-z]+)*", line)}
    heights = [[height[name] for name in row] for row in shown]
    assert len(heights) > 12
    assert [row for row, (above, below) in zip(shown, pairwise(heights), strict=False) if max(above) > min(below)] == []
    package = ROOT / "src" / "seamark"
    there = {path.name.removesuffix(".py") for path in package.iterdir() if not path.name.startswith("_")}
    assert there == {name for row in shown for name in row}
