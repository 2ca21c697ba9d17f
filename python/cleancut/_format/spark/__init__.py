"""Spark's own files in a checkpoint."""
