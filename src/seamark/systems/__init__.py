"""What is known of outside systems, whoever reads from them, writes to them or only names their types."""
