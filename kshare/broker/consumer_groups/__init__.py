"""Consumer groups of KIP-848: the broker assigns partitions, and members reconcile step by step."""
