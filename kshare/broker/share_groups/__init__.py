"""Share groups: members and their assignments."""
