"""What users declare: handlers, their options and payloads, and which topics they are for."""
