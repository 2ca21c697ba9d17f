"""Channels between queries, their readers, and loops."""
