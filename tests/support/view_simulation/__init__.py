"""A small model of SQL over tiny tables, and of how views are kept, in which the paths of the product are used."""
