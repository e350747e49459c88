"""A small HTTP server for health probes, scrapers and autoscalers, without dependencies of its own."""
