"""The table that compares state store providers."""

from demo.bench import table


def test_the_ratio_is_the_median_of_those_of_each_epoch_to_the_better_of_the_others() -> None:
    times = {
        "hourly": {
            "cleancut": [10.0, 20.0, 10.0],
            "rocksdb": [20.0, 30.0, 40.0],
            "hdfs": [90.0, 90.0, 90.0],
        },
        "rotations": {
            "cleancut": [100.0, 200.0, 100.0],
            "rocksdb": [90.0, 180.0, 95.0],
            "hdfs": [500.0, 500.0, 500.0],
        },
    }
    assert table(times).splitlines() == [
        "| query | epochs | cleancut | rocksdb | hdfs | over the better |",
        "|---|---|---|---|---|---|",
        "| hourly | 3 | 10 ms | 30 ms | 90 ms | 2.00 |",
        "| rotations | 3 | 100 ms | 95 ms | 500 ms | 0.90 |",
    ]
