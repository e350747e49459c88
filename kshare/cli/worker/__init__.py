"""`kshare worker`: runs the handlers of a worker, in one process or several, and checks them."""
