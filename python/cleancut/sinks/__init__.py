"""What a query writes its epochs with, exactly once: sinks, and what makes sinks of functions."""

from cleancut.sinks._batch import Batch
from cleancut.sinks._database import Transaction
from cleancut.sinks._delta import DeltaSink
from cleancut.sinks._epoch_sink import EpochSink, FanOut, fan_out
from cleancut.sinks._files import EpochFiles, PublishedEpoch
from cleancut.sinks._foreach import sealing
from cleancut.sinks._functions import PostgresLedger, SqlLedger, exactly_once
from cleancut.sinks._iceberg import IcebergSink
from cleancut.sinks._kafka import KafkaSink
from cleancut.sinks._ledger import Ledger
from cleancut.sinks._postgres import PostgresSink
from cleancut.sinks._redis import RedisSink
from cleancut.sinks._runs import LedgerEpoch
from cleancut.sinks._sql import SqlSink
from cleancut.sinks._two_phase import Committer, TwoPhaseSink

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
    "sealing",
]
