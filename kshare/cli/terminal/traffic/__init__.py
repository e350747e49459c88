"""Kafka traffic on the screen, whether a proxy saw it or a capture holds it."""
