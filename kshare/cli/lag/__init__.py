"""`kshare lag`: the lag of share groups, a line each."""
