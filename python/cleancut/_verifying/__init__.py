"""Checks of every byte of a checkpoint."""
