"""Replicas of checkpoints."""
