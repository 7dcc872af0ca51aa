"""Diffs: Sign and Version records for ClickHouse, from a fast and a slow supplier of one table.

The fast supplier writes version after version of a visit, each taking back the one before. The slow supplier, which is
this package, adds what becomes known later, keeps a state of every visit, and takes back what the fast one wrote where
its own version takes its place. A record's version is `multiplier * S + F`.
"""
