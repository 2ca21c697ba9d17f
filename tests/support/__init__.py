"""Shared parts of the end-to-end tests: inputs, queries, sessions, results, a driver to kill."""
