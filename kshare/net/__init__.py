"""Sockets: connections, TLS, SASL, versions. Moves bytes and keeps deadlines; makes no Kafka decisions."""
