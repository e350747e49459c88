"""Runs a handler: acquires records, calls it, finds out the facts about each record, and ends it."""
