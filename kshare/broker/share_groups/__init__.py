"""Share groups: who is a member, and of what."""
