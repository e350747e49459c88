"""Decisions: pure machines, one a file. No IO, no clock, no randomness: `now` and ids are passed in."""
