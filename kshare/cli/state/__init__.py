"""`kshare state`: shows the stored state of share-partitions."""
