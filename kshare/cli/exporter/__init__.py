"""`kshare exporter`: serves the figures of share groups to Prometheus and autoscalers."""
