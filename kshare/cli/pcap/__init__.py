"""`kshare pcap`: shows the Kafka traffic in a network capture."""
