"""Metrics of queries, and the servers and senders that export them."""
