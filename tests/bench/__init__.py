"""Benchmarks of what runs in Python; the others are in `jvm/bench`."""
