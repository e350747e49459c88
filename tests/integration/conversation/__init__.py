"""The same script of requests told to two brokers, and what they answered compared field by field."""
