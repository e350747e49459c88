"""`kshare encode`: encodes JSON into bytes of Kafka's protocol."""
