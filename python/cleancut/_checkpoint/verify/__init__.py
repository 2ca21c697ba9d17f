"""Verifies checkpoints, and tests whether they can be restored."""
