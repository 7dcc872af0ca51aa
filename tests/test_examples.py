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
    assert "11 blocks, 0 findings" in told.stdout
    assert "physical hash in block" in told.stdout
    assert "put back: ✔ ok" in told.stdout
