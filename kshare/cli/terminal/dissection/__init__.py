"""Shows dissected messages."""
