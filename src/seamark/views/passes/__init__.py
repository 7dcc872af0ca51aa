"""What goes through a view page by page while other runs go on: scans, and passes over its dictionaries."""
