"""Classic consumer groups: members that agree on who reads what, and the offsets they commit."""
