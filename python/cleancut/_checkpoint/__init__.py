"""Checkpoints without a JVM: their content, verification, retention and replication."""
