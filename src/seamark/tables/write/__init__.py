"""Writing tables: what changes, cut into slices, staged, and committed in one transaction."""
