"""The records of a handler that wait: for their turn, for their key, or for their next attempt. No IO and no clock."""
