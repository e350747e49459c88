"""`kshare web`: runs the web console."""
