"""`kshare top`: reads the cluster repeatedly, computes figures from two readings, and shows them."""
