"""A data folder: what survives the broker's end, however sudden. Without one, everything is in memory."""
