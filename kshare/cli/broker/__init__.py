"""`kshare broker`: a Kafka broker without a JVM."""
