"""`kshare consume`: consumes records as a member of a share group, and prints them."""
