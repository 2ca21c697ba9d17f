"""Offline operations on the checkpoint of a stopped query."""
