"""What docs/ shows as the output of a command, or as the value of an expression, is what comes out.

A block is compared if its first line is a command (`$ seamark …`) or an expression (`>>> …`). The comment above it
names the stage, a project of tests/support/stages.py: `<!-- stage: renamed -->`. Hashes, times, durations, sizes and
folders may differ, and a line `…` stands for lines that are left out. With SEAMARK_WRITE_DOCS=1 in the environment
blocks that differ are written anew.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from pprint import pformat

import pytest
from tests.support.stages import STAGES, store_at

from seamark.control import BlockEntry

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(
    r"(?:<!-- stage: (?P<stage>[^>]+) -->\n)?```\w*\n(?P<text>(?:\$ |>>> ).*?)^```", re.MULTILINE | re.DOTALL
)
HOME = "/home/me/demo"


@dataclass(frozen=True)
class Shown:
    """One command or expression of a page, what the page says comes out, and the stage it is run on."""

    page: Path
    stage: str | None
    commands: tuple[tuple[str, str], ...]
    block: str

    def with_outputs(self, outputs: list[str]) -> str:
        """The block with other outputs."""
        begin = self.block[: self.block.index(self.commands[0][0])]
        pairs = zip(self.commands, outputs, strict=True)
        return begin + "".join(f"{command}\n{output}" for (command, _), output in pairs) + "```"

    def __str__(self) -> str:
        return f"{self.page.name}: {self.commands[0][0]}"


def shown_on(page: Path) -> list[Shown]:
    return [
        Shown(page, found["stage"], tuple(_commands(found["text"])), found[0])
        for found in BLOCK.finditer(page.read_text(encoding="utf-8"))
    ]


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command or expression, with its sign, and the lines up to the next."""
    for part in re.split(r"^(?=\$ |>>> )", text, flags=re.MULTILINE):
        if part:
            command, _, output = part.partition("\n")
            yield command, output


ALL = [shown for page in PAGES for shown in shown_on(page)]


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory, spark: object) -> Iterator[Callable[[str], Path]]:
    """Makes a copy of a stage, in a folder whose name is as long as that in the pages; each is built once."""
    built: dict[str, Path] = {}
    copies: list[Path] = []

    def make(name: str) -> Path:
        if name not in built:
            built[name] = tmp_path_factory.mktemp("stage")
            STAGES[name](built[name])
        copies.append(Path(tempfile.mkdtemp(prefix="", dir="/tmp")))
        assert len(str(copies[-1])) == len(HOME)
        return Path(shutil.copytree(built[name], copies[-1], dirs_exist_ok=True))

    yield make
    for folder in copies:
        shutil.rmtree(folder)


def test_every_block_names_a_stage_that_there_is():
    assert len(ALL) >= 20
    assert [str(shown) for shown in ALL if shown.stage not in STAGES] == []


@pytest.mark.scenario("C53")
@pytest.mark.parametrize("shown", ALL, ids=str)
def test_what_a_page_shows_comes_out(shown, stage, call, monkeypatch):
    folder = stage(shown.stage)
    monkeypatch.setenv("COLUMNS", "100")
    outputs = []
    for command, expected in shown.commands:
        actual = _outcome(command, folder, expected, call).replace(str(folder), HOME)
        is_right = _matches(normal(expected), normal(actual))
        outputs.append(expected if is_right else _trimmed(actual))
        if not is_right and not os.environ.get("SEAMARK_WRITE_DOCS"):
            assert normal(actual) == normal(expected)
    page = shown.page.read_text(encoding="utf-8")
    if (written := shown.with_outputs(outputs)) != shown.block:
        shown.page.write_text(page.replace(shown.block, written, 1), encoding="utf-8")


def _outcome(command: str, folder: Path, expected: str, call: Callable[..., object]) -> str:
    """What a command prints, or what an expression over the stage's store is."""
    if command.startswith(">>> "):
        with store_at(folder) as store:
            return pformat(eval(command[4:], {"ds": store}), sort_dicts=False, width=100) + "\n"
    words = shlex.split(command[2:])
    assert words[0] == "seamark"
    told = call(*[_block_meant(word, words, folder, expected) for word in words[1:]], folder=folder)
    return told.out + told.err


def _block_meant(word: str, words: list[str], folder: Path, expected: str) -> str:
    """The hash of a block that the page shows, as it is on the stage: the one with the same sequence number."""
    if words[words.index(word) - 1] != "--block":
        return word
    sequence = int(re.search(r"sequenceNumber: (\d+)", expected)[1])
    with store_at(folder) as store:
        found: list[BlockEntry] = store.control.index.blocks(words[2])
    return next(block.hash for block in found if block.sequence == sequence)


# --- comparing --------------------------------------------------------------------------------------------------------

NORMAL = [
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z?", "<time>"),
    (r"f1620[0-9a-f]{64}", "<hash>"),
    (r"f1620[0-9a-f]{8}\b", "<short hash>"),
    (r"f9680c00120[0-9a-f]{64}", "<logical hash>"),
    (r"did:odf:fed01[0-9a-f]{64}", "<id>"),
    (r"\b\d+ (s|min|h|d)\b", "<age>"),
    (r"\b\d+\.\d+\b(?! [a-z])", "<number>"),
    (r"size: \d+", "size: <size>"),
    (r"\b[\d,]+ bytes", "<size> bytes"),
    (r"(<hash>\s+)[\d,]+$", r"\1<size>"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<run>"),
    (r"─+", "─"),
    (r"^([✓✗!]  (python|python of the workers|pyspark|delta-spark|java|delta jars))  .*$", r"\1"),
    (r"\s+", " "),
]


def normal(text: str) -> list[str]:
    """The lines of an output without what differs from run to run."""
    lines = []
    for line in text.strip("\n").splitlines():
        for pattern, instead in NORMAL:
            line = re.sub(pattern, instead, line)
        lines.append(line.strip())
    return lines


def _matches(expected: list[str], actual: list[str]) -> bool:
    """Whether the lines are equal; `…` stands for any number of them."""
    if "…" not in expected:
        return expected == actual
    place = expected.index("…")
    if expected[:place] != actual[:place]:
        return False
    rest = expected[place + 1 :]
    return any(_matches(rest, actual[start:]) for start in range(place, len(actual) + 1))


def _trimmed(text: str) -> str:
    text = text.replace(sys.prefix, f"{HOME}/.venv")
    return "".join(f"{line.rstrip()}\n" for line in text.rstrip("\n").splitlines())


def test_a_page_that_shows_something_else_would_be_noticed():
    assert normal("a  b\n2026-01-31 09:30:00  3 min") == ["a b", "<time> <age>"]
    assert _matches(["a", "…", "c"], ["a", "b", "b", "c"])
    assert _matches(["a", "…"], ["a"])
    assert not _matches(["a", "…", "c"], ["a", "b"])
    assert normal("12 keys") != normal("13 keys")
