"""A record on its way through a handler: what the handler decides, publishes, and what headers of copies say."""
