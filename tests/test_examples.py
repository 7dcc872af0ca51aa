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


def test_the_views_of_the_shop_equal_their_queries_all_day(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "shop", tmp_path / "shop", ignore=shutil.ignore_patterns(".seamark"))

    told = subprocess.run([sys.executable, tmp_path / "shop" / "demo.py"], capture_output=True, text=True, check=False)

    assert told.returncode == 0, told.stderr
    assert told.stderr == ""
    lines = [" ".join(line.split()) for line in told.stdout.splitlines()]
    done = [line.rpartition(" ")[0].rpartition(" ")[0] for line in lines if "→" in line]
    assert done == [
        *["order_wide all keys 300 keys → 300 new", "entry all keys 500 keys → 436 new"],
        *["balance all keys 40 keys → 40 new", "sales all keys 10 keys → 10 new", "debtor all keys 40 keys → 9 new"],
        *["order_wide changes 3 keys → 3 new", "entry changes 5 keys → 5 new", "balance changes 5 keys → 5 corrected"],
        *["sales changes 2 keys → 2 corrected", "debtor changes 2 keys → 2 new"],  # orders and payments
        *["order_wide changes 8 keys → 8 corrected", "sales changes 4 keys → 4 corrected"],
        "debtor changes 1 key → 1 corrected",  # a customer moved
        *["order_wide dictionary 57 keys → 57 corrected", "sales changes 0 keys → nothing differs"],
        *["entry changes 1 key → 1 retracted", "balance changes 1 key → 1 corrected", "debtor changes 1 key → 1 new"],
        *["order_wide changes 1 key → 1 retracted", "entry changes 2 keys → 2 retracted"],
        *["balance changes 1 key → 1 corrected", "sales changes 1 key → 1 corrected"],
        "debtor changes 1 key → 1 retracted",  # an order was deleted
    ]
    assert sum("✔ all 5 views equal their queries, run from scratch" in line for line in lines) == 7
    assert """waiting: 'title' of statuses {"code":"sent"}, for a pass over order_wide""" in told.stdout
    assert "nothing to do: order_wide, entry, balance, sales, debtor" in told.stdout
    assert "10 of these 100 rows" in told.stdout
    assert "└── statuses code=sent: On its way" in told.stdout
    assert "0 findings" in told.stdout
