"""The table of the comparison between providers."""

from demo.bench import Turn, cpu_ms, table
from demo.events import Epoch


def test_the_ratio_is_the_median_of_those_within_a_turn_to_the_better_of_the_others() -> None:
    times = {
        "cleancut": [(10.0, 100.0), (20.0, 200.0), (10.0, 100.0)],
        "rocksdb": [(20.0, 90.0), (30.0, 180.0), (40.0, 95.0)],
        "hdfs": [(90.0, 500.0), (90.0, 500.0), (90.0, 500.0)],
    }
    turns = [
        Turn(provider, dict(zip(("hourly", "rotations"), pair, strict=True)), cpu_ms=pair[1])
        for provider, pairs in times.items()
        for pair in pairs
    ]
    assert table(turns).splitlines() == [
        "| query | cleancut | rocksdb | hdfs | over the better |",
        "|---|---|---|---|---|",
        "| hourly | 10 ms | 30 ms | 90 ms | 2.00 |",
        "| rotations | 100 ms | 95 ms | 500 ms | 0.90 |",
        "| CPU of the JVM, of both | 100 ms | 95 ms | 500 ms | 0.90 |",
    ]


def test_cpu_time_counts_from_when_both_queries_have_warmed_up() -> None:
    def epochs(query: str, times: list[float]) -> list[Epoch]:
        return [Epoch(query, i, 1, 1.0, 1, 1, 0, cpu_s) for i, cpu_s in enumerate(times)]

    hourly = epochs("hourly", [1.0, 2.0, 3.0, 6.0, 9.0])
    rotations = epochs("rotations", [2.0, 4.0, 5.0, 7.0])
    assert cpu_ms([*hourly, *rotations]) == 1000 * (9.0 - 5.0) / 3
