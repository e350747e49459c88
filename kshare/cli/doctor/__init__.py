"""`kshare doctor`: what keeps share groups from working."""
