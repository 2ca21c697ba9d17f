"""Stored objects, from bytes to values: frames, segments, cuts, and the names of objects.

Nothing here reads or writes an object; docs/FORMAT.md draws the bytes.
"""
