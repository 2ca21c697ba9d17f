"""Cuts, pages and segments: their bytes and their content."""
