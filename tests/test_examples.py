"""The examples run as a newcomer runs them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_blog_tells_its_story(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "blog", tmp_path / "blog", ignore=shutil.ignore_patterns(".seamark"))

    told = subprocess.run([sys.executable, tmp_path / "blog" / "demo.py"], capture_output=True, text=True, check=False)

    assert told.returncode == 0, told.stderr
    assert told.stderr == ""
    assert "posts: 1 new, 1 corrected → records 6–8" in told.stdout
    assert "nothing differs: no block written" in told.stdout
    assert "process_posts (all keys): 6 keys → 6 new" in told.stdout
    assert "process_posts: nothing to do" in told.stdout
    assert "process_posts (changes): 2 keys → 2 corrected" in told.stdout
    assert "│ 2    │ Captain Bob: Fog until one o'clock" in told.stdout
    assert "└── profiles id=200: Captain Bob" in told.stdout
    assert "blocks, 0 findings, 2 blocks of the feed computed again" in told.stdout
    assert "physical hash in block" in told.stdout
    assert "put back: ✔ ok" in told.stdout


def test_the_visits_net_to_one_row_each(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "visits", tmp_path / "visits", ignore=shutil.ignore_patterns(".seamark"))

    told = subprocess.run(
        [sys.executable, tmp_path / "visits" / "demo.py"], capture_output=True, text=True, check=False
    )

    assert told.returncode == 0, told.stderr
    assert told.stderr == ""
    assert "visit 42: +1 -1 +2 -2 +1002 = +1002" in told.stdout
    assert "visit 42: +1 -1 +2 -2 +1002 -2 +3 -1002 +2003 -3 +2 = +2003" in told.stdout
    assert "-2003 +3003 = +3003" in told.stdout
    assert "3 visits, each nets to its newest version; revenue 24.90, pages 16" in told.stdout
    assert "0 findings" in told.stdout
