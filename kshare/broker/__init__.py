"""The other side: a Kafka broker in this process, without a JVM. Shares nothing with the client but `protocol`."""
