"""The same program runs through Spark Connect."""

import os
import subprocess
import sys

import pytest
from tests.support import SUPPORT


@pytest.mark.long
def test_a_tables_life_through_spark_connect(tmp_path):
    story = SUPPORT / "connect_story.py"
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    told = subprocess.run(
        [sys.executable, story, tmp_path], capture_output=True, text=True, check=False, env=environment
    )
    assert told.returncode == 0, told.stderr[-3000:]
    assert told.stdout.strip().endswith("told")
