"""`kshare state`: the stored state of share-partitions."""
