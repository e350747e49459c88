"""A consumer's events as metrics: `prometheus` and `opentelemetry`, each behind the extra of its name."""
