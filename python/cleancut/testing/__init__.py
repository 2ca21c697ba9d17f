"""What makes partitions slow, uneven or stuck on purpose, and what a sink has to hold, as tests.

All of it works wherever a query runs: `slow` and `Block` act in the tasks, in whatever process
these are, and `SkewedInput` gives the same rows for the same seed. `SinkContract` takes no stream.
"""

from typing import TYPE_CHECKING

from cleancut._lazy import lazy_attributes

if TYPE_CHECKING:
    from cleancut.testing._block import Block
    from cleancut.testing._collected import EpochRows
    from cleancut.testing._compare import RowComparison, assert_same_rows, compare_rows, last_rows
    from cleancut.testing._sink_contract import SinkContract
    from cleancut.testing._skew import SkewedInput
    from cleancut.testing._slow import slow
else:
    # Imported at first use: a Python worker that needs one function imports its module alone.
    __getattr__, __dir__ = lazy_attributes(
        __name__,
        {
            "testing._block": ("Block",),
            "testing._collected": ("EpochRows",),
            "testing._compare": ("RowComparison", "assert_same_rows", "compare_rows", "last_rows"),
            "testing._sink_contract": ("SinkContract",),
            "testing._skew": ("SkewedInput",),
            "testing._slow": ("slow",),
        },
    )

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
