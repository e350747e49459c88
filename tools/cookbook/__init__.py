"""The outputs in docs/cookbook.md and in the guide to `kshare trace`: made by running it, and kept true by a test."""
