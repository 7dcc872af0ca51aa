"""What Spark says of each query of a view, on empty tables. The one room of views that needs Spark."""
