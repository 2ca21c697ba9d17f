"""Sinks that write each epoch of a query exactly once, and decorators that create sinks."""

from typing import TYPE_CHECKING

from cleancut._lazy import lazy_attributes

if TYPE_CHECKING:
    from cleancut.sinks._core.batch import Batch
    from cleancut.sinks._core.database import Transaction
    from cleancut.sinks._core.epoch_sink import EpochSink, FanOut, fan_out
    from cleancut.sinks._core.foreach import sealed
    from cleancut.sinks._core.ledger import LedgerEpoch
    from cleancut.sinks._core.open_epoch import OpenEpoch
    from cleancut.sinks._core.transformed import transformed
    from cleancut.sinks._files.epoch_files import EpochFiles
    from cleancut.sinks._files.published_files import PublishedEpoch
    from cleancut.sinks._kafka.sink import KafkaSink
    from cleancut.sinks._lakes.delta import DeltaSink
    from cleancut.sinks._lakes.iceberg import IcebergSink
    from cleancut.sinks._ledgers.ledger import Ledger
    from cleancut.sinks._redis.sink import RedisSink
    from cleancut.sinks._tables.functions import PostgresLedger, SqlLedger, exactly_once
    from cleancut.sinks._tables.postgres import PostgresSink
    from cleancut.sinks._tables.sql import SqlSink
    from cleancut.sinks._two_phase import Committer, TwoPhaseSink
else:
    # Imported at first use: a Python worker that needs one function imports its module alone.
    __getattr__, __dir__ = lazy_attributes(
        __name__,
        {
            "sinks._core.batch": ("Batch",),
            "sinks._core.database": ("Transaction",),
            "sinks._core.epoch_sink": ("EpochSink", "FanOut", "fan_out"),
            "sinks._core.foreach": ("sealed",),
            "sinks._core.ledger": ("LedgerEpoch",),
            "sinks._core.open_epoch": ("OpenEpoch",),
            "sinks._core.transformed": ("transformed",),
            "sinks._files.epoch_files": ("EpochFiles",),
            "sinks._files.published_files": ("PublishedEpoch",),
            "sinks._kafka.sink": ("KafkaSink",),
            "sinks._lakes.delta": ("DeltaSink",),
            "sinks._lakes.iceberg": ("IcebergSink",),
            "sinks._tables.functions": ("PostgresLedger", "SqlLedger", "exactly_once"),
            "sinks._ledgers.ledger": ("Ledger",),
            "sinks._redis.sink": ("RedisSink",),
            "sinks._tables.postgres": ("PostgresSink",),
            "sinks._tables.sql": ("SqlSink",),
            "sinks._two_phase": ("Committer", "TwoPhaseSink"),
        },
    )

__all__ = [
    "Batch",
    "Committer",
    "DeltaSink",
    "EpochFiles",
    "EpochSink",
    "FanOut",
    "IcebergSink",
    "KafkaSink",
    "Ledger",
    "LedgerEpoch",
    "OpenEpoch",
    "PostgresLedger",
    "PostgresSink",
    "PublishedEpoch",
    "RedisSink",
    "SqlLedger",
    "SqlSink",
    "Transaction",
    "TwoPhaseSink",
    "exactly_once",
    "fan_out",
    "sealed",
    "transformed",
]
