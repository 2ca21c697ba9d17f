"""What a query writes its epochs with, exactly once: sinks, and a decorator for functions."""

from cleancut.sinks._files import EpochFiles, PublishedEpoch
from cleancut.sinks._foreach import sealing

__all__ = ["EpochFiles", "PublishedEpoch", "sealing"]
