"""Several queries that send to each other, and the cuts that are consistent over all of them.

But for channels and loops, which queries run with, nothing here needs Spark or a JVM: what is
decided, is decided from what the object stores hold.
"""

from typing import TYPE_CHECKING

from cleancut._lazy import lazy_attributes

if TYPE_CHECKING:
    from cleancut.dataflow._channel.channel import Channel
    from cleancut.dataflow._channel.loop import iterate
    from cleancut.dataflow._channel.readers import ChannelReader
    from cleancut.dataflow._cuts.checking import FlowProblem, FlowReport
    from cleancut.dataflow._cuts.expiring import FlowExpiry
    from cleancut.dataflow._cuts.running import FlowRun
    from cleancut.dataflow._dataflow import Attending, Dataflow
    from cleancut.dataflow._model.infos import (
        FlowAge,
        FlowCut,
        FlowEdge,
        FlowInFlight,
        FlowMember,
        FlowStatus,
    )
    from cleancut.dataflow._operations.acts import ChannelAct, FlowPlan, MemberAct
else:
    # Imported at first use: a Python worker that needs one function imports its module alone.
    __getattr__, __dir__ = lazy_attributes(
        __name__,
        {
            "dataflow._channel.channel": ("Channel",),
            "dataflow._channel.loop": ("iterate",),
            "dataflow._channel.readers": ("ChannelReader",),
            "dataflow._cuts.checking": ("FlowProblem", "FlowReport"),
            "dataflow._cuts.expiring": ("FlowExpiry",),
            "dataflow._cuts.running": ("FlowRun",),
            "dataflow._dataflow": ("Attending", "Dataflow"),
            "dataflow._model.infos": (
                "FlowAge",
                "FlowCut",
                "FlowEdge",
                "FlowInFlight",
                "FlowMember",
                "FlowStatus",
            ),
            "dataflow._operations.acts": ("ChannelAct", "FlowPlan", "MemberAct"),
        },
    )

__all__ = [
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
]
