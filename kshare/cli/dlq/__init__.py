"""Dead letters, as `kshare dlq` reads, shows and redrives them."""
