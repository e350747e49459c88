"""`kshare trace`: shows traffic, as a proxy between clients and brokers."""
