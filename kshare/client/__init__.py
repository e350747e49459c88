"""The share consumer: its configuration, and the records that it hands out. Built on `engine`."""
