"""What every kind of step shares: pins, definitions, checkpoints, runs, commits, failed keys, replay and provenance."""
