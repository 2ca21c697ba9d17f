"""Checkpoints without a JVM: what they contain, whether it is intact, and what is retained."""
