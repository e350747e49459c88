"""Sockets: connections, TLS, SASL, versions. Moves bytes and meets deadlines; decides nothing about Kafka."""
