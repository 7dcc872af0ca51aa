"""Rows and keys of a step: as text and as values, which rows belong to which keys, and how they are read."""
