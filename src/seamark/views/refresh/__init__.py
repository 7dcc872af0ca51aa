"""Keeping a view's rows right on frames: from changes to units, from units to the rows of its SELECT."""
