"""Declaring steps: what a person writes, checked and resolved against the tables of a store."""
