"""What users hold: the consumer, its configuration, and the records that it hands out. Drives `engine`."""
