"""Consuming in batch: records held for the duration of a `with` block."""
