"""Channels between queries, which queries run with, and who reads them."""
