"""Rollback and clone of a dataflow."""
