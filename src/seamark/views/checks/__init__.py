"""Checks of views and handlers without Spark: what is wrong, at which place, before anything runs."""
