"""Reading tables: records and rows at a commit, on the driver where they are few and in Spark where they are many."""
