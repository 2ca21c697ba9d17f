"""Epochs as commits of lake tables, whose files the executors write."""
