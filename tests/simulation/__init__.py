"""A whole cluster and its clients in one thread: their times, network and randomness come from one seed."""
