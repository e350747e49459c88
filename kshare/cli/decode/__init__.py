"""`kshare decode`: decodes bytes of Kafka's protocol."""
