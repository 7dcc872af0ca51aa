"""Sinks carry a table's changes out: block after block, in order, each counted once."""
