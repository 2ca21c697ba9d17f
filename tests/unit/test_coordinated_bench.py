"""The table of the benchmark that runs a dataflow coordinator concurrently with its queries."""

from pathlib import Path

import pytest

from tests.bench import coordinated
from tests.bench.coordinated import Window, alone, table


def test_the_table_has_medians_and_the_mean_ratio_of_the_pairs_with_its_noise() -> None:
    pairs = [
        (
            Window(jvm_ms=100, python_ms=10, epochs_ms=[10, 30], cuts=5),
            Window(jvm_ms=90, python_ms=10, epochs_ms=[20]),
        ),
        (
            Window(jvm_ms=70, python_ms=20, epochs_ms=[10], cuts=4),
            Window(jvm_ms=90, python_ms=10, epochs_ms=[10]),
        ),
        (
            Window(jvm_ms=390, python_ms=10, epochs_ms=[40], cuts=6),
            Window(jvm_ms=390, python_ms=10, epochs_ms=[20]),
        ),
    ]
    assert table(pairs).splitlines() == [
        "3 pairs, 15 cuts of the dataflow",
        "",
        "| | with a coordinator | without | ratio, mean of the pairs |",
        "|---|---|---|---|",
        "| processor time of the driver in a second | 110 ms | 100 ms | 1.000 ± 0.115 |",
        "| that of its Python alone | 10 ms | 10 ms | 1.333 ± 0.667 |",
        "| an epoch, mean of the queries | 20 ms | 20 ms | 1.333 ± 0.667 |",
        "| epochs in a window | 1 | 1 | 1.333 ± 0.667 |",
    ]


def test_a_coordinator_alone_makes_a_vector_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinated, "_VECTORS", 3)
    assert all(duration > 0 for duration in alone(tmp_path, 2))
    assert len(list((tmp_path / "flow/vectors").iterdir())) == 1 + 3
