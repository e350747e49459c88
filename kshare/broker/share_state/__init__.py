"""The share coordinator: the state of share-partitions that survives a restart."""
