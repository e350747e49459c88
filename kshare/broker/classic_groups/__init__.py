"""Classic consumer groups: members agree on an assignment and commit offsets."""
