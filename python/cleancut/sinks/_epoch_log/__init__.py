"""The log of published epochs as small files: manifests, operations, expiry.

`EpochFiles`, `TwoPhaseSink` and channels publish through it; readers need no JVM.
"""
