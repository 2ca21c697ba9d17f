"""Epochs as keys of Redis, published by one script."""
