"""`kshare consume`: records of a share group, shown and acknowledged."""
