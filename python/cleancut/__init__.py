"""Consistent cuts for Spark Structured Streaming.

`configure` makes a session keep its streaming state in Cleancut, and `Checkpoint` looks into the
checkpoint of a query without a JVM.
"""

from typing import TYPE_CHECKING

from cleancut._lazy import lazy_attributes
from cleancut._version import __version__

if TYPE_CHECKING:
    from cleancut import dataflow, errors, sinks, testing
    from cleancut._checkpoint.checkpoint import Checkpoint
    from cleancut._checkpoint.read.cut_info import (
        ChainInfo,
        CutDetails,
        CutInfo,
        PlacedFrameInfo,
        SavepointInfo,
        StoreCutInfo,
    )
    from cleancut._checkpoint.read.epoch_history import EpochHistory
    from cleancut._checkpoint.read.epoch_info import EpochInfo, SlowEpoch
    from cleancut._checkpoint.read.prices import DailyCost, DailyCosts, PriceList
    from cleancut._checkpoint.replicate.followed import ProvenCut, ReplicaStatus
    from cleancut._checkpoint.replicate.replicas import ReplicaInfo
    from cleancut._checkpoint.retain.expiry import Expiry, KeptCut
    from cleancut._checkpoint.tables.changes import DiffInfo
    from cleancut._checkpoint.tables.skew import PartitionSize, SkewInfo
    from cleancut._checkpoint.tables.store_info import FamilyInfo, FrameInfo, StoreInfo
    from cleancut._checkpoint.verify.drill import DrillInfo
    from cleancut._checkpoint.verify.report import Problem, VerifyReport
    from cleancut._display.info_list import InfoList
    from cleancut._format.cut.channels import ChannelInfo, OperatorCut
    from cleancut._format.cut.costs import Costs, RequestCount, RequestsByKind, StoreTime, Usage
    from cleancut._metrics.prometheus import MetricsServer
    from cleancut._operations.compatible import Compatibility, Difference, compatible
    from cleancut._operations.first_state import bootstrap, migrate
    from cleancut._operations.offline import (
        OperatorPlan,
        Plan,
        adopt,
        clone,
        edit,
        release,
        rescale,
        rollback,
    )
    from cleancut._query.coordinator import Coordinator, CoordinatorStatus, coordinator
    from cleancut._query.live_view import LiveView
    from cleancut._query.metrics_server import serve_metrics
    from cleancut._query.pace import Pace
    from cleancut._query.sealing import seal
    from cleancut._query.sequence import in_sequence
    from cleancut._query.stopping import stop
    from cleancut._session.jars import jar_paths
    from cleancut._session.session import configure
    from cleancut.dataflow import (
        Attending,
        Channel,
        ChannelAct,
        ChannelReader,
        Dataflow,
        FlowAge,
        FlowCut,
        FlowEdge,
        FlowExpiry,
        FlowInFlight,
        FlowMember,
        FlowPlan,
        FlowProblem,
        FlowReport,
        FlowRun,
        FlowStatus,
        MemberAct,
        iterate,
    )
    from cleancut.errors import (
        CleancutError,
        CorruptedError,
        ErrorKind,
        FencedError,
        InternalError,
        RequestError,
        RetryableError,
    )
else:
    # Imported at first use: a Python worker that needs one function imports its module alone.
    __getattr__, __dir__ = lazy_attributes(
        __name__,
        {
            "": ("dataflow", "errors", "sinks", "testing"),
            "_checkpoint.checkpoint": ("Checkpoint",),
            "_checkpoint.read.epoch_history": ("EpochHistory",),
            "_display.info_list": ("InfoList",),
            "_format.cut.channels": ("ChannelInfo", "OperatorCut"),
            "_format.cut.costs": ("Costs", "RequestCount", "RequestsByKind", "StoreTime", "Usage"),
            "_metrics.prometheus": ("MetricsServer",),
            "_checkpoint.tables.changes": ("DiffInfo",),
            "_checkpoint.read.cut_info": (
                "ChainInfo",
                "CutDetails",
                "CutInfo",
                "PlacedFrameInfo",
                "SavepointInfo",
                "StoreCutInfo",
            ),
            "_checkpoint.read.epoch_info": ("EpochInfo", "SlowEpoch"),
            "_checkpoint.read.prices": ("DailyCost", "DailyCosts", "PriceList"),
            "_checkpoint.tables.skew": ("PartitionSize", "SkewInfo"),
            "_checkpoint.tables.store_info": ("FamilyInfo", "FrameInfo", "StoreInfo"),
            "_checkpoint.retain.expiry": ("Expiry", "KeptCut"),
            "_checkpoint.replicate.followed": ("ProvenCut", "ReplicaStatus"),
            "_checkpoint.replicate.replicas": ("ReplicaInfo",),
            "_operations.compatible": ("Compatibility", "Difference", "compatible"),
            "_query.coordinator": ("Coordinator", "CoordinatorStatus", "coordinator"),
            "_operations.first_state": ("bootstrap", "migrate"),
            "_session.jars": ("jar_paths",),
            "_query.live_view": ("LiveView",),
            "_query.metrics_server": ("serve_metrics",),
            "_operations.offline": (
                "OperatorPlan",
                "Plan",
                "adopt",
                "clone",
                "edit",
                "release",
                "rescale",
                "rollback",
            ),
            "_query.pace": ("Pace",),
            "_query.sealing": ("seal",),
            "_query.sequence": ("in_sequence",),
            "_session.session": ("configure",),
            "_query.stopping": ("stop",),
            "_checkpoint.verify.drill": ("DrillInfo",),
            "_checkpoint.verify.report": ("Problem", "VerifyReport"),
            "dataflow": (
                "Attending",
                "Channel",
                "ChannelAct",
                "ChannelReader",
                "Dataflow",
                "FlowAge",
                "FlowCut",
                "FlowEdge",
                "FlowExpiry",
                "FlowInFlight",
                "FlowMember",
                "FlowPlan",
                "FlowProblem",
                "FlowReport",
                "FlowRun",
                "FlowStatus",
                "MemberAct",
                "iterate",
            ),
            "errors": (
                "CleancutError",
                "CorruptedError",
                "ErrorKind",
                "FencedError",
                "InternalError",
                "RequestError",
                "RetryableError",
            ),
        },
    )

__all__ = [
    "Attending",
    "ChainInfo",
    "Channel",
    "ChannelAct",
    "ChannelInfo",
    "ChannelReader",
    "Checkpoint",
    "CleancutError",
    "Compatibility",
    "Coordinator",
    "CoordinatorStatus",
    "CorruptedError",
    "Costs",
    "CutDetails",
    "CutInfo",
    "DailyCost",
    "DailyCosts",
    "Dataflow",
    "DiffInfo",
    "Difference",
    "DrillInfo",
    "EpochHistory",
    "EpochInfo",
    "ErrorKind",
    "Expiry",
    "FamilyInfo",
    "FencedError",
    "FlowAge",
    "FlowCut",
    "FlowEdge",
    "FlowExpiry",
    "FlowInFlight",
    "FlowMember",
    "FlowPlan",
    "FlowProblem",
    "FlowReport",
    "FlowRun",
    "FlowStatus",
    "FrameInfo",
    "InfoList",
    "InternalError",
    "KeptCut",
    "LiveView",
    "MemberAct",
    "MetricsServer",
    "OperatorCut",
    "OperatorPlan",
    "Pace",
    "PartitionSize",
    "PlacedFrameInfo",
    "Plan",
    "PriceList",
    "Problem",
    "ProvenCut",
    "ReplicaInfo",
    "ReplicaStatus",
    "RequestCount",
    "RequestError",
    "RequestsByKind",
    "RetryableError",
    "SavepointInfo",
    "SkewInfo",
    "SlowEpoch",
    "StoreCutInfo",
    "StoreInfo",
    "StoreTime",
    "Usage",
    "VerifyReport",
    "__version__",
    "adopt",
    "bootstrap",
    "clone",
    "compatible",
    "configure",
    "coordinator",
    "dataflow",
    "edit",
    "errors",
    "in_sequence",
    "iterate",
    "jar_paths",
    "migrate",
    "release",
    "rescale",
    "rollback",
    "seal",
    "serve_metrics",
    "sinks",
    "stop",
    "testing",
]
