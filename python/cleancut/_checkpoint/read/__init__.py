"""Reads the content of a checkpoint."""
