"""Shows Kafka traffic, from a proxy or from a capture."""
