"""The query's runner on the driver: acquires offset ranges, and decides who responds for them."""
