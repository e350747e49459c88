"""Reading offset ranges into Arrow, in executors."""
