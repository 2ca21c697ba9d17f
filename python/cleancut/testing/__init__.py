"""What makes partitions slow, uneven or stuck on purpose, and what a sink has to hold, as tests.

All of it works wherever a query runs: `slow` and `Block` act in the tasks, in whatever process
these are, and `SkewedInput` gives the same rows for the same seed. `SinkContract` takes no stream.
"""

from cleancut.testing._block import Block
from cleancut.testing._collected import EpochRows
from cleancut.testing._compare import RowComparison, assert_same_rows, compare_rows, last_rows
from cleancut.testing._sink_contract import SinkContract
from cleancut.testing._skew import SkewedInput
from cleancut.testing._slow import slow

__all__ = [
    "Block",
    "EpochRows",
    "RowComparison",
    "SinkContract",
    "SkewedInput",
    "assert_same_rows",
    "compare_rows",
    "last_rows",
    "slow",
]
