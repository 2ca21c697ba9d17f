"""What the end-to-end tests share: inputs, queries, sessions, results, and a driver to kill."""
