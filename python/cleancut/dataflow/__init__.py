"""Several queries connected by channels, and consistent cuts of all of them.

Except for channels and loops, which are part of queries, nothing here needs Spark or a JVM: all
decisions are based on the objects in the object store.
"""

from typing import TYPE_CHECKING

from cleancut._lazy import lazy_attributes

if TYPE_CHECKING:
    from cleancut.dataflow._channel.channel import Channel
    from cleancut.dataflow._channel.loop import iterate
    from cleancut.dataflow._channel.readers import ChannelReader
    from cleancut.dataflow._cuts.expiry import DataflowExpiry
    from cleancut.dataflow._cuts.run import DataflowRun
    from cleancut.dataflow._cuts.verification import DataflowProblem, DataflowReport
    from cleancut.dataflow._dataflow import Dataflow, Participant
    from cleancut.dataflow._model.infos import (
        DataflowCut,
        DataflowEdge,
        DataflowInFlight,
        DataflowMember,
        DataflowStatus,
        MemberAge,
    )
    from cleancut.dataflow._operations.rollback import ChannelChange, DataflowPlan, MemberChange
else:
    # Imported at first use: a Python worker that needs one function imports its module alone.
    __getattr__, __dir__ = lazy_attributes(
        __name__,
        {
            "dataflow._channel.channel": ("Channel",),
            "dataflow._channel.loop": ("iterate",),
            "dataflow._channel.readers": ("ChannelReader",),
            "dataflow._cuts.verification": ("DataflowProblem", "DataflowReport"),
            "dataflow._cuts.expiry": ("DataflowExpiry",),
            "dataflow._cuts.run": ("DataflowRun",),
            "dataflow._dataflow": ("Participant", "Dataflow"),
            "dataflow._model.infos": (
                "MemberAge",
                "DataflowCut",
                "DataflowEdge",
                "DataflowInFlight",
                "DataflowMember",
                "DataflowStatus",
            ),
            "dataflow._operations.rollback": ("ChannelChange", "DataflowPlan", "MemberChange"),
        },
    )

__all__ = [
    "Channel",
    "ChannelChange",
    "ChannelReader",
    "Dataflow",
    "DataflowCut",
    "DataflowEdge",
    "DataflowExpiry",
    "DataflowInFlight",
    "DataflowMember",
    "DataflowPlan",
    "DataflowProblem",
    "DataflowReport",
    "DataflowRun",
    "DataflowStatus",
    "MemberAge",
    "MemberChange",
    "Participant",
    "iterate",
]
