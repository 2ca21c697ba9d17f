"""Spark's UnsafeRow form of rows, decoded to Arrow."""
