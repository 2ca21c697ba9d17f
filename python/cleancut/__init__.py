"""Consistent cuts for Spark Structured Streaming."""
