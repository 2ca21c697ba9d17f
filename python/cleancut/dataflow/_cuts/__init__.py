"""Consistent cuts of several queries: the coordinator, its decisions, and verification."""
