"""An embedded Kafka broker, without a JVM. Shares only `protocol` with the client."""
