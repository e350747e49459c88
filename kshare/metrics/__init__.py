"""A consumer's events as metrics: `prometheus` and `opentelemetry`, each with an extra of the same name."""
