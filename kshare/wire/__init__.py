"""Bytes and captures of Kafka's protocol, named and laid out as values: for terminals, and for pages. Pure."""
