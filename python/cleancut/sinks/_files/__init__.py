"""Epochs as files that manifests publish: `EpochFiles`, its compaction and its expiry."""
