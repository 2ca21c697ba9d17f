"""Consistent cuts for Spark Structured Streaming.

`configure` makes a session keep its streaming state in Cleancut, and `Checkpoint` looks into the
checkpoint of a query without a JVM.
"""

from cleancut import sinks
from cleancut._jar import jar_path
from cleancut._version import __version__
from cleancut.channels import ChannelInfo, OperatorCut
from cleancut.checkpoint import Checkpoint
from cleancut.coordinator import Coordinator, CoordinatorStatus, coordinator
from cleancut.costs import Costs, EpochInfo, RequestCount, RequestsByKind, StoreTime, Usage
from cleancut.cuts import (
    ChainInfo,
    CutDetails,
    CutInfo,
    PlacedFrameInfo,
    SavepointInfo,
    StoreCutInfo,
)
from cleancut.errors import (
    CleancutError,
    DamagedError,
    FencedError,
    InternalError,
    RequestError,
    RetryableError,
)
from cleancut.infos import FamilyInfo, FrameInfo, InfoList, StoreInfo
from cleancut.prices import DailyCost, DailyCosts, PriceList
from cleancut.sealing import seal
from cleancut.session import configure
from cleancut.verify import Problem, VerifyReport

__all__ = [
    "ChainInfo",
    "ChannelInfo",
    "Checkpoint",
    "CleancutError",
    "Coordinator",
    "CoordinatorStatus",
    "Costs",
    "CutDetails",
    "CutInfo",
    "DailyCost",
    "DailyCosts",
    "DamagedError",
    "EpochInfo",
    "FamilyInfo",
    "FencedError",
    "FrameInfo",
    "InfoList",
    "InternalError",
    "OperatorCut",
    "PlacedFrameInfo",
    "PriceList",
    "Problem",
    "RequestCount",
    "RequestError",
    "RequestsByKind",
    "RetryableError",
    "SavepointInfo",
    "StoreCutInfo",
    "StoreInfo",
    "StoreTime",
    "Usage",
    "VerifyReport",
    "__version__",
    "configure",
    "coordinator",
    "jar_path",
    "seal",
    "sinks",
]
