"""The frames of a seal."""

from cleancut._checkpoint.read.chain_parts import ChainParts
from cleancut._format.chains import PlacedFrame
from cleancut._format.cut.cut import Cut
from cleancut._storage.objects import Objects


def sealed_frames(objects: Objects, seal: Cut) -> list[PlacedFrame]:
    """Returns the last frame of each store of a seal, including those of in-flight rows."""
    last = [chain[-1] for chain in seal.held.values()]
    for part in seal.paged.window:
        frames = ChainParts(objects).frames(part.table)
        last += [
            frame for frame in frames if part.counts(frame.offset) and not frame.store.is_channel
        ]
    return last
