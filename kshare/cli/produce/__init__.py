"""`kshare produce`: records written to a topic."""
