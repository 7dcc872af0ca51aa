"""Texts: the queries that a view's runs amount to, as a person can run them, and the table that it proposes."""
