"""`kshare dlq`: lists, shows and redrives dead letters."""
