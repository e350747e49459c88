"""Users' functions: which exceptions are failures, whose cancellation it is, and calls in other processes."""
