"""What chains say of commits that were made: checkpoints, replay, and where a row came from."""
