"""The document's language: views, handlers, and expressions in Spark SQL."""
