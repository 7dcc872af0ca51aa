"""Load the sample data: after it each table is what its file in `data` says.

Run it with `python load.py`, change a line in `data/profiles.csv`, and run it again: only what differs is written.
"""

import pandas as pd
from pipeline import posts, profiles

for table in (posts, profiles):
    commit = table.replace(pd.read_csv(f"data/{table.name}.csv"))
    if commit is None:
        print(f"{table.name}: nothing differs from its file, nothing was written")
    else:
        print(f"{table.name}: +{commit.appended} ~{commit.corrected} -{commit.retracted}, block {commit.sequence}")
