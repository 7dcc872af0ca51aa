"""Which keys a run computes: by changes, all of them in ranges, or as they are handed in."""
