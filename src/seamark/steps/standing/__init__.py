"""Where steps are: how far they have read, what waits for them, and why. Nothing is computed or changed."""
