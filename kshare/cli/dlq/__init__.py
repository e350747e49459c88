"""`kshare dlq`: lists, shows, redrives and drops dead letters."""
