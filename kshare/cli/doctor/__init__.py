"""`kshare doctor`: finds problems that keep share groups from working."""
