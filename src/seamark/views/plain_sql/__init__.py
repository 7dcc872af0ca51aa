"""Plain Spark SQL as a view: read for its tables, columns, equalities and groups, and run as it is written."""
