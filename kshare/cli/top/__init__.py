"""What `kshare top` watches: readings of a cluster, figures made of two of them, and the board that shows them."""
