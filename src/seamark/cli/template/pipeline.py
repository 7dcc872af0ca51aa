"""A small pipeline to begin with: two tables, loaded from the files in `data`.

Run it with `python pipeline.py`, change a line in `data/posts.csv`, and run it again: only what differs is written.
The command `seamark` runs this file as well, to learn which tables there are; so what writes stands in `main`.
"""

import os
from pathlib import Path

import pandas as pd

import seamark as sm

HERE = Path(__file__).parent
os.chdir(HERE)  # the settings in seamark.toml are found here, wherever the program is started from

ds = sm.DataStore()

# A table with a key has one current row a key; one without a key only grows.
posts = ds.table("posts", "post_id long, user_id long, content string", key="post_id")
profiles = ds.table("profiles", "id long, name string", key="id")


def main() -> None:
    """Load the sample data, show the rows, and verify every block."""
    for table, file in ((posts, "posts.csv"), (profiles, "profiles.csv")):
        commit = table.replace(pd.read_csv(HERE / "data" / file))
        if commit is None:
            print(f"{table.name}: nothing differs from {file}, nothing was written")
        else:
            print(f"{table.name}: +{commit.appended} ~{commit.corrected} -{commit.retracted}, block {commit.sequence}")

    posts.rows().orderBy("post_id").show(truncate=False)

    report = ds.verify()
    print(f"{report.blocks} blocks verified, {len(report.findings)} findings")


if __name__ == "__main__":
    main()
