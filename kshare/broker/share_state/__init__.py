"""The share coordinator: what must be known of share-partitions after a restart."""
