"""Savepoints, and the deletion of objects that nothing references."""
