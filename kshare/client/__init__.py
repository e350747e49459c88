"""What users hold: the consumer and its configuration. Drives `state` with `net`."""
