"""Which source each column of a view is of."""
