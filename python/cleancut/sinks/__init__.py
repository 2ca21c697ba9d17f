"""What a query writes its epochs with, exactly once: sinks, and a decorator for functions."""

from cleancut.sinks.files import EpochFiles, PublishedEpoch
from cleancut.sinks.foreach import sealing

__all__ = ["EpochFiles", "PublishedEpoch", "sealing"]
