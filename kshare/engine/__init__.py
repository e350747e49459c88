"""Membership, sessions and leases: what every consumer is built on. Drives `state` with `net`."""
