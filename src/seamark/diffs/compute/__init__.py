"""What records of the logs make of visits: nothing but Spark expressions."""
