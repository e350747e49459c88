"""The journal of a query with `settle=journal`: it remembers accepted records that are in no offset token yet."""
