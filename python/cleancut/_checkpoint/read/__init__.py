"""Reads what a checkpoint contains."""
