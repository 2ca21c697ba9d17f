"""Several queries that send to each other, and the cuts that are consistent over all of them.

But for `channel` and `loop`, which queries run with, nothing here needs Spark or a JVM: what is
decided, is decided from what the stores hold.
"""
