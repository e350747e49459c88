"""`kshare groups`: share groups listed, described and changed."""
