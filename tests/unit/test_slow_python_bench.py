"""The table of the benchmark with a slow Python function."""

from tests.bench.slow_python import Taken, table


def test_each_run_is_compared_with_the_one_without_the_slow_key() -> None:
    results = {
        "without the slow key": Taken([1000, 2000, 3000], [0, 0, 0], 0, 0, []),
        "`unaligned`": Taken([2000, 1000, 9000], [1, 0, 1200], 37, 4321, []),
    }
    assert table(results).splitlines()[2:] == [
        "| without the slow key | 2000 ms | 3000 ms | 3000 ms | 1.00 | 0 | 0 | 0 ms | 0.0 s |",
        "| `unaligned` | 2000 ms | 9000 ms | 9000 ms | 1.00 | 2 | 1,200 | 37 ms | 4.3 s |",
    ]
