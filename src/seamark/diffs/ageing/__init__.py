"""What time does to visits: they grow too old, leave marks, and the marks are forgotten."""
