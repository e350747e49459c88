"""`kshare groups`: lists, describes and changes share groups."""
