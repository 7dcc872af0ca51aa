"""Running steps: the lease, the commit, failed keys, and several steps in order."""
