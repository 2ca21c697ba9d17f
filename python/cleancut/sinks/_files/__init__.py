"""Epochs as files of rows that manifests publish: `EpochFiles`."""
