"""Writes records to topics: idempotent, in batches, in transactions."""
