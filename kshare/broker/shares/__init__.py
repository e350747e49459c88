"""Share-partitions and share sessions: which records a group has acquired, and through which session."""
