"""Materialized views: one model, two front ends, checks, and the ways from changes to rows."""
