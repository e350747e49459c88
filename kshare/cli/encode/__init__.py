"""`kshare encode`: JSON into bytes of Kafka's protocol."""
