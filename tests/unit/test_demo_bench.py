"""The table of the comparison between providers."""

from demo.bench import Turn, table


def test_the_ratio_is_the_median_of_those_within_a_turn_to_the_better_of_the_others() -> None:
    times = {
        "cleancut": [(10.0, 100.0), (20.0, 200.0), (10.0, 100.0)],
        "rocksdb": [(20.0, 90.0), (30.0, 180.0), (40.0, 95.0)],
        "hdfs": [(90.0, 500.0), (90.0, 500.0), (90.0, 500.0)],
    }
    turns = [
        Turn(provider, dict(zip(("hourly", "rotations"), pair, strict=True)))
        for provider, pairs in times.items()
        for pair in pairs
    ]
    assert table(turns).splitlines() == [
        "| query | cleancut | rocksdb | hdfs | over the better |",
        "|---|---|---|---|---|",
        "| hourly | 10 ms | 30 ms | 90 ms | 2.00 |",
        "| rotations | 100 ms | 95 ms | 500 ms | 0.90 |",
    ]
