"""`kshare produce`: writes records to a topic."""
