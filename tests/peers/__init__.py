"""Documented idioms of `foreachBatch` on Spark's providers, under the faults of a sink campaign."""
