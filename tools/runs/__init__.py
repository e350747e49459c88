"""Pytest plugins and tools for whole test runs: deadlines, `--quick`, and replacing brokers that stop responding."""
