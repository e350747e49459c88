"""`kshare spark`: tools for queries of Spark that read share groups."""
