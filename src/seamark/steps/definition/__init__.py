"""What a step is made of: its function in normal form with all that it uses of the project, as chains record it."""
