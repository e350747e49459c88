"""The checks of `kshare worker check`: what is known about the cluster, and what follows for the worker."""
