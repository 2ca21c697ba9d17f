"""The state of a checkpoint as tables: rows, changes, lookups, in-flight rows, skew."""
