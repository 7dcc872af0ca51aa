"""Visits of a site: a fast supplier writes them to ClickHouse; conversions and costs come later, and correct them."""

import seamark as sm

ds = sm.DataStore()  # where the control database and the warehouse are, seamark.toml says

# Three logs bring news of visits, each with the version of the visit that it knows.
joined_visits = ds.table("joined_visits", "VisitID long, y_VisitVersion int, title string")
joined_conversions = ds.table("joined_conversions", "VisitID long, y_VisitVersion int, goals int, revenue decimal(9,2)")
joined_costs = ds.table("joined_costs", "VisitID long, y_VisitVersion int, cost decimal(9,2)")

# What only the fast supplier knows of each version was torn off before, and is joined back to every record.
visits_wide = ds.table("visits_wide", "VisitID long, y_VisitVersion int, pages int", key=["VisitID", "y_VisitVersion"])

clickhouse = sm.ClickHouseSink("chdb:///.seamark/clickhouse", table="visits")

visits = ds.diff(
    "visits",
    key="VisitID",
    fast_version="y_VisitVersion",
    multiplier=1000,
    logs=[joined_visits, joined_conversions, joined_costs],
    merge={"title": "overwrite", "goals": "sum", "revenue": "sum", "cost": "sum"},
    wide=visits_wide,
    sink=clickhouse,
)
