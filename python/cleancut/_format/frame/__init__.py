"""Frames: their bytes, the index, and the records in them."""
