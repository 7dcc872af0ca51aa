"""Databases of older versions: how they are read as they are, and how they are upgraded."""
