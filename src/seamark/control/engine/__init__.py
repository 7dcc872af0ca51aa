"""The database below: how SQLite and PostgreSQL are opened, asked and written to, and what they refuse."""
