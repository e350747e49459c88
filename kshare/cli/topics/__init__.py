"""`kshare topics`: lists, creates and deletes topics."""
