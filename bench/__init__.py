"""Seamark measured against other ways to do the same work: `python -m bench` prints a table, and asserts nothing."""
