"""Serves the figures of a cluster's share groups to Prometheus, and to autoscalers such as KEDA."""
