"""Consistent cuts for Spark Structured Streaming.

`configure` makes a session keep its streaming state in Cleancut, and `Checkpoint` looks into the
checkpoint of a query without a JVM.
"""

from typing import TYPE_CHECKING

from cleancut._lazy import lazy_attributes
from cleancut._version import __version__

if TYPE_CHECKING:
    from cleancut import errors, sinks, testing
    from cleancut._checkpoint import Checkpoint
    from cleancut._dataflow.acts import ChannelAct, FlowPlan, MemberAct
    from cleancut._dataflow.channel import Channel
    from cleancut._dataflow.checking import FlowProblem, FlowReport
    from cleancut._dataflow.dataflow import Attending, Dataflow
    from cleancut._dataflow.expiring import FlowExpiry
    from cleancut._dataflow.infos import (
        FlowAge,
        FlowCut,
        FlowEdge,
        FlowInFlight,
        FlowMember,
        FlowStatus,
    )
    from cleancut._dataflow.loop import iterate
    from cleancut._dataflow.readers import ChannelReader
    from cleancut._dataflow.running import FlowRun
    from cleancut._display.info_list import InfoList
    from cleancut._format.channels import ChannelInfo, OperatorCut
    from cleancut._format.costs import Costs, RequestCount, RequestsByKind, StoreTime, Usage
    from cleancut._metrics.prometheus import MetricsServer
    from cleancut._reading.changes import DiffInfo
    from cleancut._reading.cut_info import (
        ChainInfo,
        CutDetails,
        CutInfo,
        PlacedFrameInfo,
        SavepointInfo,
        StoreCutInfo,
    )
    from cleancut._reading.epoch_history import EpochHistory
    from cleancut._reading.epoch_info import EpochInfo, SlowEpoch
    from cleancut._reading.prices import DailyCost, DailyCosts, PriceList
    from cleancut._reading.skew import PartitionSize, SkewInfo
    from cleancut._reading.store_info import FamilyInfo, FrameInfo, StoreInfo
    from cleancut._recovery.expiry import Expiry, KeptCut
    from cleancut._recovery.followed import ProvenCut, ReplicaStatus
    from cleancut._recovery.replicas import ReplicaInfo
    from cleancut._spark.compatible import Compatibility, Difference, compatible
    from cleancut._spark.coordinator import Coordinator, CoordinatorStatus, coordinator
    from cleancut._spark.first_state import bootstrap, migrate
    from cleancut._spark.jars import jar_paths
    from cleancut._spark.live_view import LiveView
    from cleancut._spark.metrics_server import serve_metrics
    from cleancut._spark.offline import (
        OperatorPlan,
        Plan,
        adopt,
        clone,
        edit,
        release,
        rescale,
        rollback,
    )
    from cleancut._spark.pace import Pace
    from cleancut._spark.sealing import seal
    from cleancut._spark.sequence import in_sequence
    from cleancut._spark.session import configure
    from cleancut._spark.stopping import stop
    from cleancut._verifying.drill import DrillInfo
    from cleancut._verifying.report import Problem, VerifyReport
    from cleancut.errors import (
        CleancutError,
        DamagedError,
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
            "": ("errors", "sinks", "testing"),
            "_checkpoint": ("Checkpoint",),
            "_dataflow.acts": ("ChannelAct", "FlowPlan", "MemberAct"),
            "_dataflow.channel": ("Channel",),
            "_dataflow.checking": ("FlowProblem", "FlowReport"),
            "_dataflow.expiring": ("FlowExpiry",),
            "_dataflow.infos": (
                "FlowAge",
                "FlowCut",
                "FlowEdge",
                "FlowInFlight",
                "FlowMember",
                "FlowStatus",
            ),
            "_dataflow.loop": ("iterate",),
            "_dataflow.readers": ("ChannelReader",),
            "_dataflow.running": ("FlowRun",),
            "_reading.epoch_history": ("EpochHistory",),
            "_display.info_list": ("InfoList",),
            "_format.channels": ("ChannelInfo", "OperatorCut"),
            "_format.costs": ("Costs", "RequestCount", "RequestsByKind", "StoreTime", "Usage"),
            "_metrics.prometheus": ("MetricsServer",),
            "_reading.changes": ("DiffInfo",),
            "_reading.cut_info": (
                "ChainInfo",
                "CutDetails",
                "CutInfo",
                "PlacedFrameInfo",
                "SavepointInfo",
                "StoreCutInfo",
            ),
            "_reading.epoch_info": ("EpochInfo", "SlowEpoch"),
            "_reading.prices": ("DailyCost", "DailyCosts", "PriceList"),
            "_reading.skew": ("PartitionSize", "SkewInfo"),
            "_reading.store_info": ("FamilyInfo", "FrameInfo", "StoreInfo"),
            "_recovery.expiry": ("Expiry", "KeptCut"),
            "_recovery.followed": ("ProvenCut", "ReplicaStatus"),
            "_recovery.replicas": ("ReplicaInfo",),
            "_spark.compatible": ("Compatibility", "Difference", "compatible"),
            "_spark.coordinator": ("Coordinator", "CoordinatorStatus", "coordinator"),
            "_dataflow.dataflow": ("Attending", "Dataflow"),
            "_spark.first_state": ("bootstrap", "migrate"),
            "_spark.jars": ("jar_paths",),
            "_spark.live_view": ("LiveView",),
            "_spark.metrics_server": ("serve_metrics",),
            "_spark.offline": (
                "OperatorPlan",
                "Plan",
                "adopt",
                "clone",
                "edit",
                "release",
                "rescale",
                "rollback",
            ),
            "_spark.pace": ("Pace",),
            "_spark.sealing": ("seal",),
            "_spark.sequence": ("in_sequence",),
            "_spark.session": ("configure",),
            "_spark.stopping": ("stop",),
            "_verifying.drill": ("DrillInfo",),
            "_verifying.report": ("Problem", "VerifyReport"),
            "errors": (
                "CleancutError",
                "DamagedError",
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
    "Costs",
    "CutDetails",
    "CutInfo",
    "DailyCost",
    "DailyCosts",
    "DamagedError",
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
