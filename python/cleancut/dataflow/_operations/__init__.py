"""Restore and clone of a whole dataflow."""
