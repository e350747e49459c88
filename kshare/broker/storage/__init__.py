"""A data folder, which survives the end or crash of the broker. Without one, everything is in memory."""
