"""Share-partitions and share sessions: what a group of consumers has acquired, and through which session."""
