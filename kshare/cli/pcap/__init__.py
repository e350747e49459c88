"""`kshare pcap`: traffic out of a network capture."""
