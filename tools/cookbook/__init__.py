"""Generates the outputs of `kshare trace` in docs/cookbook.md and docs/cli.md by running it; a test compares them."""
