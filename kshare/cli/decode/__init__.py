"""`kshare decode`: what bytes of Kafka's protocol mean."""
