"""`kshare trace`: traffic seen by a proxy between clients and brokers."""
