"""Cuts, pages and segments: their bytes, and what a cut says of its epoch."""
