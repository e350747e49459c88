"""Sends the same script of requests to two brokers, and compares their responses field by field."""
