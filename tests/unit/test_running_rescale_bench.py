"""The table of the benchmark of a query that is rescaled while it runs."""

from tests.bench.running_rescale import Rescaled, table


def test_the_first_epoch_after_an_operation_counts_alone() -> None:
    results = [Rescaled(4, 8, 512.4, usual_ms=[300, 200, 250], later_ms=[900, 240, 400, 260])]
    assert table(1_000_000, results).splitlines()[2:] == [
        "| 1,000,000 | 4 to 8 | 512 ms | 250 ms | 900 ms | 400 ms | 260 ms |"
    ]
