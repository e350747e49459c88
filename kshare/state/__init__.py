"""Decisions as pure state machines, one per file. No IO, no clock, no randomness: `now` and ids are passed in."""
