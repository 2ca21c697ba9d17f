"""Test kit: slow, uneven or blocked partitions, comparisons, and the contract of sinks.

All of it works wherever a query runs: `slow` and `Block` run in the tasks, in any process, and
`SkewedInput` creates the same rows for the same seed. `SinkContract` needs no stream.
"""

from typing import TYPE_CHECKING

from cleancut._lazy import lazy_attributes

if TYPE_CHECKING:
    from cleancut.testing._block import Block
    from cleancut.testing._compare import RowComparison, assert_same_rows, compare_rows, last_rows
    from cleancut.testing._epoch_rows import EpochRows
    from cleancut.testing._sink_contract import SinkContract
    from cleancut.testing._skew import SkewedInput
    from cleancut.testing._slow import slow
else:
    # Imported at first use: a Python worker that needs one function imports its module alone.
    __getattr__, __dir__ = lazy_attributes(
        __name__,
        {
            "testing._block": ("Block",),
            "testing._epoch_rows": ("EpochRows",),
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
