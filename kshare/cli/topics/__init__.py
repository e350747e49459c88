"""`kshare topics`: topics listed, created and deleted."""
