"""Types of the results that `cleancut` returns.

They are for annotations. Their constructors are not public. The types of results of dataflows are
in `cleancut.dataflow`.
"""

from typing import TYPE_CHECKING

from cleancut._lazy import lazy_attributes

if TYPE_CHECKING:
    from cleancut._checkpoint.owners import OwnerInfo
    from cleancut._checkpoint.read.cut_info import (
        ChainInfo,
        CutDetails,
        CutInfo,
        FrameLocation,
        SavepointInfo,
        StoreCutInfo,
    )
    from cleancut._checkpoint.read.epoch_history import EpochHistory
    from cleancut._checkpoint.read.epoch_info import EpochInfo, SlowEpoch, StageInfo
    from cleancut._checkpoint.read.prices import DailyCost, DailyCosts, PriceList
    from cleancut._checkpoint.replicate.records import ReplicaStatus, RestoreTestStatus
    from cleancut._checkpoint.replicate.replicas import ReplicaInfo
    from cleancut._checkpoint.retain.expiry import Expiry, RetainedCut
    from cleancut._checkpoint.tables.changes import DiffInfo
    from cleancut._checkpoint.tables.skew import PartitionSize, SkewInfo
    from cleancut._checkpoint.tables.store_info import FamilyInfo, FrameInfo, StoreInfo
    from cleancut._checkpoint.verify.report import Problem, VerifyReport
    from cleancut._checkpoint.verify.restore_test import RestoreTest
    from cleancut._display.info_list import InfoList
    from cleancut._format.cut.channels import OperatorCut, ShuffleInputInfo
    from cleancut._format.cut.costs import Costs, RequestCount, RequestsByKind, StoreTime, Usage
    from cleancut._metrics.prometheus import MetricsServer
    from cleancut._operations.compatible import Compatibility, Difference
    from cleancut._operations.offline import OperatorPlan, Plan
    from cleancut._query.coordinator import Coordinator, CoordinatorStatus, EpochProgress, InFlight
    from cleancut._query.live_view import LiveView
    from cleancut._query.pace import Pace
    from cleancut._query.successor import Successor
else:
    # Imported at first use: a Python worker that needs one function imports its module alone.
    __getattr__, __dir__ = lazy_attributes(
        __name__,
        {
            "_checkpoint.owners": ("OwnerInfo",),
            "_checkpoint.read.cut_info": (
                "ChainInfo",
                "CutDetails",
                "CutInfo",
                "FrameLocation",
                "SavepointInfo",
                "StoreCutInfo",
            ),
            "_checkpoint.read.epoch_history": ("EpochHistory",),
            "_checkpoint.read.epoch_info": (
                "EpochInfo",
                "SlowEpoch",
                "StageInfo",
            ),
            "_checkpoint.read.prices": (
                "DailyCost",
                "DailyCosts",
                "PriceList",
            ),
            "_checkpoint.replicate.records": (
                "ReplicaStatus",
                "RestoreTestStatus",
            ),
            "_checkpoint.replicate.replicas": ("ReplicaInfo",),
            "_checkpoint.retain.expiry": (
                "Expiry",
                "RetainedCut",
            ),
            "_checkpoint.tables.changes": ("DiffInfo",),
            "_checkpoint.tables.skew": (
                "PartitionSize",
                "SkewInfo",
            ),
            "_checkpoint.tables.store_info": (
                "FamilyInfo",
                "FrameInfo",
                "StoreInfo",
            ),
            "_checkpoint.verify.restore_test": ("RestoreTest",),
            "_checkpoint.verify.report": (
                "Problem",
                "VerifyReport",
            ),
            "_display.info_list": ("InfoList",),
            "_format.cut.channels": (
                "OperatorCut",
                "ShuffleInputInfo",
            ),
            "_format.cut.costs": (
                "Costs",
                "RequestCount",
                "RequestsByKind",
                "StoreTime",
                "Usage",
            ),
            "_metrics.prometheus": ("MetricsServer",),
            "_operations.compatible": (
                "Compatibility",
                "Difference",
            ),
            "_operations.offline": (
                "OperatorPlan",
                "Plan",
            ),
            "_query.coordinator": (
                "Coordinator",
                "CoordinatorStatus",
                "EpochProgress",
                "InFlight",
            ),
            "_query.live_view": ("LiveView",),
            "_query.pace": ("Pace",),
            "_query.successor": ("Successor",),
        },
    )

__all__ = [
    "ChainInfo",
    "Compatibility",
    "Coordinator",
    "CoordinatorStatus",
    "Costs",
    "CutDetails",
    "CutInfo",
    "DailyCost",
    "DailyCosts",
    "DiffInfo",
    "Difference",
    "EpochHistory",
    "EpochInfo",
    "EpochProgress",
    "Expiry",
    "FamilyInfo",
    "FrameInfo",
    "FrameLocation",
    "InFlight",
    "InfoList",
    "LiveView",
    "MetricsServer",
    "OperatorCut",
    "OperatorPlan",
    "OwnerInfo",
    "Pace",
    "PartitionSize",
    "Plan",
    "PriceList",
    "Problem",
    "ReplicaInfo",
    "ReplicaStatus",
    "RequestCount",
    "RequestsByKind",
    "RestoreTest",
    "RestoreTestStatus",
    "RetainedCut",
    "SavepointInfo",
    "ShuffleInputInfo",
    "SkewInfo",
    "SlowEpoch",
    "StageInfo",
    "StoreCutInfo",
    "StoreInfo",
    "StoreTime",
    "Successor",
    "Usage",
    "VerifyReport",
]
