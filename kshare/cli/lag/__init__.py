"""`kshare lag`: shows the lag of share groups, one line for each."""
