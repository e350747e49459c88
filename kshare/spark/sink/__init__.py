"""`write.format("kshare")` and `writeStream`: executors write rows to topics."""
